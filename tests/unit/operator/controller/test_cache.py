"""The cache, and the metrics that are read from it."""

from __future__ import annotations

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from tests.support.kubernetes.operator_fixture import job_body


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
