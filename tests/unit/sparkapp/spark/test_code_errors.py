"""A missing topic and an error of the code in one report."""

from __future__ import annotations

from dataclasses import replace

from sparkapp.model.errors import TopicNotFound, TransformError
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job
from sparkapp.spark.wiring.code_errors import with_code_error
from tests.support.jobs.plain_job import plain_spec


def test_the_remedy_of_both_has_the_jobs_names() -> None:
    """Seen: kubectl edit ksj NAME."""
    spec = replace(plain_spec(), transform=Transform(function="no_such_module:go"))
    job = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=2, spec=spec)
    found = with_code_error(TopicNotFound("source topic 'in' does not exist"), job)
    assert isinstance(found, TransformError)
    assert "No module named 'no_such_module'" in found.message
    assert "source topic 'in' does not exist" in found.message
    assert "kubectl edit ksj orders -n shop" in found.remedy
