"""What is asked and repaired where a marker is missing; that brokers obey is in tests/integration/protocol."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.clients.transactions.states import EndTxn, TransactionListing, TransactionState
from sparkapp.model.checkpoint.committable import MAX_PRODUCER_EPOCH
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable, TransactionHanging
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.sink.ending.hanging import HangingAtStart
from sparkapp.sink.ending.proven_ends import Ended, ProvenEnds
from sparkapp.sink.ending.proven_fence import ProvenFence
from sparkapp.sink.ending.proven_ids import ProvenIds
from sparkapp.sink.ending.used_ids import UsedIds
from tests.support.fakes.partition_logs import GROUP, FakeCluster

A, B = TopicPartition("out", 0), TopicPartition("out", 1)
SCOPE = LogScope(topics=frozenset(["out"]), groups=frozenset(["g"]))
ID = "p-0"


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(A, B)
    made.initialise(ID)
    return made


def ends(cluster: FakeCluster, **options: object) -> ProvenEnds:
    return ProvenEnds(cluster, SCOPE, sleep=lambda _: None, **options)  # type: ignore[arg-type]


def ended(cluster: FakeCluster, *, commit: bool, **options: object) -> Ended:
    now = cluster.ids[ID]
    end = EndTxn(transactional_id=ID, producer_id=now.producer_id, producer_epoch=now.producer_epoch, commit=commit)
    return Ended(end=end, epoch=now.producer_epoch, **options)  # type: ignore[arg-type]


def leave_out(cluster: FakeCluster, *partitions: TopicPartition, commit: bool) -> None:
    """The id's transaction ends while these partitions have no leader; they come back."""
    for partition in partitions:
        cluster.lead(partition, present=False)
    cluster.end(ID, commit=commit)
    for partition in partitions:
        cluster.lead(partition, present=True)


def at_start(cluster: FakeCluster, *, fence: bool = False) -> HangingAtStart:
    return HangingAtStart(
        cluster, ends(cluster), scope=SCOPE, fence=fence, require_claim=lambda: None, sleep=lambda _: None
    )


def rows(cluster: FakeCluster) -> list[TransactionListing]:
    ids = UsedIds(prefixes=["p"], hint=FIRST_HINT, parallelism=1, pool_size=1)
    return ids.rows(cluster, deadline=soon())


def soon() -> Deadline:
    return Deadline.after(5)


@pytest.mark.parametrize("known", [frozenset([A, B, GROUP]), None], ids=["known partitions", "every partition"])
@pytest.mark.parametrize("commit", [True, False])
def test_a_missing_marker_is_written_with_the_outcome_of_its_transaction(
    cluster: FakeCluster, commit: bool, known: frozenset[TopicPartition] | None
) -> None:
    cluster.write(ID, "r", A, B, GROUP)
    end = ended(cluster, commit=commit, partitions=known)
    leave_out(cluster, A, GROUP, commit=commit)
    ends(cluster).require([end], deadline=soon())
    for partition in (A, B, GROUP):
        log = cluster.partitions[partition]
        assert (log.committed, log.aborted, log.open) == ((["r"], [], {}) if commit else ([], ["r"], {}))
    ((_, topics, group),) = cluster.ended_again
    assert (topics, group) == ({A}, "g"), "only where it is missing"


def test_a_marker_that_is_on_its_way_is_waited_for(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    end = ended(cluster, commit=True, partitions=frozenset([A]))
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            cluster.end(ID, commit=True)

    ProvenEnds(cluster, SCOPE, sleep=sleep).require([end], deadline=soon())
    assert not cluster.ended_again


def test_without_a_leader_nothing_is_proven(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    end = ended(cluster, commit=True, partitions=frozenset([A]))
    cluster.lead(A, present=False)
    cluster.end(ID, commit=True)
    with pytest.raises(KafkaUnreachable, match="no leader"):
        ends(cluster).require([end], deadline=soon())


def test_an_id_that_has_a_newer_producer_is_left_to_it(cluster: FakeCluster) -> None:
    """Its process proves the end before it writes. What it has open is not this transaction's."""
    cluster.write(ID, "r", A)
    end = ended(cluster, commit=False, partitions=frozenset([A]))
    leave_out(cluster, A, commit=False)
    cluster.initialise(ID)
    with pytest.raises(KafkaUnreachable, match="ended p-0 in out-0"):
        ends(cluster).require([end], deadline=Deadline.after(0))
    assert not cluster.ended_again


def test_a_forgotten_producer_is_a_refusal(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    end = ended(cluster, commit=True, partitions=frozenset([A]))
    leave_out(cluster, A, commit=True)
    del cluster.ids[ID]
    with pytest.raises(KafkaAccessError, match="forgotten producer 1"):
        ends(cluster).require([end], deadline=soon())


def test_a_fence_that_replaces_the_producer_proves_nothing(cluster: FakeCluster) -> None:
    """Its epochs are used up: the new producer has nothing open, and the records of the producer before still hang."""
    cluster.ids[ID] = replace(cluster.ids[ID], producer_epoch=MAX_PRODUCER_EPOCH - 1)
    cluster.write(ID, "r", A)
    end = ended(cluster, commit=True, partitions=frozenset([A]), fence=True)
    leave_out(cluster, A, commit=True)
    with pytest.raises(KafkaAccessError, match="have forgotten producer 1 of p-0 in out-0"):
        ends(cluster).require([end], deadline=soon())
    assert cluster.partitions[A].open


def test_topics_whose_leaders_may_not_be_asked_are_told(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    cluster.refused = frozenset(["out"])
    told: list[frozenset[str]] = []
    ends(cluster, refused=told.append).require([ended(cluster, commit=True)], deadline=soon())
    assert told == [{"out"}]


@pytest.mark.parametrize("leaderless", [True, False])
def test_a_fence_returns_when_its_abort_is_in_the_logs(cluster: FakeCluster, leaderless: bool) -> None:
    cluster.write(ID, "r", A, B)
    fence_all = cluster.fence_all

    def fence(ids: list[str], *, deadline: Deadline | None = None) -> dict[str, tuple[int, int]]:
        cluster.lead(A, present=not leaderless)
        answer = fence_all(ids)
        cluster.lead(A, present=True)
        return answer

    cluster.fence_all = fence  # type: ignore[method-assign, assignment]
    ProvenFence(cluster, ends(cluster)).fence_all([ID], deadline=soon())
    assert [cluster.partitions[each].aborted for each in (A, B)] == [["r"], ["r"]]
    assert bool(cluster.ended_again) is leaderless


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("fence", [True, False])
def test_a_start_ends_what_hangs_as_its_coordinator_says(cluster: FakeCluster, commit: bool, fence: bool) -> None:
    cluster.write(ID, "r", A, GROUP)
    leave_out(cluster, A, GROUP, commit=commit)
    epoch = cluster.ids[ID].producer_epoch
    assert at_start(cluster, fence=fence).end(rows(cluster), spare=(), deadline=soon()) == 1
    log = cluster.partitions[A]
    assert (log.committed, log.aborted) == ((["r"], []) if commit else ([], ["r"]))
    assert not cluster.partitions[GROUP].open
    assert (cluster.ids[ID].producer_epoch > epoch) is fence, "an instance that is alive would write on"
    assert at_start(cluster).end(rows(cluster), spare=(), deadline=soon()) == 0


def test_a_start_leaves_the_transactions_of_the_document_to_their_settlement(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    leave_out(cluster, A, commit=True)
    assert at_start(cluster).end(rows(cluster), spare=[ID], deadline=soon()) == 0
    assert cluster.partitions[A].open


def test_an_open_transaction_does_not_hang(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    assert at_start(cluster).end(rows(cluster), spare=(), deadline=soon()) == 0
    assert cluster.partitions[A].open


def test_a_forgotten_outcome_stops_the_start_and_writes_no_marker(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    leave_out(cluster, A, commit=True)
    cluster.initialise(ID)
    with pytest.raises(TransactionHanging, match=r"p-0 \(producer 1\) in out-0 from offset 0") as caught:
        at_start(cluster).end(rows(cluster), spare=(), deadline=soon())
    assert caught.value.fatal
    assert cluster.partitions[A].open


def test_the_end_of_a_known_part_does_not_decide_a_forgotten_part(cluster: FakeCluster) -> None:
    """The marker of A leaves CompleteAbort behind, by which B, an epoch later, would be an abort by the time-out."""
    cluster.write(ID, "a", A)
    leave_out(cluster, A, commit=False)
    cluster.initialise(ID)
    cluster.write(ID, "b", B)
    leave_out(cluster, B, commit=True)
    cluster.initialise(ID)
    for _ in range(2):
        with pytest.raises(TransactionHanging, match="in out-1 from offset 0"):
            at_start(cluster).end(rows(cluster), spare=(), deadline=soon())
    assert (cluster.partitions[B].aborted, cluster.ended_again) == ([], [])


def proven(cluster: FakeCluster, *, commits_itself: bool = False) -> ProvenIds:
    return ProvenIds(cluster, SCOPE, commits_itself=commits_itself)


def reopen(cluster: FakeCluster, ids: ProvenIds) -> None:
    """What a producer pool does."""
    before = ids.before_init(ID, timeout=5)
    cluster.initialise(ID)
    ids.after_init(ID, before, cluster.ids[ID], timeout=5)


def test_an_id_whose_commit_the_driver_has_proven_costs_no_question(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A)
    cluster.end(ID, commit=True)
    reopen(cluster, proven(cluster))
    assert not cluster.asked


def test_a_producer_does_not_write_behind_an_end_that_is_forgotten(cluster: FakeCluster) -> None:
    """Initialised behind a commit whose marker is missing: an abort would lose it."""
    cluster.write(ID, "r", A)
    leave_out(cluster, A, commit=True)
    cluster.initialise(ID)
    with pytest.raises(TransactionHanging, match="p-0 in out-0"):
        reopen(cluster, proven(cluster))
    assert cluster.partitions[A].open


@pytest.mark.parametrize("fence", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_a_repair_whose_coordinator_moved_is_finished(cluster: FakeCluster, commit: bool, fence: bool) -> None:
    """The transaction of the repair is open, with the old records in it: any other end would decide them wrongly."""
    cluster.write(ID, "r", A)
    end = ended(cluster, commit=commit, partitions=frozenset([A]), fence=fence)
    leave_out(cluster, A, commit=commit)
    cluster.interrupts = 1
    ends(cluster).require([end], deadline=soon())
    log = cluster.partitions[A]
    assert (log.committed, log.aborted, log.open) == ((["r"], [], {}) if commit else ([], ["r"], {}))
    assert cluster.ids[ID].state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)


@pytest.mark.parametrize("how", ["failed task", "time-out", "dead task", "unused producer"])
def test_a_producer_does_not_write_behind_an_abort_without_proof(cluster: FakeCluster, how: str) -> None:
    cluster.write(ID, "r", A)
    if how == "failed task":
        leave_out(cluster, A, commit=False)
    else:
        if how != "dead task":
            cluster.lead(A, present=False)
            cluster.expire(ID)
            cluster.lead(A, present=True)
        if how == "unused producer":
            cluster.initialise(ID)
    reopen(cluster, proven(cluster))
    log = cluster.partitions[A]
    assert (log.open, log.aborted) == ({}, ["r"])


def test_an_instance_that_commits_proves_the_commit_of_the_instance_before(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A, GROUP)
    leave_out(cluster, A, GROUP, commit=True)
    reopen(cluster, proven(cluster, commits_itself=True))
    log = cluster.partitions[A]
    assert (log.open, log.committed) == ({}, ["r"])
    assert cluster.ids[ID].state is TransactionState.EMPTY


def test_an_instance_proves_each_commit_with_the_groups_offsets(cluster: FakeCluster) -> None:
    cluster.write(ID, "r", A, GROUP)
    end = ended(cluster, commit=True).end
    leave_out(cluster, GROUP, commit=True)
    proven(cluster, commits_itself=True).committed(end, [A], "g", soon())
    assert not cluster.partitions[GROUP].open
