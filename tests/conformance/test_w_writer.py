"""Group W: the writer and its producer pool, on a real broker."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, GroupOffset, offset_mark
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import (
    InvalidArgument,
    KafkaSparkJobError,
    PreCommitFailed,
    ProducersPoolEmpty,
    TransactionFenced,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.used_ids import bounded_ids
from tests.support.jobs.sink_harness import JOB_UID, State
from tests.support.kafka.end_txn import end_txn


def row(value: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": [str(value).encode()]})


def fence(topic_scope, transactional_id):
    """Another producer takes the id over."""
    topic_scope.client.fence_all([transactional_id])


def test_W01_lingering_transactions_of_a_previous_prefix_are_aborted(harness, topic_scope):
    for subtask in range(2):
        previous = harness(subtask, 2, prefix=f"{topic_scope.prefix}.old").open()
        previous.write(subtask)
    writer = harness().restore(State(prefix=f"{topic_scope.prefix}.old"))
    writer.write(7)
    writer.snapshot(1)
    writer.notify(1)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [7]
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("restored", [1, 2, 3])
def test_W02_precommitted_transactions_of_the_restored_checkpoint_are_kept(harness, topic_scope, restored):
    writer = harness().open()
    states = {}
    for label in (1, 2, 3):
        writer.write(label)
        states[label] = writer.snapshot(label)
    assert len(topic_scope.open_transactions()) == 3
    again = harness().restore(states[restored])
    assert [each.outcome for each in again.settled] == [CommitOutcome.COMMITTED] * restored
    assert len(again.aborted) == 3 - restored
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == list(range(1, restored + 1))


def test_W03_W10_an_id_is_used_again_and_each_transaction_has_an_epoch_of_its_own(harness, topic_scope):
    """Flink's pool recycles producers; here a recycled one could be ended by a late request (ADR 28)."""
    writer = harness(pool_size=2).open()
    committables = []
    for label in range(1, 7):
        writer.write(label)
        committables.append(writer.snapshot(label).pending[-1])
        assert writer.pool.live == 0
        assert len(topic_scope.open_transactions()) == 1, "the producer is ended, and its transaction is not"
        writer.notify(label)
    assert len({each.transactional_id for each in committables}) == 2
    assert len({(each.transactional_id, each.producer_id, each.producer_epoch) for each in committables}) == 6
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2, 3, 4, 5, 6]


def test_W04_a_failed_producer_is_not_reused(harness, topic_scope):
    writer = harness().open()
    writer.write(1)
    (transactional_id,) = topic_scope.open_transactions()
    first = writer.pool._entries[transactional_id].producer
    fence(topic_scope, transactional_id)
    with pytest.raises(TransactionFenced):
        writer.snapshot(1)
    assert writer.pool.live == 0
    writer._begun = False
    writer.write(2)
    assert writer.pool._entries[transactional_id].producer is not first
    writer.snapshot(1)
    writer.notify(1)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [2]
    assert topic_scope.open_transactions() == []


def test_W05_a_checkpoint_without_records_begins_no_transaction(harness, topic_scope):
    writer = harness().open()
    state = writer.snapshot(1)
    assert state.pending == ()
    assert writer.pool.live == 0
    writer.writer.begin(99)
    writer.writer.write(row(1).slice(0, 0))
    assert writer.writer.pre_commit((), group_id=None) is None
    assert topic_scope.client.list_transactions(topic_scope.prefix) == []


def test_W06_abort_on_close(harness, topic_scope):
    first = harness().open()
    first.write(1)
    first.close()
    assert topic_scope.open_transactions() == []
    second = harness().open()
    second.write(2)
    state = second.snapshot(1)
    second.kill()
    settled = harness().restore(state).settled
    assert [each.outcome for each in settled] == [CommitOutcome.COMMITTED]
    assert topic_scope.numbers() == [2]


@pytest.mark.parametrize("step", ["write", "snapshot", "snapshot with offsets", "close"])
def test_W08_a_fenced_writer_says_so_once(harness, topic_scope, make_topic, step):
    source = make_topic(name="in")
    group = topic_scope.prefix if step == "snapshot with offsets" else None
    writer = harness(group_id=group).open()
    writer.write(1)
    (transactional_id,) = topic_scope.open_transactions()
    topic_scope.await_written(1)
    fence(topic_scope, transactional_id)
    if step == "write":
        writer.write(2)  # the refusal comes back later than the call returns
    if step == "close":
        writer.close()
    else:
        split = KafkaPartitionSplit(TopicPartition(source, 0), 0, 1)
        with pytest.raises(TransactionFenced):
            writer.snapshot(1, ranges=(split,))
        with pytest.raises(InvalidArgument):
            writer.writer.write(row(3))
        writer.close()
    assert writer.pool.live == 0
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_W07_ids_that_the_committer_still_has_are_skipped(harness, topic_scope):
    """shouldSkipIdsOfCommitterForPooledTransactions: two transactions are pre-committed and not committed; the writer
    that is restored with the committer writes under a third id."""
    previous = harness(pool_size=3).open()
    for label in (1, 2):
        previous.write(label)
        state = previous.snapshot(label)
    held = {each.transactional_id for each in state.pending}
    previous.write(3)
    taken = previous.snapshot(3).pending[-1].transactional_id
    assert taken not in held, "of one attempt"
    with pytest.raises(ProducersPoolEmpty):
        previous.write(4)
    restored = harness(pool_size=3).restore(state)
    restored.write(5)
    assert restored.snapshot(5).pending[0].transactional_id not in held, "of the next one"
    restored.notify(5)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2, 5]
    assert topic_scope.open_transactions() == []


def test_W11_a_producer_whose_transaction_was_not_committed_is_replaced(harness, topic_scope):
    """A retried task finds its own half-written transaction under the id: it is aborted, never completed."""
    pool = harness().pool
    entry = pool.begin(f"{topic_scope.prefix}-0")
    entry.producer.produce(row(1), topic=topic_scope.topic)
    entry.producer.flush(30)
    again = pool.begin(f"{topic_scope.prefix}-0")
    assert again is not entry
    assert again.producer_epoch > entry.producer_epoch
    again.producer.produce(row(2), topic=topic_scope.topic)
    again.producer.flush(30)
    end_txn(topic_scope.client, again.transactional_id, again.producer_id, again.producer_epoch, True)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [2]
    assert topic_scope.open_transactions() == []


def test_W13_a_signal_for_the_newest_checkpoint_stands_for_all_older_ones(harness, topic_scope):
    """A worker may never hear of a checkpoint: another one ran the subtask then. The next signal it gets is enough.

    Flink's pool recycles everything up to the signalled checkpoint. Ours does for all but the signalled one itself,
    whose id the document still names (T15).
    """
    writer = harness(pool_size=3).open()
    for label in (1, 2, 3):
        writer.write(label)
        writer.snapshot(label)
    assert len(topic_scope.open_transactions()) == 3
    writer.notify(3)
    assert topic_scope.open_transactions() == []
    for label in (4, 5):
        writer.write(label)
        writer.snapshot(label)
    with pytest.raises(ProducersPoolEmpty, match="still belongs to checkpoint 3"):
        writer.write(6)
    writer.notify(5)
    writer.write(6)
    writer.snapshot(6)
    writer.notify(6)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 2, 3, 4, 5, 6]


def test_W14_checkpoints_without_records_leave_a_gap_that_hides_nothing(harness, topic_scope):
    """Flink initialises the ids of the gap, so that its probing does not stop there. Ours does not probe: it lists, or
    walks every id that the hint bounds, so ids that nobody writes under are never made."""
    writer = harness(pool_size=7).open()
    for label in range(1, 6):
        if label == 3:
            writer.write(label)
        state = writer.snapshot(label)
        writer.notify(label)
    writer.write(6)
    last, following = f"{topic_scope.prefix}-3", f"{topic_scope.prefix}-6"
    assert [each.transactional_id for each in topic_scope.client.list_transactions(topic_scope.prefix)] == [
        last,
        following,
    ]
    walked = list(bounded_ids(topic_scope.prefix, hint=state.hint, parallelism=1, pool_size=7))
    assert [each for each in walked if each in topic_scope.client.describe(walked)] == [last, following]
    assert harness(pool_size=7).restore(state).aborted == (following,)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [3]


def test_W14_an_id_never_goes_back_to_an_older_checkpoint(harness):
    """Flink: "Expected 3 > 3". Ours: the same checkpoint again is a retry, an older one never gets a newer one's id."""
    writer = harness(pool_size=3).open().writer
    writer.begin(6)
    (used,) = [writer.transactional_id]
    writer.abort()
    writer.begin(6)
    assert writer.transactional_id == used
    writer.abort()
    with pytest.raises(ProducersPoolEmpty, match="still belongs to checkpoint 6"):
        writer.begin(3)


def test_a_subtask_that_moves_between_worker_processes_continues(harness, topic_scope):
    """Spark places a subtask anywhere: each process finds its kept producer fenced by the other's and replaces it."""
    workers = [harness(pool_size=2).open() for _ in range(2)]
    for number in range(1, 9):
        worker = workers[number % 2 if number < 5 else (number // 2) % 2]
        worker._checkpoint_id = number
        worker.write(number)
        worker.snapshot(number)
        worker.notify(number)
        for other in workers:
            other.writer.notify_committed(number)
    topic_scope.await_ended()
    assert topic_scope.numbers() == list(range(1, 9))
    assert topic_scope.open_transactions() == []


def test_a_zombie_task_cannot_add_to_what_its_retry_wrote(harness, topic_scope):
    zombie, retry = harness().open(), harness().open()
    zombie.write(1)
    (transactional_id,) = topic_scope.open_transactions()
    retry.write(2)
    state = retry.snapshot(1)
    zombie.write(3)
    with pytest.raises(TransactionFenced):
        zombie.snapshot(1)
    assert [each.transactional_id for each in state.pending] == [transactional_id]
    retry.notify(1)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [2]
    assert topic_scope.open_transactions() == []


def test_a_transaction_that_timed_out_is_not_precommitted(harness, topic_scope):
    writer = harness(transaction_timeout=1).open()
    writer.write(1)
    topic_scope.await_written(1)
    deadline = Deadline.after(40)
    while topic_scope.open_transactions():
        assert not deadline.expired
    with pytest.raises(KafkaSparkJobError) as caught:
        writer.snapshot(1)
    assert isinstance(caught.value, TransactionFenced | PreCommitFailed)
    assert topic_scope.numbers() == []


def test_offsets_move_with_the_transaction_or_not_at_all(harness, topic_scope, make_topic):
    source = make_topic(name="in")
    partition = TopicPartition(source, 0)
    evidence = GroupOffsetsEvidence({"bootstrap.servers": topic_scope.bootstrap}, group_id=topic_scope.prefix)
    writer = harness(group_id=topic_scope.prefix).open()
    writer.write(1)
    state = writer.snapshot(1, ranges=(KafkaPartitionSplit(partition, 0, 7),))
    assert state.pending[0].ranges == (KafkaPartitionSplit(partition, 0, 7),)
    writer.notify(1)
    assert evidence.committed([partition]) == {partition: GroupOffset(7, offset_mark(JOB_UID, 1, 1))}
    writer.write(2)
    writer.snapshot(2, ranges=(KafkaPartitionSplit(partition, 7, 9),))
    harness(group_id=topic_scope.prefix).open()
    assert evidence.committed([partition])[partition].offset == 7, "the second transaction was aborted"
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1]


def test_at_least_once_awaits_every_acknowledgement(harness, topic_scope):
    writer = harness(delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).open()
    writer.write(*range(100))
    assert writer.snapshot(1).pending == ()
    assert topic_scope.numbers() == list(range(100)), "acknowledged, so visible, when the pre-commit returns"
    assert topic_scope.client.list_transactions(topic_scope.prefix) == []


def test_at_least_once_fails_where_a_record_is_not_acknowledged(harness, make_topic):
    narrow = make_topic(max_message_bytes="200")
    writer = harness(topic=narrow, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).open()
    writer.write("x" * 1000)
    with pytest.raises(PreCommitFailed):
        writer.snapshot(1)
    assert writer.pool.live == 0


def test_exactly_once_fails_where_a_record_is_not_acknowledged(harness, topic_scope, make_topic):
    narrow = make_topic(max_message_bytes="200")
    writer = harness(topic=narrow).open()
    writer.write(1, "x" * 1000)
    with pytest.raises(PreCommitFailed):
        writer.snapshot(1)
    harness(topic=narrow).open()
    assert topic_scope.open_transactions() == []


def test_none_awaits_nothing_and_fails_once_a_report_has_a_lost_record(harness, make_topic):
    """Flink's ``FlinkKafkaProducer.preCommit`` ends with ``checkErroneous()`` with every delivery guarantee."""
    narrow = make_topic(max_message_bytes="200")
    writer = harness(topic=narrow, delivery_guarantee=DeliveryGuarantee.NONE, properties={"linger.ms": "300"}).open()
    writer.write("x" * 1000)
    assert writer.snapshot(1).pending == ()
    assert writer.writer.records == 1
    assert writer.pool.live == 1

    def go_on():
        label, deadline = 2, Deadline.after(20)
        while not deadline.expired:
            writer.snapshot(label)  # without records, too
            label += 1

    with pytest.raises(PreCommitFailed, match="1 records failed; the first failure"):
        go_on()
    assert writer.pool.live == 0


def test_none_keeps_records_that_are_not_sent_until_somebody_flushes(harness, topic_scope):
    writer = harness(delivery_guarantee=DeliveryGuarantee.NONE, properties={"linger.ms": "60000"}).open()
    writer.write(1, 2)
    writer.snapshot(1)
    assert topic_scope.numbers() == []
    writer.pool.flush_plain(10)
    assert topic_scope.numbers() == [1, 2]
    writer.write(3)
    writer.snapshot(2)
    writer.kill()
    assert topic_scope.numbers() == [1, 2], "a buffer ends with its process"


def test_none_fails_at_an_orderly_end_where_a_record_is_refused(harness, make_topic):
    writer = harness(topic=make_topic(max_message_bytes="200"), delivery_guarantee=DeliveryGuarantee.NONE).open()
    writer.write("x" * 1000)
    writer.snapshot(1)
    with pytest.raises(PreCommitFailed):
        writer.pool.flush_plain(10)
