"""The partitions that a consumer group assigns to this job, and the next offset of each (KIP-429, ADR 10).

Two threads share it. The engine's thread plans from :meth:`GroupMembership.take` and reports back with
:meth:`GroupMembership.commit` and :meth:`GroupMembership.complete`. The member's thread (:mod:`.member`, which alone
talks to Kafka) reports assignments, waits before it gives partitions back, and takes the offsets to commit.

The group may revoke a partition while a checkpoint is under way. The job keeps it until that checkpoint's offsets are
committed, or until the group's patience ends. Then the partition is *lost*, as it is where the group has already
assigned it to another member. Nothing of it is committed any more, and its records of that checkpoint may be repeated
(at least once).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument, KafkaSparkJobError
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.partition import TopicPartition, named
from sparkapp.source.group.pending_commits import PendingCommits, Tenure
from sparkapp.source.group.starts import GroupStarts, Tell
from sparkapp.source.offset_committer import OffsetCommitCallback
from sparkapp.source.offsets_initializer import OffsetsInitializer


class GroupMembership:
    """The job's assignment in the current generation of the group; one per driver.

    :param cluster: asked for committed offsets and log ends of newly assigned partitions.
    :param initializer: places partitions on a job's first start for which the group has no committed offset.
    :param tell: receives an event for each change of the assignment.
    :param changed: receives the number of assigned partitions whenever a plan finds another set than the last plan.
    :param callback: receives the result of each commit.
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
        """Guards all attributes below."""
        self._topics: frozenset[str] = frozenset()
        self._epoch = 0
        self._held: dict[TopicPartition, int] = {}
        """Assigned partitions, each with the epoch of its assignment (the client hides the broker's generation)."""
        self._asked_back: set[TopicPartition] = set()
        self._under_way: dict[TopicPartition, int] = {}
        """The partitions of the checkpoint under way, with the epochs they were taken in."""
        self._commits = PendingCommits(self._condition)
        self._failure: KafkaSparkJobError | None = None
        self._closing = False

    # -- the enumerator's half ------------------------------------------------------------------------------------

    def start(
        self, restored: Mapping[TopicPartition, int] | None, found: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Takes the partitions of the start; called once. The first plan joins the group, when the job can read.

        :param restored: the checkpoint's offsets, None on a first start.
        :returns: the offsets of existing partitions, to be kept in the checkpoint until the first plan.
        """
        self._to_join = frozenset(found)
        return self._starts.remember(restored, self._to_join)

    def discovered(self, found: Iterable[TopicPartition], gone: Collection[TopicPartition] = ()) -> None:
        """Sets the topics to subscribe to; a change makes the group rebalance.

        :param gone: partitions that no longer exist, and that the group has yet to revoke.
        """
        self._to_join = None
        with self._condition:
            for partition in gone:
                self._held.pop(partition, None)
            self._commits.drop(gone)
            self._topics = frozenset(partition.topic for partition in found)
            self._condition.notify_all()

    def take(self) -> dict[TopicPartition, int]:
        """Next offsets of the assigned partitions, under way until :meth:`complete` or :meth:`release`.

        Empty while the group rebalances or assigns nothing: the job is idle then.

        :raises KafkaSparkJobError: the membership has ended; also the errors of placing a partition.
        """
        if self._to_join is not None:
            self.discovered(self._to_join)
        with self._condition:
            if self._failure is not None:
                raise self._failure
            taken = {partition: epoch for partition, epoch in self._held.items() if partition not in self._asked_back}
            self._under_way = dict(taken)
        kept = {partition: at for partition, at in self._positions.items() if taken.get(partition) == at.epoch}
        try:
            self._positions = kept | self._placed(
                {partition: epoch for partition, epoch in taken.items() if partition not in kept}
            )
        except BaseException:
            self.release()
            raise
        if taken.keys() != self._planned:
            self._planned = frozenset(taken)
            self._changed(len(taken))
        return {partition: at.offset for partition, at in self._positions.items()}

    def release(self) -> None:
        """The last plan had nothing to read: nothing is under way."""
        with self._condition:
            self._under_way = {}
            self._condition.notify_all()

    def complete(self, splits: Iterable[KafkaPartitionSplit]) -> dict[TopicPartition, int]:
        """The checkpoint with these splits is final, and its offsets were given to :meth:`commit`.

        :returns: next offsets of its partitions that are still assigned.
        """
        with self._condition:
            for split in splits:
                epoch = self._under_way.get(split.partition)
                if epoch is not None:
                    self._positions[split.partition] = Tenure(epoch, split.stop)
            ours = {
                partition: at.offset
                for partition, at in self._positions.items()
                if self._held.get(partition) == at.epoch
            }
            self._under_way = {}
            self._condition.notify_all()
        return ours

    def _placed(self, new: Mapping[TopicPartition, int]) -> dict[TopicPartition, Tenure]:
        """Starting offsets of newly assigned partitions.

        Offsets that the group did not have are committed at once. Else the next owner could place the partition
        elsewhere, and Latest would skip the records in between.
        """
        if not new:
            return {}
        known, fixed = self._starts.of(new)
        self.commit(fixed)
        return {partition: Tenure(new[partition], offset) for partition, offset in (known | fixed).items()}

    # -- group offsets, as the coordinator wants them -------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None:
        """Takes offsets of the checkpoint under way and returns at once; they replace waiting offsets.

        Partitions that were lost meanwhile are left out.

        :param mark: text that is stored with them (``commit_outcome.offset_mark``).
        """
        with self._condition:
            self._commits.mark = mark or self._commits.mark
            for partition, offset in offsets.items():
                epoch = self._under_way.get(partition)
                if epoch is not None and self._held.get(partition) == epoch:
                    self._commits.put(partition, Tenure(epoch, offset))
            self._condition.notify_all()

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None:
        """Marks starting offsets as evidence of transactions; a member's offsets are in no transaction.

        :raises InvalidArgument: always.
        """
        what = named(sorted(offsets))
        msg = f"group offsets of {what} cannot be placed ({mark}): a member of a group has no transactions"
        raise InvalidArgument(msg)

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool:
        """Forgets waiting offsets, and waits until the commit under way is over."""
        with self._condition:
            self._commits.drop(partitions)
            return self._commits.await_answer(timeout)

    def drain(self, timeout: float) -> bool:
        """Waits until every offset is committed; for an orderly stop."""
        with self._condition:
            return self._condition.wait_for(lambda: self._commits.idle or self._failure is not None, timeout)

    # -- the member's half ----------------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """Topics that the member should subscribe to."""
        with self._condition:
            return self._topics

    @property
    def closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """No plan follows: revocations no longer wait."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()

    def pause(self, seconds: float) -> None:
        """Waits until the member has work, at most ``seconds``."""
        with self._condition:
            if not self._closing:
                self._condition.wait(seconds)

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Adds newly assigned partitions."""
        new = sorted(partitions)
        with self._condition:
            self._epoch += 1
            self._held |= dict.fromkeys(new, self._epoch)
            self._asked_back -= set(new)
            count = len(self._held)
        if new:
            assigned = f"{len(new)} partition(s) assigned by the group: {named(new)}; now {count}"
            self._tell(DriverEvent.PARTITIONS_ASSIGNED, assigned, False)

    def await_finished(self, partitions: Iterable[TopicPartition], timeout: float) -> bool:
        """Leaves these out of plans, and waits until no checkpoint under way reads them.

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
        """Removes revoked partitions; called when their offsets of :meth:`due` are committed."""
        self._drop(partitions, DriverEvent.PARTITIONS_REVOKED, "given back to the group", warning=False)

    def lost(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """Removes partitions that the group may have assigned to another member: they are not committed any more."""
        what = f"lost, records since the last commit may be repeated ({why})"
        self._drop(partitions, DriverEvent.PARTITIONS_LOST, what, warning=True)

    @property
    def mark(self) -> str:
        """The text to be stored with committed offsets."""
        return self._commits.mark

    def due(self) -> dict[TopicPartition, int]:
        """The offsets to be committed now; :meth:`committed` or :meth:`not_committed` must follow."""
        with self._condition:
            return self._commits.take()

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The broker accepted them."""
        self._callback.on_complete(offsets, "")
        with self._condition:
            self._commits.sent(offsets)

    def not_committed(self, offsets: Mapping[TopicPartition, int], why: str, *, again: bool) -> None:
        """The broker refused them: they wait for a retry, or the commit counts as failed and the job continues."""
        if not again:
            self._callback.on_complete({}, why)
        with self._condition:
            self._commits.sent({} if again else offsets)

    def fail(self, error: KafkaSparkJobError) -> None:
        """The membership has ended; the next plan raises this error."""
        with self._condition:
            self._failure = self._failure or error
            self._held = {}
            self._commits.clear()
            self._condition.notify_all()

    def _drop(self, partitions: Iterable[TopicPartition], reason: DriverEvent, what: str, *, warning: bool) -> None:
        gone = sorted(partitions)
        with self._condition:
            for partition in gone:
                self._held.pop(partition, None)
                self._asked_back.discard(partition)
            self._commits.drop(gone)
            count = len(self._held)
            self._condition.notify_all()
        if gone:
            self._tell(reason, f"{len(gone)} partition(s) {what}: {named(gone)}; now {count}", warning)
