"""The sweep of orphans while a job runs: it ends what nobody will, and nothing that somebody will commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.dataplane.batch import open_producer
from sparkapp.dataplane.interface import BatchProducer
from sparkapp.model.errors import CheckpointConflict, TransactionFenced
from sparkapp.sink.ending.orphans import OpenNow, OrphanSweep
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.sink.producers.reusable_producers import ReusableProducers
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.attempt import AttemptRun
from tests.support.protocol.moments import OF_A_CHECKPOINT, End, Moment
from tests.support.protocol.story import Story
from tests.support.protocol.tasks import Names

Orphan = Callable[[Story, int], BatchProducer]


@pytest.fixture
def orphan(broker: str) -> Iterator[Orphan]:
    """``orphan(job, number)``: a zombie's open transaction of one record under an id of the job's prefix."""
    made: list[BatchProducer] = []

    def make(job: Story, number: int) -> BatchProducer:
        transactional_id = f"{job.prefix}-{number}"
        names = Names()
        names.note(number, transactional_id, [transactional_id])
        job._names.append((0, names))
        zombie = open_producer({"bootstrap.servers": broker, "transactional.id": transactional_id})
        made.append(zombie)
        zombie.init_transactions(30)
        zombie.begin_transaction()
        zombie.produce(pa.RecordBatch.from_pydict({"value": [b"-1"]}), topic=job.sink)
        assert zombie.flush(30) == 1
        return zombie

    yield make
    for each in made:
        each.close()


def run_of(job: Story) -> AttemptRun:
    assert job._run is not None
    return job._run


def control_of(run: AttemptRun) -> KafkaTransactionControl:
    """As the driver makes it."""
    claim = Claim(run.store, job_uid=run.job.uid, attempt=run.job.attempt)
    return KafkaTransactionControl(run.job, run._client, run._config, claim)


def sweep_of(run: AttemptRun, seen: list[OpenNow | None]) -> OrphanSweep:
    return control_of(run).orphan_sweep(run._coordinator, observed=seen.append)


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_a_sweep_at_any_moment_ends_the_orphan_and_nothing_of_the_checkpoint(
    moment: Moment, story: Stories, orphan: Orphan
) -> None:
    job = story()
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.produce(30)
    run, seen = run_of(job), []
    aborted: list[str] = []

    def strike() -> None:
        orphan(job, 99)
        aborted.extend(sweep_of(run, seen).sweep())

    job.checkpoint((moment, strike))
    assert job.failures == [], "no transaction of the running checkpoint was touched"
    assert aborted == [f"{job.prefix}-99"]
    (now,) = seen
    assert now is not None
    assert (now.oldest_start_millis is None) == (now.count == 0)
    assert sweep_of(run, seen).sweep() == ()
    assert seen[-1] == OpenNow(count=0, oldest_start_millis=None)
    job.finish(2)
    assert job.open_transactions() == []


def test_an_idle_job_has_no_id_in_use_so_an_orphan_under_one_of_its_own_ends(story: Stories, orphan: Orphan) -> None:
    job = story()
    job.produce(20)
    job.start(1)
    job.checkpoint()
    seen: list[OpenNow | None] = []
    for slot in range(5):
        orphan(job, slot)
    assert len(sweep_of(run_of(job), seen).sweep()) == 5
    assert job.open_transactions() == []
    job.produce(10)
    job.finish(1)


@pytest.mark.parametrize("when", ["before the claim is read", "after it was read"])
def test_a_superseded_attempt_ends_nothing_of_the_attempt_after_it(story: Stories, orphan: Orphan, when: str) -> None:
    """It stood still in its sweep: what it has described was open before the other attempt began."""
    job = story()
    job.produce(60)
    job.start(2)
    old = run_of(job)
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
    orphan(job, 99)
    claim = Claim(old.store, job_uid=old.job.uid, attempt=old.job.attempt)

    def stands_still() -> None:
        if when == "after it was read":
            claim.require()
        job.start(2)
        job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
        if when != "after it was read":
            claim.require()

    found = [f"{job.prefix}-{number}" for number in (*range(20), 99)]
    idle: Any = SimpleNamespace(ids_in_use=tuple, reusable=ReusableProducers())
    sweep = OrphanSweep(old._client, idle, find=lambda _: found, require_claim=stands_still)
    if when == "after it was read":
        assert sweep.sweep() == (), "what it knew of is gone, what is open now has other epochs"
    else:
        with pytest.raises(CheckpointConflict):
            sweep.sweep()
    open_of_the_new = job.open_transactions()
    assert len(open_of_the_new) == 2
    while job.frozen:
        job.thaw()
    job.finish(2)
    assert job.open_transactions() == []


def test_what_a_lost_subtask_has_left_open_is_ended_and_its_producer_is_fenced(story: Stories, orphan: Orphan) -> None:
    job = story()
    job.produce(20)
    job.start(1)
    job.checkpoint()
    lost = orphan(job, 7)
    control_of(run_of(job)).fence([f"{job.prefix}-7"])
    assert job.open_transactions() == []
    lost.produce(pa.RecordBatch.from_pydict({"value": [b"-2"]}), topic=job.sink)
    with pytest.raises(TransactionFenced):
        lost.commit_transaction(30)
    assert job.open_transactions() == [], "it was frozen, and continues"
    job.produce(10)
    job.finish(1)


def test_a_superseded_attempt_fences_nothing(story: Stories, orphan: Orphan) -> None:
    job = story()
    job.produce(20)
    job.start(1)
    old = run_of(job)
    job.checkpoint((Moment.AFTER_FLUSH, End.FREEZE))
    job.start(1)
    orphan(job, 7)
    with pytest.raises(CheckpointConflict):
        control_of(old).fence([f"{job.prefix}-7"])
    assert job.open_transactions() == [f"{job.prefix}-7"]
    control_of(run_of(job)).fence([f"{job.prefix}-7"])
    while job.frozen:
        job.thaw()
    job.finish(1)
    assert job.open_transactions() == []
