"""Records that were lost before they were read, by retention or with their topic: `onDataLoss` (case S40)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from sparkapp.clients.cluster_view import ClusterView, ends_before
from sparkapp.model.errors import KafkaAccessError, OffsetsOvertaken, OffsetsWentBackwards, TopicRecreated
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.source import OnDataLoss
from sparkapp.model.job.startup import MAX_OFFSET
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.topic_identity import TopicIdentity
from sparkapp.source.offsets_initializer import Warn

_SKIP = "set spec.source.onDataLoss to SkipToAvailable to resume at the first available record"
_MOVE_GROUP = "stop the group's members and move the group with kafka-consumer-groups --reset-offsets"
_KEEP = "raise the topic's retention.ms or retention.bytes"


class LostRecords:
    """Finds lost records, and the offsets behind them where the job resumes.

    Records at a partition's stopping offset and behind it are never read, so none of them is lost.
    Used by the enumerator, from its thread.

    :param warn: receives ``OffsetsSkipped`` for each moved partition.
    :param identity: tells a recreated topic from a topic with a truncated log.
    :param is_member: whether the job is a member of a consumer group, which one member must not move.
    """

    def __init__(
        self,
        cluster: ClusterView,
        policy: OnDataLoss,
        warn: Warn,
        identity: TopicIdentity,
        *,
        is_member: bool = False,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._is_member = is_member
        self._skips = policy is OnDataLoss.SKIP_TO_AVAILABLE
        self._warn = warn

    def skipped_at_start(
        self, offsets: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """New positions for restored partitions whose next record was deleted; empty under the policy Fail.

        :param offsets: the next offset of each partition.
        :param stops: stopping offsets of a bounded job.
        """
        if not self._skips:
            return {}
        return self._told(offsets, self._overtaken(_unread(offsets, stops)), stops)

    def skipped(
        self,
        offsets: Mapping[TopicPartition, int],
        found: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """New positions for partitions whose next record was deleted; called by each plan.

        Where the job skips, one request asks the brokers for the beginnings of the partitions with unread records:
        retention may have overtaken a running job.

        :param offsets: the next offset of each partition.
        :param found: the readable end of each partition.
        :param stops: stopping offsets of a bounded job.
        :raises OffsetsWentBackwards: a partition ends before its offset, and the policy is Fail.
        :raises KafkaAccessError: it seems to, and it is not known who leads it: see :meth:`ClusterView.confirmed_ends`.
        :raises OffsetsOvertaken: a bounded job's topic was recreated: its stopping offsets are those of the previous.
        """
        unread = _unread(offsets, stops)
        backwards = self._backwards(
            {partition: start for partition, start in unread.items() if found[partition] < start}
        )
        try:
            recreated = self._recreated(backwards)
        except TopicRecreated as error:
            partition = min(backwards)
            change = f"offset was changed from {offsets[partition]} to {backwards[partition]}"
            msg = f"{error.message}; {partition}: {change}"
            raise TopicRecreated(msg) from error
        truncated = {
            partition
            for partition in backwards
            if self._identity.is_known(partition.topic) and partition.topic not in recreated
        }
        if not self._skips:
            if backwards:
                partition = min(backwards)
                change = f"offset was changed from {offsets[partition]} to {backwards[partition]}"
                why = "its log was truncated" if partition in truncated else "topic recreated, or records lost"
                msg = f"{partition}: {change}; {why}"
                raise OffsetsWentBackwards(msg)
            return {}
        waiting = {partition for partition, start in unread.items() if start < found[partition]}
        again = self.begun_again(recreated, offsets, stops)
        first = self._cluster.earliest(sorted((backwards.keys() | waiting) - truncated - again.keys()))
        overtaken = {
            partition: offset
            for partition, offset in first.items()
            if partition in backwards or offset > offsets[partition]
        }
        ended = {partition: backwards[partition] for partition in truncated}
        return again | self._resumed_at_end(offsets, ended) | self._told(offsets, overtaken, stops)

    def _recreated(self, backwards: Collection[TopicPartition]) -> frozenset[str]:
        """The recreated topics among those whose logs end before the next offset.

        :raises TopicRecreated: a topic was recreated, and the policy is Fail.
        """
        known = {partition.topic for partition in backwards if self._identity.is_known(partition.topic)}
        return self._identity.recreated(known) if known else frozenset()

    def _resumed_at_end(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """A truncated log is never read from its beginning: most of its records were read and written before."""
        for partition, end in sorted(ends.items()):
            self._warn(
                DriverEvent.OFFSETS_SKIPPED,
                f"{partition}: its log was truncated to {end}, before offset {offsets[partition]} (unclean leader"
                f" election). The job resumes at {end}; records since the truncation are not read",
            )
        return dict(ends)

    def begun_again(
        self, topics: Collection[str], offsets: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition of recreated topics.

        :param topics: that were recreated.
        :param offsets: the next offset of each partition, of these topics in the previous topic.
        :param stops: stopping offsets of a bounded job; none at a start.
        :raises OffsetsOvertaken: a partition has a stopping offset, which is the previous topic's.
        """
        offsets = {partition: at for partition, at in offsets.items() if partition.topic in topics}
        if ended := sorted({partition.topic for partition in offsets.keys() & stops.keys()}):
            msg = f"topic {', '.join(ended)} was recreated: the next attempt fixes where its partitions end"
            raise OffsetsOvertaken(msg, remedy="")
        first = self._cluster.earliest(sorted(offsets)) if offsets else {}
        for partition, offset in sorted(first.items()):
            self._warn(
                DriverEvent.TOPIC_RECREATED,
                f"{partition}: the topic was recreated; records from offset {offsets[partition]} of the previous topic"
                f" are lost. The job reads the new topic from its beginning, offset {offset}",
            )
        return first

    def _backwards(self, beyond: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Ends of the logs that end before the next offset, among the partitions that seem to.

        Others are behind an open transaction. The client that committed the group's offset did not wait for it.
        The job reads them when the transaction has ended.

        :param beyond: the next offset of each partition whose readable end is before it.
        :raises KafkaAccessError: the brokers do not agree on an end, so nothing is known, and the attempt ends.
        """
        ends = ends_before(beyond, self._cluster)
        return {partition: end for partition, end in ends.items() if end < beyond[partition]}

    def explain(
        self,
        error: OffsetsWentBackwards,
        offsets: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> OffsetsWentBackwards:
        """Explains a reader's error: retention deleted records between the plan and the read, or a log was truncated.

        A reader may have asked a leader that was replaced. So its error alone proves nothing.

        :param error: of a reader, which knows one offset; the brokers are asked for the beginning of the log here.
        :param offsets: the next offset of each partition.
        :param stops: stopping offsets of a bounded job.
        :returns: an error that is not fatal where the brokers do not confirm it, and under SkipToAvailable: the next
            attempt resumes at the available records.
        """
        if isinstance(error, OffsetsOvertaken):
            return error
        message, remedy, confirmed = error.message, error.remedy, False
        # Without an answer of the brokers nothing is confirmed.
        with contextlib.suppress(KafkaAccessError):
            unread = _unread(offsets, stops)
            gone = self._overtaken(unread)
            if gone:
                partition = min(gone)
                more = f" (the same in {len(gone) - 1} more partitions)" if len(gone) > 1 else ""
                message = (
                    f"{partition}: records from offset {offsets[partition]} on are gone, the log begins at"
                    f" {gone[partition]}{more}"
                )
                remedy = f"{_MOVE_GROUP if self._is_member else _SKIP}, and {_KEEP}"
            confirmed = bool(gone or self._backwards(unread))
        if not confirmed:
            return OffsetsOvertaken(message, remedy="the job starts again by itself, and asks the brokers once more")
        if self._skips:
            return OffsetsOvertaken(message)
        return error if message == error.message else OffsetsWentBackwards(message, remedy=remedy)

    def _overtaken(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The beginnings of the logs that begin behind the next offset."""
        first = self._cluster.earliest(sorted(offsets)) if offsets else {}
        return {partition: begin for partition, begin in first.items() if begin > offsets[partition]}

    def _told(
        self,
        offsets: Mapping[TopicPartition, int],
        available: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Where the job resumes: at the first available records, but not behind a stop."""
        found = {}
        for partition, first in sorted(available.items()):
            found[partition] = offset = min(first, stops.get(partition, first))
            place = "the first available offset" if offset == first else "the stopping offset"
            number = offset - offsets[partition]
            skipped = f", {number} offset(s) skipped" if number > 0 else ""
            self._warn(
                DriverEvent.OFFSETS_SKIPPED,
                f"{partition}: records from offset {offsets[partition]} on are gone (topic recreated, or retention)."
                f" The job resumes at {offset}, {place}{skipped}",
            )
        return found


def _unread(offsets: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The next offsets of the partitions that are not at their stop: only there can a record be lost."""
    return {partition: at for partition, at in offsets.items() if at < stops.get(partition, MAX_OFFSET)}
