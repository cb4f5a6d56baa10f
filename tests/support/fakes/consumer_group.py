"""A consumer group in memory: a coordinator with generations and a member that answers it, in one thread.

For the rules of :class:`GroupMembership` alone; what real brokers do is judged in tests/integration/source.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import TopicListSubscriber
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import CommittedOffsetsInitializer
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.jobs.commit_counter import CommitCounter

TOPIC = "t"


class FakeMember:
    """A job as far as its group is concerned: an enumerator, its membership, at most one checkpoint under way."""

    def __init__(self, group: FakeGroup, *, restored: dict[TopicPartition, int] | None = None) -> None:
        self.group = group
        self.generation = -1
        self.owned: set[TopicPartition] = set()
        self.under_way: tuple[KafkaPartitionSplit, ...] | None = None
        initializer = CommittedOffsetsInitializer(ResetStrategy.EARLIEST)
        self.events: list[str] = []
        self.commits = CommitCounter()
        self.membership = GroupMembership(
            cluster=group.cluster, initializer=initializer,
            tell=lambda reason, _message, _warning: self.events.append(reason), changed=lambda _: None,
            callback=self.commits,
        )  # fmt: skip
        self.enumerator = KafkaSourceEnumerator(
            cluster=group.cluster, subscriber=TopicListSubscriber((TOPIC,)), starting=initializer,
            options=EnumeratorOptions(discovery_interval=0, max_offsets=3), warn=lambda *_: None,
            membership=self.membership,
        )  # fmt: skip
        self.enumerator.start(restored)

    def begin(self) -> None:
        """Plans the next checkpoint, as the engine does: only where there is something to read."""
        if self.under_way is None:
            splits = self.enumerator.plan()
            self.under_way = splits if any(each.size for each in splits) else None

    def finish(self) -> None:
        """The checkpoint's records are written, its offsets handed over, and it is complete."""
        if self.under_way is None:
            return
        for split in self.under_way:
            self.group.read.update((split.partition, offset) for offset in range(split.start, split.stop))
        self.membership.commit({each.partition: each.stop for each in self.under_way if each.size})
        self.enumerator.complete(self.under_way)
        self.under_way = None

    def commit(self) -> None:
        """One commit with this member's generation."""
        offsets = self.membership.due()
        if offsets and self.group.accept(self, offsets):
            self.membership.committed(offsets)
        elif offsets:
            self.membership.not_committed(offsets, "refused", again=False)

    def give_back(self, partitions: set[TopicPartition], *, finishing: bool) -> None:
        """The revoke callback of the member's thread, with an engine that finishes in time or does not."""
        self.membership.await_finished(partitions, 0)
        if finishing:
            self.finish()
        if self.membership.await_finished(partitions, 0):
            self.commit()
            self.membership.revoked(partitions)
        else:
            self.group.repeats_allowed = True
            self.membership.lost(partitions, "too late")
        self.owned -= partitions

    def notice_loss(self) -> None:
        """The lost callback."""
        self.membership.lost(self.owned, "session")
        self.owned = set()


@dataclass
class FakeGroup:
    """Members share the partitions of one topic in turn; ``cooperative`` takes back only what moves."""

    cluster: FakeCluster
    cooperative: bool
    generation: int = 0
    members: list[FakeMember] = field(default_factory=list)
    zombies: list[FakeMember] = field(default_factory=list)
    read: Counter[tuple[TopicPartition, int]] = field(default_factory=Counter)
    repeats_allowed: bool = False

    def accept(self, member: FakeMember, offsets: dict[TopicPartition, int]) -> bool:
        """UNKNOWN_MEMBER_ID and ILLEGAL_GENERATION are refusals."""
        if member not in self.members or member.generation != self.generation:
            return False
        for each, offset in offsets.items():
            assert offset >= self.cluster.commits.get(each, 0), f"{each} went back to {offset}"
            self.cluster.commits[each] = offset
        return True

    def rebalance(self, *, finishing: bool = True) -> None:
        """Everyone gives back what moves (eager: everything), then everyone gets its share."""
        partitions = [TopicPartition(TOPIC, number) for number in range(self.cluster.partitions[TOPIC])]
        shares: dict[int, set[TopicPartition]] = {id(member): set() for member in self.members}
        for index, partition in enumerate(partitions):
            if self.members:
                shares[id(self.members[index % len(self.members)])].add(partition)
        for member in self.members:
            moving = member.owned - shares[id(member)] if self.cooperative else set(member.owned)
            if moving:
                member.give_back(moving, finishing=finishing)
        self.generation += 1
        for member in self.members:
            member.generation = self.generation
            member.membership.assigned(shares[id(member)] - member.owned)
            member.owned = shares[id(member)]

    def join(self, member: FakeMember, *, finishing: bool = True) -> None:
        self.members.append(member)
        self.rebalance(finishing=finishing)

    def leave(self, member: FakeMember) -> None:
        """An orderly stop: the checkpoint under way is completed, what waits is committed."""
        member.finish()
        member.commit()
        member.give_back(set(member.owned), finishing=True)
        self.members.remove(member)
        self.rebalance()

    def expire(self, member: FakeMember) -> None:
        """The session ends; the member works on and does not know it yet."""
        self.repeats_allowed = True
        self.members.remove(member)
        self.zombies.append(member)
        self.rebalance()
