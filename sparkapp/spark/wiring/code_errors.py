"""A missing topic and an error in the user's code, when a job has both."""

from __future__ import annotations

from sparkapp.model.commands import remedy_for
from sparkapp.model.errors import KafkaSparkJobError, TopicNotFound, TransformError
from sparkapp.model.job.spec import Job
from sparkapp.spark.frames.transform import check_code


def with_code_error(error: TopicNotFound, job: Job) -> KafkaSparkJobError:
    """The error to report: of both where the transform's module does not import, too.

    Called by the wiring, which looks for topics before it imports code. A person would create the topic, and only then
    learn that the code does not work. The error of both is fatal, because no restart corrects code.
    """
    try:
        check_code(job.spec.transform)
    except TransformError as code:
        # A remedy that is not the class's own keeps its placeholders.
        remedy = "; ".join(remedy_for(each, job) for each in (error, code))
        return TransformError(f"{code.message}; and {error.message}", remedy=remedy)
    return error
