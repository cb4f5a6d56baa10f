"""The autoscaler of a job in a cluster: decisions are explained, then carried out, and never written to the spec."""

from __future__ import annotations

import json

import pytest

from kafkasparkjob_operator.resources.config_maps import RESOURCE_SPEC_KEY
from sparkapp.model import names
from sparkapp.model.report import DriverState, Load, PartitionLoad
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, record_name
from tests.support.kubernetes.scaled_job import CALM, LITTLE, MORE, POLICY, Job, load


@pytest.fixture
async def job() -> Job:
    return await Job().start()


async def test_a_load_that_fits_changes_nothing(job: Job) -> None:
    await job.sees(CALM, 60)
    await job.sees(CALM, 60)
    assert job.scaling["reason"] == "Balanced"
    assert "1000 records/s arrive" in job.scaling["message"]
    assert job.asked is None
    assert job.events == []


async def test_a_need_that_lasts_is_explained_and_then_carried_out_in_place(job: Job) -> None:
    await job.sees(MORE, 60)
    assert (job.scaling["reason"], job.scaling["recommended"]) == ("Stabilizing", 8)
    assert job.asked is None
    await job.sees(MORE, 29)
    assert job.asked is None, "the need lasts for less than stabilizationSeconds"
    writes = len(job.fixture.kubernetes.writes)
    await job.sees(MORE, 1)
    verbs = [kind for _, kind, _ in job.fixture.kubernetes.writes[writes:]]
    assert job.asked == "8"
    assert job.events == ["ScalingUp"]
    assert verbs.index("Event") < verbs.index(names.KIND) < verbs.index("Pod"), "explained before it acts"
    assert job.fixture.kubernetes.job(KEY)["spec"]["parallelism"] == 2, "the spec is its owner's"
    assert job.fixture.status["state"] == "Rescaling"
    target = job.fixture.status["target"]
    assert (target["parallelism"], target["cause"]) == (8, "Autoscaled")
    assert job.fixture.status["parallelism"] == 2, "what runs"
    await job.follows(8)
    assert job.fixture.status["parallelism"] == 8
    assert job.scaling["rescaleSeconds"] == 5
    assert (job.scaling["fromParallelism"], job.scaling["parallelism"]) == (2, 8)
    assert job.scaling["reason"] == "Stabilizing"
    assert job.fixture.status["state"] == "Running"


async def test_a_spike_is_over_before_it_counts(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(CALM, 20)
    await job.sees(MORE, 20)
    assert job.asked is None
    assert job.events == []


async def test_fewer_subtasks_come_after_the_delay_with_the_most_that_was_needed(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    await job.sees(load(1500, read=1500, busy=19), 60)
    assert job.scaling["reason"] == "WaitsToShrink"
    await job.sees(LITTLE, 300)
    await job.sees(LITTLE, 299)
    assert job.asked == "8"
    await job.sees(LITTLE, 1)
    assert job.asked == "3", "1500 records/s were needed within the delay"
    assert job.events == ["ScalingUp", "ScalingDown"]


async def test_a_second_rescale_of_the_same_resource_has_its_own_events(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    await job.sees(LITTLE, 60)
    await job.sees(LITTLE, 600)
    job.runs = 1
    await job.sees(LITTLE, 5, rescaling=1)
    events = job.fixture.kubernetes.events()
    assert events.count("RescaleStarted") == events.count("Rescaled") == 2


async def test_an_attempt_that_cannot_rescale_in_place_is_replaced() -> None:
    job = await Job(in_place=False).start()
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    assert job.fixture.status["attempt"]["stopReason"] == "Rescale"
    job.fixture.driver_ends(1, DRAINED)
    await job.fixture.run(2)
    assert job.fixture.status["parallelism"] == 8
    assert job.fixture.status["attempt"]["startReason"] == "Rescaled"
    assert job.fixture.kubernetes.job(KEY)["spec"]["parallelism"] == 2
    job.attempt = 2
    await job.sees(MORE, 5)
    assert job.fixture.drivers == ["orders-2-driver"], "it runs what was decided"
    assert "stopReason" not in job.fixture.status["attempt"]


async def test_an_attempt_that_crashes_is_replaced_with_the_parallelism_of_the_decision(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    job.fixture.driver_ends(1)
    await job.fixture.settle()
    job.fixture.wait(30)
    await job.fixture.run(2)
    assert job.fixture.status["parallelism"] == 8


async def test_kubectl_scale_is_carried_out_and_ends_the_decision(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    job.fixture.kubernetes.edit_job(KEY, parallelism=4)
    await job.sees(CALM, 60)
    assert job.asked == "4"
    assert job.scaling.get("parallelism") is None
    assert job.fixture.status["target"]["cause"] == "Rescaled"
    job.runs = 4
    await job.sees(CALM, 5, rescaling=4)
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    assert job.asked == "8", "the autoscaler continues from there"


async def test_kubectl_scale_stays_within_the_bounds(job: Job) -> None:
    job.fixture.kubernetes.edit_job(KEY, parallelism=100)
    await job.sees(CALM, 60)
    assert job.asked == "8"


async def test_the_first_attempt_starts_within_the_bounds() -> None:
    job = await Job(autoscaler={**POLICY, "minParallelism": 4}).start()
    assert job.fixture.status["parallelism"] == 4


async def test_an_edit_of_the_autoscaler_restarts_nothing(job: Job) -> None:
    await job.sees(CALM, 60)
    job.fixture.kubernetes.edit_job(KEY, autoscaler={**POLICY, "targetUtilization": 50})
    await job.sees(CALM, 5)
    assert job.fixture.drivers == ["orders-1-driver"]
    assert job.fixture.status["attempt"]["generation"] == 2
    assert job.fixture.status["state"] == "Running"


async def test_without_the_autoscaler_the_job_has_the_parallelism_of_its_spec(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    job.fixture.kubernetes.edit_job(KEY, autoscaler=None)
    await job.sees(MORE, 5)
    assert job.asked == "2"
    assert job.scaling == {}


async def test_a_dry_run_tells_and_changes_nothing() -> None:
    job = await Job(autoscaler={**POLICY, "dryRun": True}).start()
    await job.sees(MORE, 60)
    for _ in range(5):
        await job.sees(MORE, 30)
    assert job.asked is None
    assert job.events == ["ScalingAdvised"]
    assert (job.scaling["reason"], job.scaling["recommended"]) == ("ScaledUp", 8)


async def test_a_hot_partition_is_named(job: Job) -> None:
    rows = (PartitionLoad("in", 5, 90000, 3000, 900), *(PartitionLoad("in", number, 0, 10, 10) for number in range(5)))
    hot = Load(
        window_millis=3000, busy_percent=60, lag=90000, arrived_per_second=3050, read_per_second=950, partitions=6,
        heaviest=rows,
    )  # fmt: skip
    await job.sees(hot, 60)
    await job.sees(hot, 60)
    await job.sees(hot, 60)
    assert job.asked is None
    assert job.scaling["reason"] == "HotPartition"
    assert "partition 5 of topic in" in job.scaling["message"]
    assert job.events == ["ScalingBlocked"], "once"


async def test_a_growth_without_room_is_taken_back_to_what_fits(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    for number in range(4):
        job.fixture.kubernetes.add_executor(KEY, 1, number + 1)
    await job.sees(MORE, 5, rescaling=8, executors_refused="exceeded quota: pods")
    assert job.scaling["reason"] == "Rescaling"
    await job.sees(MORE, 26, rescaling=8, executors_refused="exceeded quota: pods")
    assert job.asked == "4", "four executors run"
    assert job.fixture.status["state"] == "Rescaling"
    job.runs = 4
    await job.sees(MORE, 5, rescaling=4)
    await job.sees(MORE, 60)
    await job.sees(MORE, 60)
    assert job.scaling["reason"] == "NoRoom"
    assert job.asked == "4"
    assert job.events == ["ScalingUp", "ScalingBlocked", "ScalingBlocked"]
    told = [each for each in job.fixture.kubernetes.objects.values() if each.get("reason") == "ScalingBlocked"]
    assert "exceeded quota" in told[0]["message"]


@pytest.mark.parametrize("found", [None, load(0, read=0, partitions=0)])
async def test_a_load_that_is_unknown_changes_nothing(job: Job, found: Load | None) -> None:
    await job.sees(found, 60)
    await job.sees(found, 60)
    assert job.scaling["reason"] == "LoadUnknown"
    assert job.asked is None


async def test_a_driver_that_does_not_run_yet_is_not_judged(job: Job) -> None:
    await job.sees(MORE, 60)
    await job.sees(MORE, 60, state=DriverState.DRAINING)
    assert "moreWantedSince" not in job.scaling
    assert job.asked is None


async def test_a_fixed_number_of_executors_is_not_outgrown() -> None:
    job = await Job(executor={"instances": 4}).start()
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    assert job.asked == "4"
    assert job.fixture.kubernetes.condition(KEY, "ConfigValid")["status"] == "True"


async def test_what_a_person_writes_into_the_status_is_no_decision(job: Job) -> None:
    status = {"parallelism": "8", "since": "yesterday", "specParallelism": -2, "noRoomSince": 7}
    job.fixture.kubernetes.job(KEY)["status"]["autoscaler"] = status
    await job.sees(CALM, 60)
    assert job.asked is None


async def test_a_standby_driver_of_another_parallelism_is_replaced(job: Job) -> None:
    job = await Job(restartPolicy={"successor": "Standby"}).start()
    await job.sees(CALM, 60)
    assert job.fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    await job.sees(MORE, 30)
    assert job.fixture.drivers == ["orders-1-driver", "orders-3-driver"]
    record = job.fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(3)]
    assert json.loads(record["data"][RESOURCE_SPEC_KEY])["spec"]["parallelism"] == 8
