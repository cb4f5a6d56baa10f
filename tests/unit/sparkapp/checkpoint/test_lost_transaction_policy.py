"""What a start does with a transaction that is proven lost: replays it, or stops before anything is written."""

from __future__ import annotations

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.errors import TransactionLost
from sparkapp.model.job.sections.sink import OnTransactionLost, Sink
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec

SPLITS = tuple(KafkaPartitionSplit(TopicPartition("in", number), 10, 20) for number in range(8))
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=7, created_at="", parallelism=2, prefix="p", splits=SPLITS,
    committables=tuple(
        KafkaCommittable(
            transactional_id=f"p-{subtask}", producer_id=1, producer_epoch=0, checkpoint_id=7,
            subtask=subtask, records=9, ranges=ranges,
        )
        for subtask, ranges in splits_by_subtask(SPLITS, 2).items()
    ),
)  # fmt: skip


def start(store: MemoryStore, control: FakeControl, policy: OnTransactionLost, attempt: int = 4) -> Recovery:
    sink = Sink(topic="out", transactional_id_prefix="p", on_transaction_lost=policy)
    spec = plain_spec(sink=sink)
    job = Job(namespace="n", name="job", uid="uid", generation=1, attempt=attempt, spec=spec)
    return recover(
        job, store=store, control=control, now="now", retained=MemoryRetainedStore(), engine=QueryState(),
        clusters=ClusterIds("", ""), marks=NoMarks(),
    )  # fmt: skip


def test_C07_fail_stops_before_anything_is_written_and_says_what_was_lost() -> None:
    store, control = MemoryStore(encode(DOCUMENT)), FakeControl(CommitOutcome.COMMITTED, CommitOutcome.LOST)
    gone = DOCUMENT.committables[1]
    with pytest.raises(TransactionLost) as caught:
        start(store, control, OnTransactionLost.FAIL)
    first = gone.ranges[0]
    assert f"checkpoint 7: the brokers have aborted {gone.transactional_id} (PRODUCER_FENCED), with 9 record(s)" in (
        caught.value.message
    )
    assert f"{first.partition} [{first.start}, {first.stop})" in caught.value.message
    assert (caught.value.fatal, caught.value.reason) == (True, "TransactionLost")
    assert '"onTransactionLost":"Replay"' in caught.value.remedy
    assert control.calls == ["settle", "abort"], "readers do not wait for a job that stops"
    kept = decode(store.read().text or "", job_uid="uid")
    assert (kept.splits, kept.committables) == (SPLITS, DOCUMENT.committables), "a later start may replay"
    assert start(store, control, OnTransactionLost.REPLAY, attempt=5).lost == gone.ranges


def test_C07_replay_is_the_default() -> None:
    assert Sink(topic="out", transactional_id_prefix="p").on_transaction_lost is OnTransactionLost.REPLAY
    recovery = start(MemoryStore(encode(DOCUMENT)), FakeControl(*2 * [CommitOutcome.LOST]), OnTransactionLost.REPLAY)
    assert recovery.lost == SPLITS


def test_where_nothing_was_lost_there_is_nothing_to_stop_for() -> None:
    recovery = start(MemoryStore(encode(DOCUMENT)), FakeControl(*2 * [CommitOutcome.COMMITTED]), OnTransactionLost.FAIL)
    assert (recovery.lost, recovery.committed) == ((), 2)
