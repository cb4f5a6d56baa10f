"""Random joins, leaves, crashes and lost sessions: no record is missed, and none is repeated without a loss."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.model.partition import TopicPartition
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.fakes.consumer_group import TOPIC, FakeGroup, FakeMember

PARTITIONS = 4
WORK = ("begin", "begin", "finish", "finish", "commit", "produce")
GRACEFUL = (*WORK, "join", "leave")
LATE = (*WORK, "join", "leave", "join late")
ROUGH = (*GRACEFUL, "join late", "crash", "expire", "rejoin")


def steps(kinds: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int]]]:
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 3)), min_size=15, max_size=60)


def step(group: FakeGroup, kind: str, which: int) -> None:
    """One thing that an engine, a member's thread or the coordinator does; nothing where nobody is there for it."""
    if kind == "produce":
        each = TopicPartition(TOPIC, which)
        group.cluster.ends[each] += 2
    elif kind == "join" and len(group.members) < 4:
        group.join(FakeMember(group, restored={}))
    elif kind == "join late" and len(group.members) < 4:
        group.join(FakeMember(group), finishing=False)
    elif kind == "rejoin" and group.zombies:
        zombie = group.zombies.pop()
        zombie.notice_loss()
        group.join(zombie)
    elif kind in {"begin", "finish", "commit"} and (every := [*group.members, *group.zombies]):
        getattr(every[which % len(every)], kind)()
    elif kind in {"leave", "expire", "crash"} and which < len(group.members):
        member = group.members[which]
        group.leave(member) if kind == "leave" else group.expire(member)
        if kind == "crash":
            group.zombies.pop()


def check(group: FakeGroup) -> None:
    for each, offset in group.cluster.commits.items():
        assert all(group.read[(each, number)] for number in range(offset)), f"{each} is committed to {offset}, unread"
    if not group.repeats_allowed:
        assert max(group.read.values(), default=1) == 1, "a record was read twice, and nobody lost a partition"


def run(cooperative: bool, todo: list[tuple[str, int]]) -> FakeGroup:
    ends = {TopicPartition(TOPIC, number): 8 for number in range(PARTITIONS)}
    group = FakeGroup(FakeCluster({TOPIC: PARTITIONS}, ends=ends), cooperative)
    group.join(FakeMember(group))
    group.join(FakeMember(group))
    for kind, which in todo:
        step(group, kind, which)
        check(group)
    while group.zombies:
        step(group, "rejoin", 0)
    group.join(FakeMember(group))
    for _ in range(sum(ends.values())):
        for member in group.members:
            member.begin()
            member.finish()
            member.commit()
    assert {each for each, times in group.read.items() if times} == {
        (each, offset) for each, end in group.cluster.ends.items() for offset in range(end)
    }
    check(group)
    return group


@settings(max_examples=150)
@given(st.booleans(), steps(GRACEFUL))
def test_joins_and_leaves_repeat_nothing(cooperative: bool, todo: list[tuple[str, int]]) -> None:
    assert not run(cooperative, todo).repeats_allowed


@settings(max_examples=150)
@given(st.booleans(), steps(LATE))
def test_a_late_checkpoint_loses_its_partitions_and_says_so(cooperative: bool, todo: list[tuple[str, int]]) -> None:
    run(cooperative, todo)


@settings(max_examples=150)
@given(st.booleans(), steps(ROUGH))
def test_crashes_and_lost_sessions_miss_nothing(cooperative: bool, todo: list[tuple[str, int]]) -> None:
    run(cooperative, todo)
