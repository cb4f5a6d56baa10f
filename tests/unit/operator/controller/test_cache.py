"""The cache, and the metrics that are read from it."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.controller.cache import SPARED_SECONDS, Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.identity import JobIdentity, JobKey
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


def kept(cache: Cache) -> list[str]:
    return [view.name for view in cache.snapshots(KEY) if view.kept]


def test_a_snapshot_is_kept_while_any_job_of_its_namespace_names_it() -> None:
    cache = Cache()
    jobs = [job_body(startFrom={"snapshot": "old"}), job_body(restore={"snapshot": "old", "nonce": 1})]
    for number, body in enumerate(jobs):
        body["metadata"]["name"] = f"clone-{number}"
        cache.put_job(body)
        cache.put_job(body)
    for name in ("old", "new"):
        meta = {"namespace": KEY.namespace, "name": name, "uid": name}
        spec = {"jobRef": {"name": KEY.name, "uid": "job-uid"}, "trigger": "Periodic"}
        cache.put_snapshot({"metadata": meta, "spec": spec})
    assert kept(cache) == ["old"]
    cache.drop_job(JobKey(KEY.namespace, "clone-0"))
    assert kept(cache) == ["old"]
    cache.put_job({**jobs[1], "spec": {"restore": {"nonce": 1}}})
    assert kept(cache) == []


def test_a_snapshot_that_was_not_deleted_is_kept_for_a_while() -> None:
    seconds = 0.0
    cache = Cache(clock=lambda: seconds)
    meta = {"namespace": KEY.namespace, "name": "old", "uid": "old"}
    body = {"metadata": meta, "spec": {"jobRef": {"name": KEY.name, "uid": "job-uid"}, "trigger": "Periodic"}}
    cache.put_snapshot(body)
    cache.spare_snapshot(JobKey(KEY.namespace, "old"))
    assert kept(cache) == ["old"]
    seconds = SPARED_SECONDS
    assert kept(cache) == []
    seconds = 0.0
    cache.drop_snapshot(JobKey(KEY.namespace, "old"))
    cache.put_snapshot(body)
    assert kept(cache) == [], "another snapshot of the name"
