"""The partitions that a consumer group gives this job, and where each goes on (seed 004, ADR 10).

Two threads meet here. The engine's plans from :meth:`GroupMembership.take` and reports back with
:meth:`GroupMembership.commit` and :meth:`GroupMembership.complete`. The member's thread (:mod:`.group_member`, which
alone talks to Kafka) says what was assigned, waits before it gives anything back, and takes the offsets to commit.

A partition that is asked back while a checkpoint is under way stays this job's until that checkpoint's offsets are
committed, or until the group has waited long enough: then, and where the group has already given it to another member,
it is *lost*, nothing of it is committed any more, and its records of that checkpoint may be repeated (at least once).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from sparkapp.model.errors import InvalidArgument, KafkaSparkJobError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.source.cluster import ClusterView
from sparkapp.source.group_starts import GroupStarts, Tell
from sparkapp.source.offset_committer import OffsetCommitCallback
from sparkapp.source.offsets_initializer import OffsetsInitializer


@dataclass(frozen=True, slots=True)
class Tenure:
    """An offset of a partition under one assignment of it: worth nothing once the partition was given away."""

    epoch: int
    offset: int


class GroupMembership:
    """What is ours in the current generation of the group; one per driver.

    :param cluster: asked for committed offsets and log ends of newly assigned partitions.
    :param initializer: places partitions on a job's first start for which the group has no committed offset.
    :param tell: of every change of the assignment.
    :param changed: given the number of our partitions whenever a plan finds another set than the last one did.
    :param callback: told of each commit that has its answer.
    """

    def __init__(
        self,
        *,
        cluster: ClusterView,
        initializer: OffsetsInitializer,
        tell: Tell,
        changed: Callable[[int], None],
        callback: OffsetCommitCallback,
    ) -> None:
        self._starts = GroupStarts(cluster, initializer, tell)
        self._tell = tell
        self._changed = changed
        self._callback = callback
        self._positions: dict[TopicPartition, Tenure] = {}
        self._planned: frozenset[TopicPartition] | None = None
        self._to_join: frozenset[TopicPartition] | None = None
        self._condition = threading.Condition()
        """Guards what follows."""
        self._topics: frozenset[str] = frozenset()
        self._epoch = 0
        self._held: dict[TopicPartition, int] = {}
        """Our partitions, each with the epoch of its assignment (the client does not tell the broker's generation)."""
        self._asked_back: set[TopicPartition] = set()
        self._under_way: dict[TopicPartition, int] = {}
        """The partitions of the checkpoint under way, with the epochs they were taken in."""
        self._waiting: dict[TopicPartition, Tenure] = {}
        self._mark = ""
        self._sending = False
        self._failure: KafkaSparkJobError | None = None
        self._closing = False
        self.abandoned = 0
        """Partitions whose offsets were not committed, because they were lost during a checkpoint."""

    # -- the enumerator's half ------------------------------------------------------------------------------------

    def start(
        self, restored: Mapping[TopicPartition, int] | None, found: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Learns what there is; called once. The group is joined by the first plan, when the job is able to read.

        :param restored: the checkpoint's offsets, None on a first start.
        :returns: those of them that still exist, to be kept in the checkpoint until the first plan.
        """
        self._to_join = frozenset(found)
        return self._starts.remember(restored, self._to_join)

    def discovered(self, found: Iterable[TopicPartition], gone: Iterable[TopicPartition] = ()) -> None:
        """The topics to be subscribed to; a change makes the group rebalance.

        :param gone: partitions that no longer exist, and that the group has yet to take back.
        """
        self._to_join = None
        with self._condition:
            for one in gone:
                self._held.pop(one, None)
                self._waiting.pop(one, None)
            self._topics = frozenset(one.topic for one in found)
            self._condition.notify_all()

    def take(self) -> dict[TopicPartition, int]:
        """Our partitions and where each goes on; they are under way until :meth:`complete` or :meth:`release`.

        Empty while the group rebalances or has nothing for us: that is idleness, no error.

        :raises KafkaSparkJobError: the member cannot be one any more; also what placing a partition raises.
        """
        if self._to_join is not None:
            self.discovered(self._to_join)
        with self._condition:
            if self._failure is not None:
                raise self._failure
            taken = {one: epoch for one, epoch in self._held.items() if one not in self._asked_back}
            self._under_way = dict(taken)
        kept = {one: at for one, at in self._positions.items() if taken.get(one) == at.epoch}
        try:
            self._positions = kept | self._placed({one: epoch for one, epoch in taken.items() if one not in kept})
        except BaseException:
            self.release()
            raise
        if taken.keys() != self._planned:
            self._planned = frozenset(taken)
            self._changed(len(taken))
        return {one: at.offset for one, at in self._positions.items()}

    def release(self) -> None:
        """The last plan had nothing to read: nothing is under way."""
        with self._condition:
            self._under_way = {}
            self._condition.notify_all()

    def complete(self, splits: Iterable[KafkaPartitionSplit]) -> dict[TopicPartition, int]:
        """The checkpoint with these splits is final and its offsets were handed to :meth:`commit`.

        :returns: where those of its partitions go on that are still ours.
        """
        with self._condition:
            for split in splits:
                epoch = self._under_way.get(split.partition)
                if epoch is not None:
                    self._positions[split.partition] = Tenure(epoch, split.stop)
            ours = {one: at.offset for one, at in self._positions.items() if self._held.get(one) == at.epoch}
            self._under_way = {}
            self._condition.notify_all()
        return ours

    def _placed(self, new: Mapping[TopicPartition, int]) -> dict[TopicPartition, Tenure]:
        """Where newly assigned partitions begin.

        What the group did not have is committed at once: else the next owner could place it elsewhere, and LATEST
        would skip what came in between.
        """
        if not new:
            return {}
        known, fixed = self._starts.of(new)
        self.commit(fixed)
        return {one: Tenure(new[one], offset) for one, offset in (known | fixed).items()}

    # -- group offsets, as the coordinator wants them -------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None:
        """Hands over offsets of the checkpoint under way and returns at once; newer ones replace what still waits.

        Partitions that were lost meanwhile are left out.

        :param mark: text that is stored with them (``settlement.offset_mark``).
        """
        with self._condition:
            self._mark = mark or self._mark
            for one, offset in offsets.items():
                epoch = self._under_way.get(one)
                if epoch is not None and self._held.get(one) == epoch:
                    self._waiting[one] = Tenure(epoch, offset)
                else:
                    self.abandoned += 1
            self._condition.notify_all()

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None:
        """Marks where partitions start, for a witness of transactions: a member's offsets are in none.

        :raises InvalidArgument: always.
        """
        msg = f"group offsets of {shown(offsets)} cannot be placed ({mark}): a member of a group has no transactions"
        raise InvalidArgument(msg)

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool:
        """Forgets offsets that wait, and waits out the commit under way."""
        with self._condition:
            for one in partitions:
                self._waiting.pop(one, None)
            return self._condition.wait_for(lambda: not self._sending, timeout)

    def drain(self, timeout: float) -> bool:
        """Waits until nothing waits to be committed; for an orderly stop."""
        with self._condition:
            return self._condition.wait_for(
                lambda: (not self._waiting and not self._sending) or self._failure is not None, timeout
            )

    # -- the member's half ----------------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """What the member should be subscribed to."""
        with self._condition:
            return self._topics

    @property
    def closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Nothing will be planned any more: revocations no longer wait."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()

    def pause(self, seconds: float) -> None:
        """Waits until there is something to do for the member, or for so long."""
        with self._condition:
            if not self._closing:
                self._condition.wait(seconds)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These have become ours, in addition to what is."""
        new = sorted(partitions)
        with self._condition:
            self._epoch += 1
            self._held |= dict.fromkeys(new, self._epoch)
            self._asked_back -= set(new)
            count = len(self._held)
        if new:
            self._tell("PartitionsAssigned", f"{shown(new)} assigned by the group; now {count}", False)

    def await_finished(self, partitions: Iterable[TopicPartition], timeout: float) -> bool:
        """Stops planning these, and waits until no checkpoint under way reads them.

        :param timeout: seconds, at most the group's patience.
        :returns: False where the checkpoint did not complete in time.
        """
        asked = set(partitions)
        with self._condition:
            self._asked_back |= asked
            return self._condition.wait_for(
                lambda: self._closing or self._failure is not None or not asked & self._under_way.keys(), timeout
            )

    def revoked(self, partitions: Iterable[TopicPartition]) -> None:
        """Given back; to be called when what :meth:`due` had of them is committed."""
        self._drop(partitions, "PartitionsRevoked", "given back to the group", warning=False)

    def lost(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """The group may already have given them to another member: nothing of them may be committed any more."""
        self._drop(partitions, "PartitionsLost", f"lost ({why}); what was read since the last commit may be repeated",
                   warning=True)  # fmt: skip

    @property
    def mark(self) -> str:
        """The text to be stored with committed offsets."""
        return self._mark

    def due(self) -> dict[TopicPartition, int]:
        """The offsets to be committed now; :meth:`committed` or :meth:`not_committed` must follow."""
        with self._condition:
            due = {one: at.offset for one, at in self._waiting.items()}
            self._sending = bool(due)
            return due

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The broker accepted them."""
        self._callback.on_complete(offsets, "")
        self._sent(offsets)

    def not_committed(self, offsets: Mapping[TopicPartition, int], why: str, *, again: bool) -> None:
        """The broker refused them: they wait for the next try, or the commit counts as failed and the job goes on."""
        if again:
            self._sent({})
            return
        self._callback.on_complete({}, why)
        self._sent(offsets)

    def fail(self, error: KafkaSparkJobError) -> None:
        """The member is none any more; the next plan raises this."""
        with self._condition:
            self._failure = self._failure or error
            self._held, self._waiting = {}, {}
            self._condition.notify_all()

    def _sent(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self._condition:
            for one, offset in offsets.items():
                if one in self._waiting and self._waiting[one].offset == offset:
                    del self._waiting[one]
            self._sending = False
            self._condition.notify_all()

    def _drop(self, partitions: Iterable[TopicPartition], reason: str, what: str, *, warning: bool) -> None:
        gone = sorted(partitions)
        with self._condition:
            for one in gone:
                self._held.pop(one, None)
                self._asked_back.discard(one)
                if self._waiting.pop(one, None) is not None:
                    self.abandoned += 1
            count = len(self._held)
            self._condition.notify_all()
        if gone:
            self._tell(reason, f"{shown(gone)} {what}; now {count}", warning)


def shown(partitions: Iterable[TopicPartition]) -> str:
    """Partitions in a message, the first few by name."""
    every = sorted(partitions)
    return f"{len(every)} partition(s) ({', '.join(map(str, every[:5]))}{' …' if len(every) > 5 else ''})"
