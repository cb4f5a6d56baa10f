"""What a group gives this job, on a group in memory: planning, giving back, losing, committing."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import GroupMemberFenced, OffsetsWentBackwards, UndefinedOffset
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import TopicListSubscriber
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import CommittedOffsetsInitializer
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.patience import PATIENCE

NO_RESET = CommittedOffsetsInitializer(ResetStrategy.FAIL)
A0, A1, A2 = (TopicPartition("a", number) for number in range(3))


class Listener:
    """What a membership said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, bool]] = []
        self.counts: list[int] = []
        self.commits = CommitCounter()


def membership(
    cluster: FakeCluster,
    *,
    restored: Mapping[TopicPartition, int] | None = None,
    on_missing: ResetStrategy = ResetStrategy.EARLIEST,
    listener: Listener | None = None,
    warned: list[tuple[str, str]] | None = None,
) -> GroupMembership:
    heard, warnings = listener or Listener(), warned if warned is not None else []
    made = GroupMembership(
        cluster=cluster,
        initializer=CommittedOffsetsInitializer(on_missing, warn=lambda *event: warnings.append(event)),
        tell=lambda *event: heard.events.append(event), changed=heard.counts.append,
        callback=heard.commits,
    )  # fmt: skip
    made.start(restored, [A0, A1])
    return made


def cluster() -> FakeCluster:
    return FakeCluster({"a": 2}, {A0: 3}, {A0: 10, A1: 20, A2: 5}, {A0: 7})


def split(partition: TopicPartition, start: int, stop: int) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(partition, start, stop)


def test_the_group_is_joined_by_the_first_plan_and_an_empty_assignment_is_idleness() -> None:
    listener = Listener()
    group = membership(cluster(), listener=listener)
    assert group.topics == frozenset()
    assert group.take() == {}
    assert group.topics == {"a"}
    assert listener.counts == [0]


def test_assigned_partitions_continue_and_missing_offsets_are_committed_at_once() -> None:
    group = membership(cluster(), on_missing=ResetStrategy.LATEST)
    group.assigned([A0, A1])
    assert group.take() == {A0: 7, A1: 20}
    assert group.due() == {A1: 20}, "or the next owner would skip what comes in between"


def test_the_groups_offset_beats_the_checkpoints_which_beats_the_reset_strategy() -> None:
    group = membership(cluster(), restored={A0: 9, A1: 11}, on_missing=ResetStrategy.FAIL)
    group.assigned([A0, A1])
    assert group.take() == {A0: 7, A1: 11}


def test_partitions_that_came_later_begin_earliest_whatever_the_strategy() -> None:
    view = cluster()
    group = membership(view, on_missing=ResetStrategy.LATEST)
    view.starts[A2] = 2
    group.assigned([A1, A2])
    assert group.take() == {A1: 20, A2: 2}


def test_S23_without_a_strategy_a_missing_offset_is_named() -> None:
    group = membership(cluster(), on_missing=ResetStrategy.FAIL)
    group.assigned([A1])
    with pytest.raises(UndefinedOffset, match="a-1"):
        group.take()
    assert group.await_finished([A1], 0)


def test_a_revocation_waits_for_the_checkpoint_under_way_and_its_offsets() -> None:
    group = membership(cluster())
    group.assigned([A0, A1])
    group.take()
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(group.await_finished([A0], 30)))
    thread.start()
    group.commit({A0: 10})
    assert not done
    assert group.complete([split(A0, 7, 10), split(A1, 0, 0)]) == {A0: 10, A1: 0}
    thread.join(PATIENCE)
    assert done == [True]
    assert group.due()[A0] == 10
    group.committed({A0: 10})
    assert group.take() == {A1: 0}, "what is asked back is not planned any more"
    group.revoked([A0])
    group.assigned([A0])
    assert group.take().keys() == {A0, A1}


def test_a_checkpoint_without_the_partition_is_not_waited_for() -> None:
    group = membership(cluster())
    group.assigned([A0])
    group.take()
    group.assigned([A1])
    assert group.await_finished([A1], 0)
    assert not group.await_finished([A0], 0)


def test_a_plan_with_nothing_to_read_keeps_nothing_under_way() -> None:
    view = FakeCluster({"a": 1})
    group = membership(view)
    enumerator = KafkaSourceEnumerator(
        cluster=view, subscriber=TopicListSubscriber(("a",)), starting=NO_RESET,
        options=EnumeratorOptions(discovery_interval=0, max_offsets=10), warn=lambda *_: None, membership=group,
    )  # fmt: skip
    enumerator.start(None)
    group.assigned([A0])
    view.commits[A0] = 0
    assert enumerator.plan() == (split(A0, 0, 0),)
    assert group.await_finished([A0], 0)


def test_offsets_of_a_lost_partition_are_not_committed() -> None:
    view, listener = cluster(), Listener()
    group = membership(view, listener=listener)
    group.assigned([A0, A1])
    group.take()
    group.lost([A0], "the session ended")
    group.assigned([A0])
    view.commits[A0] = 9
    group.commit({A0: 10, A1: 4})
    assert group.due() == {A1: 4}
    assert group.complete([split(A0, 7, 10), split(A1, 0, 4)]) == {A1: 4}
    assert group.take() == {A0: 9, A1: 4}, "where the member in between has left it"
    assert [(reason, warning) for reason, _, warning in listener.events] == [
        ("PartitionsAssigned", False), ("PartitionsLost", True), ("PartitionsAssigned", False)
    ]  # fmt: skip


def test_what_waited_for_a_lost_partition_is_dropped() -> None:
    group = membership(cluster())
    group.assigned([A0])
    group.take()
    group.commit({A0: 8})
    assert not group.drain(0)
    group.lost([A0], "the session ended")
    assert group.drain(0)
    assert group.due() == {}


def test_a_refused_commit_is_counted_one_to_repeat_waits_and_the_newest_wins() -> None:
    listener = Listener()
    group = membership(cluster(), listener=listener)
    group.assigned([A0])
    group.take()
    group.commit({A0: 8}, "uid/1/1")
    due = group.due()
    group.not_committed(due, "rebalance", again=True)
    assert listener.commits.failed == 0
    group.commit({A0: 9}, "uid/1/2")
    assert group.due() == {A0: 9}
    assert group.mark == "uid/1/2"
    group.not_committed({A0: 9}, "illegal generation", again=False)
    assert listener.commits.failed == 1
    assert group.drain(0)
    group.commit({A0: 10})
    sent = group.due()
    group.commit({A0: 11})
    group.committed(sent)
    assert group.due() == {A0: 11}
    assert listener.commits.succeeded == 1


def test_a_failed_member_ends_waits_and_the_next_plan_says_why() -> None:
    group = membership(cluster())
    group.assigned([A0])
    group.take()
    group.commit({A0: 8})
    group.fail(GroupMemberFenced("fenced"))
    assert group.await_finished([A0], 0)
    assert group.drain(0)
    with pytest.raises(GroupMemberFenced):
        group.take()


def test_closing_ends_the_wait_for_a_checkpoint_that_will_not_come() -> None:
    group = membership(cluster())
    group.assigned([A0])
    group.take()
    group.close()
    assert group.await_finished([A0], 0)


@pytest.mark.parametrize(("strategy", "begins"), [(ResetStrategy.EARLIEST, (3, 0)), (ResetStrategy.LATEST, (10, 20))])
def test_an_offset_outside_the_log_falls_under_the_reset_strategy_and_says_so(
    strategy: ResetStrategy, begins: tuple[int, int]
) -> None:
    view, listener, warned = cluster(), Listener(), list[tuple[str, str]]()
    view.commits |= {A0: 1, A1: 25}
    group = membership(view, on_missing=strategy, listener=listener, warned=warned)
    group.assigned([A0, A1])
    assert group.take() == group.due() == dict(zip((A0, A1), begins, strict=True))
    assert [reason for reason, _ in warned] == ["OffsetOutOfRange"]
    assert "a-0 at 1 (the log holds 3 to 10), a-1 at 25 (the log holds 0 to 20)" in warned[0][1]
    assert "PartitionBeyondEnd" not in [reason for reason, _, _ in listener.events], "not a silent wait"


def test_without_a_strategy_an_offset_beyond_the_log_ends_the_attempt() -> None:
    view = cluster()
    view.commits[A1] = 25
    group = membership(view, on_missing=ResetStrategy.FAIL)
    enumerator = KafkaSourceEnumerator(
        cluster=view, subscriber=TopicListSubscriber(("a",)), starting=NO_RESET,
        options=EnumeratorOptions(discovery_interval=0, max_offsets=10), warn=lambda *_: None, membership=group,
    )  # fmt: skip
    enumerator.start({})
    group.assigned([A1])
    with pytest.raises(OffsetsWentBackwards, match="a-1: offset was changed from 25 to 20"):
        enumerator.plan()


def test_restored_offsets_stay_in_the_checkpoint_until_the_first_plan() -> None:
    view = cluster()
    group = GroupMembership(
        cluster=view, initializer=CommittedOffsetsInitializer(ResetStrategy.EARLIEST),
        tell=lambda *_: None, changed=lambda _: None, callback=CommitCounter(),
    )  # fmt: skip
    enumerator = KafkaSourceEnumerator(
        cluster=view, subscriber=TopicListSubscriber(("a",)), starting=NO_RESET,
        options=EnumeratorOptions(discovery_interval=0, max_offsets=10), warn=lambda *_: None, membership=group,
    )  # fmt: skip
    enumerator.start({A0: 5, A1: 6, A2: 7})
    assert enumerator.unplanned() == (split(A0, 5, 5), split(A1, 6, 6))
    assert enumerator.plan() == ()


def test_discovery_changes_the_subscription() -> None:
    view, time = FakeCluster({"a": 1}), [0.0]
    group = membership(view)
    enumerator = KafkaSourceEnumerator(
        cluster=view, subscriber=TopicListSubscriber(("a",)), starting=NO_RESET,
        options=EnumeratorOptions(discovery_interval=30, max_offsets=10), warn=lambda *_: None,
        membership=group, clock=lambda: time[0],
    )  # fmt: skip
    enumerator.start(None)
    assert group.topics == frozenset()
    time[0] = 31
    enumerator.discover_if_due()
    assert group.topics == {"a"}


def test_partitions_that_are_gone_are_not_planned_any_more() -> None:
    group = membership(cluster())
    group.assigned([A0, A1])
    group.take()
    group.commit({A1: 20})
    group.discovered([A0], [A1])
    assert group.drain(0)
    assert group.take() == {A0: 7}


def test_offsets_that_are_withdrawn_are_not_committed() -> None:
    group = membership(cluster())
    group.assigned([A0, A1])
    group.take()
    group.commit({A0: 8, A1: 20})
    assert group.withdraw([A1], 0)
    assert group.due() == {A0: 8}
    assert not group.withdraw([A0], 0), "the commit under way cannot be called back"
