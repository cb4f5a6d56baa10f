"""A missing topic and an error in the user's code, when a job has both."""

from __future__ import annotations

from sparkapp.model.errors import KafkaSparkJobError, TopicNotFound, TransformError
from sparkapp.model.job.sections.transform import Transform
from sparkapp.spark.frames.transform import check_code


def with_code_error(error: TopicNotFound, transform: Transform) -> KafkaSparkJobError:
    """The error to report: of both where the transform's module does not import, too.

    Called by the wiring, which looks for topics before it imports code. A person would create the topic, and only then
    learn that the code does not work. The error of both is fatal, because no restart corrects code.
    """
    try:
        check_code(transform)
    except TransformError as code:
        return TransformError(f"{code.message}; and {error.message}", remedy=f"{error.remedy}; {code.remedy}")
    return error
