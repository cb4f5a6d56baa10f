"""The autoscaler on a real API server: the operator's process decides, and asks the driver by its pod's annotations."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import pytest

from sparkapp.model import names
from sparkapp.model.report import AttemptOutcome, Termination
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running
from tests.support.kubernetes.reported_load import LITTLE, MORE, POLICY, reports


@pytest.fixture
def job(api: ApiClient, running: Running) -> LiveJob:
    return LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")


def asked(job: LiveJob, parallelism: int) -> bool:
    """Whether the driver of the first attempt was asked for that parallelism."""
    meta = job.api.call("GET", f"{job.pods_path}/{names.driver_pod(job.name, 1)}")["metadata"]
    return bool(meta["annotations"].get(names.ANNOTATION_PARALLELISM) == str(parallelism))


def scaling(job: LiveJob) -> dict[str, Any]:
    found: dict[str, Any] = job.status.get("autoscaler", {})
    return found


def test_the_load_reaches_the_running_driver_and_the_spec_stays(job: LiveJob) -> None:
    job.create(engine="Continuous", autoscaler=POLICY)
    job.run(1)
    reports(job, MORE, partial(asked, job, 8), parallelism=2, rescales=True)
    assert job.body["spec"]["parallelism"] == 2
    assert job.status["parallelism"] == 2
    assert scaling(job)["parallelism"] == 8
    job.await_state("Rescaling", reason="RescalingInPlace")
    reports(
        job, MORE, lambda: scaling(job).get("effectiveSince"), parallelism=8, rescales=True, rescaling=8
    )  # fmt: skip
    assert job.api.call("GET", f"{job.path}/scale")["status"]["replicas"] == 8
    reports(job, LITTLE, partial(asked, job, 1), parallelism=8, rescales=True, rescaling=8)
    job.await_state("Rescaling", reason="RescalingInPlace")
    reports(job, LITTLE, lambda: job.status["parallelism"] == 1, parallelism=1, rescales=True, rescaling=1)
    job.await_state("Running")
    assert job.status["attempt"]["id"] == 1
    reasons = [reason for reason, _ in job.events]
    assert [each for each in reasons if each.startswith("Scaling")] == ["ScalingUp", "ScalingDown"]
    assert reasons.index("ScalingUp") < reasons.index("RescaleStarted") < reasons.index("Rescaled")
    assert job.body["metadata"]["generation"] == 1
    job.release(1)


def test_kubectl_scale_is_carried_out_within_the_bounds(job: LiveJob) -> None:
    job.create(engine="Continuous", autoscaler=POLICY)
    job.run(1)
    job.report(1, checkpoint_id=10, engine="Continuous", parallelism=2, rescales=True)
    job.api.merge(f"{job.path}/scale", {"spec": {"replicas": 100}})
    await_that("the annotations", partial(asked, job, 8), seconds=30)
    assert job.body["spec"]["parallelism"] == 100
    job.release(1)


def test_a_job_in_micro_batches_restarts_at_a_checkpoint(job: LiveJob) -> None:
    job.create(autoscaler={**POLICY, "scaleDownDelaySeconds": 600})
    job.run(1)
    reports(job, MORE, lambda: job.status["attempt"].get("stopReason") == "Rescale")
    job.await_deletion(1)
    job.checkpoint(1, 20, drained=True)
    end = Termination(outcome=AttemptOutcome.DRAINED, reason="Drained", message="stopped", checkpoint_id=20)
    job.ends(1, end, code=0, reason="Completed")
    job.release(1)
    job.run(2)
    assert job.status["parallelism"] == 8
    assert job.body["spec"]["parallelism"] == 2
    assert job.status["attempt"]["startReason"] == "Rescaled"
    job.release(2)


def test_a_dry_run_only_tells(job: LiveJob) -> None:
    job.create(engine="Continuous", autoscaler={**POLICY, "dryRun": True})
    job.run(1)
    reports(job, MORE, lambda: "ScalingAdvised" in [reason for reason, _ in job.events], parallelism=2, rescales=True)
    assert scaling(job)["recommended"] == 8
    assert "parallelism" not in scaling(job)
    assert job.status["state"] == "Running"
    job.release(1)
