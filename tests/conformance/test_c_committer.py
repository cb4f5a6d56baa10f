"""Group C: what the committer makes of the coordinator's answers; the table with a fake, the rest with a broker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import TransactionDescription, TransactionState
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, EndTxnAnswer, GroupOffset, offset_mark
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    CommitOutcomeUnknown,
    KafkaUnreachable,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import KafkaCommitter, MarkedOffsets
from tests.support.clock import FakeClock
from tests.support.fakes.group_evidence import FakeEvidence
from tests.support.fakes.transaction_client import FakeTransactionClient
from tests.support.jobs.sink_harness import JOB_UID

SPLIT = KafkaPartitionSplit(TopicPartition("in", 0), 10, 20)
OTHER = KafkaPartitionSplit(TopicPartition("in", 1), 0, 5)


def committable(number=0, checkpoint_id=1, ranges=(SPLIT,), start_time_ms=0):
    return KafkaCommittable(
        transactional_id=f"p-{number}",
        producer_id=number,
        producer_epoch=0,
        checkpoint_id=checkpoint_id,
        subtask=number,
        records=1,
        attempt=1,
        start_time_ms=start_time_ms,
        ranges=ranges,
    )


def answering(descriptions=None, **answers):
    """A client whose coordinators answer as scripted, by transactional id."""
    return FakeTransactionClient(descriptions, {name.replace("_", "-"): script for name, script in answers.items()})


def description(state, start_time_ms=1000, producer_epoch=0):
    return TransactionDescription(
        state=state, producer_id=0, producer_epoch=producer_epoch, timeout_ms=1, start_time_ms=start_time_ms
    )


def marked(offset, checkpoint=1):
    return GroupOffset(offset, offset_mark(JOB_UID, 1, checkpoint))


def committer(coordinator, offsets=None, *, before=lambda: None, **options):
    time = FakeClock()
    evidence = None if offsets is None else MarkedOffsets(offsets=offsets, job_uid=JOB_UID, before=before)
    return KafkaCommitter(coordinator, evidence, clock=time, sleep=time.sleep, timeout=5, **options), time


def outcomes(settled):
    return [each.outcome for each in settled]


@pytest.mark.parametrize("answer", [EndTxnAnswer.CONCURRENT_TRANSACTIONS, EndTxnAnswer.OTHER_RETRIABLE])
def test_C01_retriable_answers_are_asked_again(answer):
    coordinator = answering(p_0=[answer, EndTxnAnswer.NONE])
    subject, time = committer(coordinator)
    (settled,) = subject.commit([committable()])
    assert settled.outcome is CommitOutcome.COMMITTED
    assert len(coordinator.asked) == 2
    assert len(time.slept) == 1


def test_C01_only_the_unanswered_ones_are_asked_again():
    coordinator = answering(p_0=[EndTxnAnswer.NONE], p_1=[EndTxnAnswer.OTHER_RETRIABLE, EndTxnAnswer.NONE])
    subject, _ = committer(coordinator)
    settled = subject.commit([committable(0), committable(1)])
    assert outcomes(settled) == [CommitOutcome.COMMITTED] * 2
    assert coordinator.ids_of("commit") == [["p-0", "p-1"], ["p-1"]]
    assert [each.at_once for each in settled] == [True, False], "the first request for p-1 may still be under way"
    assert all(each.at_once for each in subject.commit([committable(1)])), "of this call alone"


def test_C01_retries_end_with_the_deadline():
    coordinator = answering(p_0=[EndTxnAnswer.OTHER_RETRIABLE])
    subject, time = committer(coordinator)
    with pytest.raises(CommitOutcomeUnknown, match="p-0 \\(OTHER_RETRIABLE\\)"):
        subject.commit([committable()])
    assert time.now == pytest.approx(5)
    assert time.slept == sorted(time.slept[:-1]) + time.slept[-1:], "pauses grow"


def test_C02_an_unknown_answer_fails_the_job_and_settles_nothing():
    coordinator = answering(p_0=[EndTxnAnswer.OTHER_FATAL], p_1=[EndTxnAnswer.NONE])
    subject, _ = committer(coordinator, FakeEvidence({SPLIT.partition: marked(20)}))
    with pytest.raises(CommitOutcomeUnknown, match="p-0"):
        subject.commit([committable(0), committable(1)])
    assert coordinator.asked == [("commit", ["p-0", "p-1"])], "the others of the checkpoint were asked all the same"


@pytest.mark.parametrize("error", [AuthorizationFailed("no WRITE"), AuthenticationFailed("wrong password")])
def test_C02_errors_of_access_keep_their_name(error):
    subject, _ = committer(answering(p_0=[error], p_1=[EndTxnAnswer.NONE]))
    with pytest.raises(type(error)):
        subject.commit([committable(0), committable(1)])


ASKED = [
    EndTxnAnswer.PRODUCER_FENCED,
    EndTxnAnswer.INVALID_TXN_STATE,
    EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING,
]


@pytest.mark.parametrize("answer", ASKED)
@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ({SPLIT.partition: marked(20), OTHER.partition: marked(5)}, CommitOutcome.COMMITTED),
        ({SPLIT.partition: marked(25, 2), OTHER.partition: marked(9, 2)}, CommitOutcome.COMMITTED),
        ({SPLIT.partition: marked(10, 0), OTHER.partition: marked(0, 0)}, CommitOutcome.LOST),
        ({SPLIT.partition: marked(500, 0), OTHER.partition: marked(0, 0)}, CommitOutcome.LOST),
        ({}, CommitOutcome.UNCERTAIN),
        ({SPLIT.partition: GroupOffset(20), OTHER.partition: GroupOffset(5)}, CommitOutcome.UNCERTAIN),
        ({SPLIT.partition: marked(20)}, CommitOutcome.UNCERTAIN),
        ({SPLIT.partition: marked(15), OTHER.partition: marked(0, 0)}, CommitOutcome.UNCERTAIN),
    ],
)
def test_C03_C07_the_evidence_decides_what_the_coordinator_no_longer_knows(answer, committed, expected):
    evidence = FakeEvidence(committed)
    subject, _ = committer(answering(p_0=[answer]), evidence)
    (settled,) = subject.commit([committable(ranges=(SPLIT, OTHER))])
    assert (settled.outcome, settled.answer) == (expected, answer)
    assert evidence.asked == [[SPLIT.partition, OTHER.partition]]


@pytest.mark.parametrize("answer", ASKED)
@pytest.mark.parametrize("evidence", [None, FakeEvidence({SPLIT.partition: marked(20)})])
def test_C03_C07_without_anything_to_compare_the_outcome_is_uncertain_never_dropped(answer, evidence):
    ranges = () if evidence else (SPLIT,)
    subject, _ = committer(answering(p_0=[answer]), evidence)
    (settled,) = subject.commit([committable(ranges=ranges)])
    assert settled.outcome is CommitOutcome.UNCERTAIN


def test_C03_the_evidence_is_read_once_for_all_and_after_the_room_was_cleared():
    order = []
    evidence = FakeEvidence({SPLIT.partition: marked(20), OTHER.partition: marked(0, 0)})
    coordinator = answering(
        p_0=[EndTxnAnswer.PRODUCER_FENCED], p_1=[EndTxnAnswer.NONE], p_2=[EndTxnAnswer.INVALID_TXN_STATE]
    )
    subject, _ = committer(coordinator, evidence, before=lambda: order.append(len(evidence.asked)))
    settled = subject.commit([committable(0), committable(1), committable(2, ranges=(OTHER,))])
    assert outcomes(settled) == [CommitOutcome.COMMITTED, CommitOutcome.COMMITTED, CommitOutcome.LOST]
    assert evidence.asked == [[SPLIT.partition, OTHER.partition]]
    assert order == [0]


def test_C03_evidence_that_cannot_be_read_leaves_the_outcome_unknown():
    subject, _ = committer(answering(p_0=[EndTxnAnswer.PRODUCER_FENCED]), FakeEvidence(error=KafkaUnreachable("down")))
    with pytest.raises(CommitOutcomeUnknown, match="down"):
        subject.commit([committable()])


@pytest.mark.parametrize("answer", ASKED)
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (description(TransactionState.COMPLETE_ABORT, producer_epoch=1), CommitOutcome.LOST),
        (description(TransactionState.COMPLETE_COMMIT), CommitOutcome.COMMITTED),
        (description(TransactionState.EMPTY, start_time_ms=-1, producer_epoch=2), CommitOutcome.UNCERTAIN),
        (description(TransactionState.COMPLETE_ABORT, start_time_ms=1001, producer_epoch=1), CommitOutcome.UNCERTAIN),
        (None, CommitOutcome.UNCERTAIN),
    ],
)
def test_C03_C07_without_evidence_the_coordinator_may_still_know(answer, found, expected):
    """What of it proves something is in tests/unit/sparkapp/model/test_settlement.py."""
    coordinator = answering({} if found is None else {"p-0": found}, p_0=[answer])
    subject, _ = committer(coordinator, describer=coordinator, restored=True)
    (settled,) = subject.commit([committable(ranges=(), start_time_ms=1000)])
    assert (settled.outcome, settled.answer) == (expected, answer)


def test_C03_offsets_of_a_later_transaction_outweigh_a_reported_abort():
    """A document that was put back: its transaction was lost, and a later one has written its range."""
    coordinator = answering(
        {"p-0": description(TransactionState.COMPLETE_ABORT, producer_epoch=1)}, p_0=[EndTxnAnswer.PRODUCER_FENCED]
    )
    order = []
    subject, _ = committer(
        coordinator,
        FakeEvidence({SPLIT.partition: marked(20, 2)}),
        describer=coordinator,
        restored=True,
        before=lambda: order.extend(coordinator.calls),
    )
    (settled,) = subject.commit([committable(start_time_ms=1000)])
    assert settled.outcome is CommitOutcome.COMMITTED
    assert order[-1] == "describe", "asked before an abort wipes what there is"


def test_A1_the_commit_that_the_coordinator_reports_outweighs_offsets_that_deny_it():
    """They are not even asked, nor is anything aborted for them."""
    coordinator = answering({"p-0": description(TransactionState.COMPLETE_COMMIT)}, p_0=[EndTxnAnswer.PRODUCER_FENCED])
    evidence = FakeEvidence({SPLIT.partition: marked(10, 0)})
    subject, _ = committer(coordinator, evidence, describer=coordinator, restored=True, before=pytest.fail)
    (settled,) = subject.commit([committable(start_time_ms=1000)])
    assert settled.outcome is CommitOutcome.COMMITTED
    assert evidence.asked == []


def test_C03_the_next_attempt_asks_again_for_a_transaction_that_is_being_ended():
    coordinator = answering(
        {"p-0": description(TransactionState.ONGOING, producer_epoch=1)}, p_0=[EndTxnAnswer.PRODUCER_FENCED]
    )
    subject, _ = committer(coordinator, describer=coordinator, restored=True)
    with pytest.raises(CommitOutcomeUnknown, match="p-0 \\(PRODUCER_FENCED\\)"):
        subject.commit([committable(ranges=(), start_time_ms=1000)])


def test_C04_each_attempt_is_one_request_and_keeps_no_state():
    coordinator = answering(p_0=[EndTxnAnswer.OTHER_RETRIABLE] * 3 + [EndTxnAnswer.NONE])
    subject, _ = committer(coordinator)
    subject.commit([committable()])
    assert coordinator.asked == [("commit", ["p-0"])] * 4
    subject.commit([committable()])
    assert len(coordinator.asked) == 5


BEHIND = description("CompleteCommit", start_time_ms=1000)
"""What a broker remembers that was cut off before the producer's present transaction, which began at 2000."""


class Moving(FakeTransactionClient):
    """Whenever its coordinators are forgotten, the next of these is described."""

    def __init__(self, *descriptions, p_0):
        super().__init__({"p-0": descriptions[0]}, {"p-0": p_0})
        self.following = list(descriptions[1:])

    def forget_coordinators(self, transactional_ids):
        super().forget_coordinators(transactional_ids)
        if self.following:
            self.know("p-0", self.following.pop(0))


def test_recovery_does_not_believe_a_broker_that_was_replaced_as_coordinator():
    coordinator = Moving(BEHIND, description("Ongoing", start_time_ms=2000), p_0=[EndTxnAnswer.NONE])
    subject, _ = committer(coordinator, describer=coordinator, restored=True)
    assert outcomes(subject.commit([committable(start_time_ms=2000)])) == [CommitOutcome.COMMITTED]
    assert coordinator.calls == ["describe", "forget", "describe", "commit"], "the replaced coordinator gets no EndTxn"


def test_no_outcome_is_known_while_only_the_former_coordinator_answers():
    coordinator = Moving(BEHIND, p_0=[EndTxnAnswer.NONE])
    subject, time = committer(coordinator, FakeEvidence(), describer=coordinator, restored=True)
    with pytest.raises(CommitOutcomeUnknown, match="p-0 \\(EARLIER_TRANSACTION\\)"):
        subject.commit([committable(start_time_ms=2000)])
    assert "commit" not in coordinator.calls
    assert time.now >= 2.5, "half as long as a commit may take"


@pytest.mark.parametrize(
    ("mark", "outcome"), [(marked(20), CommitOutcome.COMMITTED), (marked(10, 0), CommitOutcome.LOST)]
)
@pytest.mark.parametrize("found", [BEHIND, description("Empty", start_time_ms=-1)], ids=["an earlier", "none"])
def test_C07_the_group_decides_where_the_coordinators_log_has_lost_its_end(mark, outcome, found):
    """No other broker knows more of the transaction, so looking it up again would never end."""
    coordinator = Moving(found, p_0=[EndTxnAnswer.PRODUCER_FENCED])
    subject, _ = committer(coordinator, FakeEvidence({SPLIT.partition: mark}), describer=coordinator, restored=True)
    written = replace(committable(start_time_ms=2000), producer_epoch=1)
    for _ in range(2):
        (settled,) = subject.commit([written])
        assert (settled.outcome, settled.answer) == (outcome, EndTxnAnswer.EARLIER_TRANSACTION)
    coordinator.know("p-0", description("CompleteCommit", start_time_ms=2000, producer_epoch=1))
    assert outcomes(subject.commit([written])) == [CommitOutcome.COMMITTED], "a broker with the whole log is found"


@pytest.mark.parametrize(
    ("descriptions", "requests"),
    [
        ([BEHIND, description("Ongoing", start_time_ms=2000)], 3),
        ([BEHIND, description("CompleteCommit", start_time_ms=2000)], 2),
        ([description("PrepareCommit", start_time_ms=2000)], 2),
    ],
    ids=["open at its coordinator", "committed at its coordinator", "its coordinator answered"],
)
def test_success_behind_a_lost_answer_is_looked_up(descriptions, requests):
    answers = [EndTxnAnswer.OTHER_RETRIABLE, EndTxnAnswer.NONE]
    coordinator = Moving(*descriptions, p_0=answers)

    def described(transactional_ids, *, deadline=None, real=coordinator.describe):
        found = real(transactional_ids, deadline=deadline)
        if found["p-0"].state == "Ongoing":  # the next request commits it
            coordinator.know("p-0", description("CompleteCommit", start_time_ms=2000))
        return found

    coordinator.describe = described
    subject, _ = committer(coordinator, describer=coordinator)
    (settled,) = subject.commit([committable(start_time_ms=2000)])
    assert settled.outcome is CommitOutcome.COMMITTED
    assert not settled.at_once
    assert coordinator.calls.count("commit") == requests


@pytest.mark.parametrize(
    ("found", "marks", "expected"),
    [
        (description("CompleteAbort", start_time_ms=2000, producer_epoch=1), {}, CommitOutcome.LOST),
        (description("Empty", start_time_ms=-1, producer_epoch=1), {}, CommitOutcome.UNCERTAIN),
        (
            description("Empty", start_time_ms=-1, producer_epoch=1),
            {SPLIT.partition: marked(20)},
            CommitOutcome.COMMITTED,
        ),
    ],
    ids=["timed out", "taken over", "committed, then taken over"],
)
def test_success_behind_a_lost_answer_does_not_outweigh_the_description(found, marks, expected):
    coordinator = Moving(BEHIND, found, p_0=[EndTxnAnswer.OTHER_RETRIABLE, EndTxnAnswer.NONE])
    subject, _ = committer(coordinator, FakeEvidence(marks), describer=coordinator)
    (settled,) = subject.commit([committable(start_time_ms=2000)])
    assert settled.outcome is expected
    assert not settled.at_once


def test_C05_an_interrupt_goes_through():
    def interrupted(_):
        raise InterruptedError

    coordinator = answering(p_0=[EndTxnAnswer.OTHER_RETRIABLE])
    subject = KafkaCommitter(coordinator, None, sleep=interrupted)
    with pytest.raises(InterruptedError):
        subject.commit([committable()])
    coordinator.answers["p-0"] = [EndTxnAnswer.NONE]
    assert outcomes(subject.commit([committable()])) == [CommitOutcome.COMMITTED]


def test_C06_the_hook_sees_each_single_commit():
    coordinator = answering(p_0=[EndTxnAnswer.NONE], p_1=[EndTxnAnswer.NONE])
    subject, _ = committer(coordinator)
    seen = []
    subject.commit(
        [committable(0), committable(1)], after_each=lambda each: seen.append((each.subtask, len(coordinator.asked)))
    )
    assert seen == [(0, 1), (1, 2)]
    assert coordinator.ids_of("commit") == [["p-0"], ["p-1"]]


def test_C08_checkpoints_are_committed_in_their_order():
    coordinator = answering(p_0=[EndTxnAnswer.NONE], p_1=[EndTxnAnswer.NONE], p_2=[EndTxnAnswer.NONE])
    subject, _ = committer(coordinator)
    given = [committable(0, checkpoint_id=2), committable(1, checkpoint_id=1), committable(2, checkpoint_id=2)]
    settled = subject.commit(given)
    assert coordinator.ids_of("commit") == [["p-1"], ["p-0", "p-2"]]
    assert [each.committable for each in settled] == given, "answers come in the order of the question"


def test_C08_a_later_checkpoint_waits_for_an_earlier_one():
    coordinator = answering(p_0=[EndTxnAnswer.OTHER_RETRIABLE], p_1=[EndTxnAnswer.NONE])
    subject, _ = committer(coordinator)
    with pytest.raises(CommitOutcomeUnknown):
        subject.commit([committable(0, checkpoint_id=1), committable(1, checkpoint_id=2)])
    assert all(ids == ["p-0"] for _, ids in coordinator.asked)


def test_C08_nothing_to_commit():
    assert committer(answering())[0].commit([]) == ()


# With the real broker: fencing and visibility.


@pytest.fixture
def ranges(make_topic):
    """Ranges of a source topic; the broker takes offsets of topics that exist only."""
    source = make_topic(2, name="in")
    return tuple(KafkaPartitionSplit(TopicPartition(source, partition), 0, 5) for partition in range(2))


def test_C03_superseded_before_its_commit_is_found_lost(harness, topic_scope, ranges):
    first = harness(group_id=topic_scope.prefix).open()
    first.write(1)
    state = first.snapshot(1, ranges=ranges)
    # A transaction with offsets of the same partitions takes the id over, so the evidence would wait for it.
    taker = harness(group_id=topic_scope.prefix)
    entry = taker.pool.begin(state.pending[0].transactional_id)
    entry.producer.send_offsets({ranges[0].partition: 9}, group_id=topic_scope.prefix, metadata="", timeout=30)
    second = harness(group_id=topic_scope.prefix).restore(state)
    (settled,) = second.settled
    assert (settled.outcome, settled.answer) == (CommitOutcome.LOST, EndTxnAnswer.PRODUCER_FENCED)
    assert second.aborted == (state.pending[0].transactional_id,)
    assert topic_scope.numbers() == []
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("committed", [True, False])
def test_C03_a_group_that_was_ahead_of_the_job_proves_nothing_by_its_offsets(harness, topic_scope, ranges, committed):
    """Earliest with a group of old: its offsets lie beyond the transaction's whether that was committed or not."""
    consumer = Consumer({"bootstrap.servers": topic_scope.bootstrap, "group.id": topic_scope.prefix})
    ahead = [ClientPartition(*each.partition, 500) for each in ranges]
    consumer.commit(offsets=ahead, asynchronous=False)
    consumer.close()
    first = harness(group_id=topic_scope.prefix).open()
    first.write(1)
    state = first.snapshot(1, ranges=ranges)
    if committed:
        first.notify(1)
        topic_scope.await_ended()
    harness().pool.begin(state.pending[0].transactional_id)
    second = harness(group_id=topic_scope.prefix).restore(state)
    (settled,) = second.settled
    expected = CommitOutcome.COMMITTED if committed else CommitOutcome.LOST
    assert (settled.outcome, settled.answer) == (expected, EndTxnAnswer.PRODUCER_FENCED)
    assert topic_scope.numbers() == ([1] if committed else [])
    assert topic_scope.open_transactions() == []


def test_C05_an_unreachable_cluster_is_an_unknown_outcome_in_time():
    client = TransactionClient({"bootstrap.servers": "127.0.0.1:1"}, timeout=0.5)
    subject = KafkaCommitter(client, None, timeout=1)
    with pytest.raises(CommitOutcomeUnknown):
        subject.commit([committable()])
    with pytest.raises(KafkaUnreachable):
        client.describe(["p-0"])
    client.close()
