"""The cache, and the metrics that are read from it."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.identity import JobIdentity
from sparkapp.model import names
from sparkapp.model.report import DriverState, Report, encode_report
from tests.support.kubernetes.operator_fixture import KEY, job_body


def test_the_cache_gives_back_what_decides_and_nothing_else() -> None:
    cache = Cache()
    body = job_body()
    body["metadata"] |= {"generation": 3, "resourceVersion": "12", "managedFields": [{}], "annotations": {"a": "b"}}
    body["status"] = {"state": "Running", "attempt": {"id": 4}, "source": {"lagRecords": 7}}
    key = cache.put_job(body)
    job = cache.job(key)
    assert job is not None
    assert (job.identity, job.generation, job.resource_version) == (("team", "orders", "job-uid"), 3, "12")
    assert job.spec == body["spec"]
    cache.drop_job(key)
    assert cache.observe(key) is None


def test_the_cache_knows_the_jobs_that_have_a_place_for_state() -> None:
    cache = Cache()
    for checkpoint in ({"stateVolume": {"claimName": "state"}}, {"state": {"storage": {"s3": {"bucket": "state"}}}}):
        key = cache.put_job(job_body(checkpoint=checkpoint))
        assert cache.stateful == [key]
        cache.put_job(job_body(transform={"sql": 'SELECT "stateVolume" FROM input'}))
        assert cache.stateful == []
    key = cache.put_job(job_body(checkpoint={"stateVolume": {"claimName": "state"}}))
    cache.drop_job(key)
    assert cache.stateful == []


def test_metrics_of_a_deleted_job_are_gone() -> None:
    cache = Cache()
    metrics = OperatorMetrics(cache)
    body = job_body()
    body["metadata"] |= {"generation": 1, "resourceVersion": "1"}
    body["status"] = {
        "state": "Running",
        "source": {"lagRecords": 7},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    key = cache.put_job(body)
    text = metrics.render().decode()
    assert 'kafkaspark_job_lag_records{job="orders",namespace="team"} 7.0' in text
    assert 'kafkaspark_job_state{job="orders",namespace="team",state="Running"} 1.0' in text
    assert 'kafkaspark_job_ready{job="orders",namespace="team"} 1.0' in text
    cache.drop_job(key)
    assert "orders" not in metrics.render().decode()


def report_body(text: str, *, uid: str = "job-uid", **data: str) -> dict[str, Any]:
    owner = {"kind": names.KIND, "uid": uid}
    return {"metadata": {"ownerReferences": [owner]}, "data": {names.REPORT_KEY: text, **data}}


def written(cache: Cache) -> str:
    """Everything that the cache keeps of reports."""
    return repr(cache._reports)


def test_a_report_of_a_mebibyte_is_not_kept() -> None:
    cache = Cache()
    cache.put_report(KEY, report_body("x" * (1 << 20)))
    assert len(written(cache)) < 1000
    cache.put_report(KEY, report_body("{}", junk="x" * (1 << 20)))
    assert len(written(cache)) < 1000
    cache.put_report(KEY, report_body("\u20ac" * 60_000))
    assert len(written(cache)) < 1000, "180 KB of UTF-8"


def test_a_report_counts_where_the_resource_owns_its_config_map() -> None:
    text = encode_report(
        Report(job_uid="job-uid", attempt=1, state=DriverState.RUNNING, updated_at="2026-11-21T12:00:00Z")
    )
    identity = JobIdentity(*KEY, "job-uid")
    cache = Cache()
    cache.put_report(KEY, report_body(text))
    assert cache.report(KEY, identity) is not None
    cache.put_report(KEY, report_body(text, uid="another-uid"))
    assert cache.report(KEY, identity) is None
