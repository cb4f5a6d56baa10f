"""Records that are gone before they were read, by retention or with their topic: `dataLossPolicy` (case S40)."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from sparkapp.model.errors import KafkaAccessError, OffsetsOvertaken, OffsetsWentBackwards, TopicRecreated
from sparkapp.model.job import DataLossPolicy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.cluster import ClusterView
from sparkapp.source.offsets_initializer import Warn
from sparkapp.source.topic_identity import TopicIdentity

_SKIP = "set spec.source.dataLossPolicy to SkipToAvailable to go on at the first record there is"
_MOVE_GROUP = "stop the group's members and move the group with kafka-consumer-groups --reset-offsets"
_KEEP = "let the topic keep its records for longer (retention.ms, retention.bytes)"


class LostRecords:
    """Finds what is gone, and says where the job goes on behind it, if the job is to go on.

    Used by the enumerator, from its thread.

    :param warn: told ``OffsetsSkipped`` of each partition that is moved.
    :param identity: tells a recreated topic from one whose log was truncated.
    :param is_member: of a consumer group, for which one job does not skip.
    """

    def __init__(
        self,
        cluster: ClusterView,
        policy: DataLossPolicy,
        warn: Warn,
        identity: TopicIdentity,
        *,
        is_member: bool = False,
    ) -> None:
        self._cluster = cluster
        self._identity = identity
        self._is_member = is_member
        self._skips = policy is DataLossPolicy.SKIP_TO_AVAILABLE
        self._warn = warn

    def skipped_at_start(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where restored partitions go on whose next record is gone; empty under the policy Fail.

        :param offsets: where each partition would go on.
        """
        if not self._skips:
            return {}
        first = self._cluster.earliest(sorted(offsets))
        return self._told(offsets, {one: first[one] for one, offset in offsets.items() if first[one] > offset})

    def skipped(
        self,
        offsets: Mapping[TopicPartition, int],
        found: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        """Where partitions go on whose next record is gone; called by each plan.

        Where the job skips, the brokers are asked for the beginnings of the partitions that have something to read, in
        one question: retention may have overtaken a job that runs.

        :param offsets: where each partition would go on.
        :param found: how far each partition can be read.
        :param stops: where partitions of a bounded job end.
        :raises OffsetsWentBackwards: a partition ends before its offset, and the policy is Fail.
        """
        backwards = self._backwards({one: start for one, start in offsets.items() if found[one] < start})
        try:
            recreated = self._recreated(backwards)
        except TopicRecreated as error:
            one = min(backwards)
            msg = f"{error.message}; {one}: offset was changed from {offsets[one]} to {found[one]}"
            raise TopicRecreated(msg) from error
        truncated = {one for one in backwards if self._identity.is_known(one.topic) and one.topic not in recreated}
        if not self._skips:
            if backwards:
                one = min(backwards)
                change = f"offset was changed from {offsets[one]} to {found[one]}"
                why = "its log was truncated" if one in truncated else "topic recreated, or records lost"
                msg = f"{one}: {change}; {why}"
                raise OffsetsWentBackwards(msg)
            return {}
        waiting = {one for one, start in offsets.items() if start < min(found[one], stops.get(one, found[one]))}
        again = self.begun_again({one: at for one, at in offsets.items() if one.topic in recreated})
        first = self._cluster.earliest(sorted((backwards | waiting) - truncated - again.keys()))
        overtaken = {one: offset for one, offset in first.items() if one in backwards or offset > offsets[one]}
        ended = {one: found[one] for one in truncated}
        return again | self._gone_on_at_end(offsets, ended) | self._told(offsets, overtaken)

    def _recreated(self, backwards: Collection[TopicPartition]) -> frozenset[str]:
        """Of topics with logs that end before what was read those that are others by now.

        :raises TopicRecreated: there is one, and the policy is Fail.
        """
        known = {one.topic for one in backwards if self._identity.is_known(one.topic)}
        return self._identity.recreated(known) if known else frozenset()

    def _gone_on_at_end(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """A truncated log is never read from its beginning: all but its last records were read and written."""
        for one, end in sorted(ends.items()):
            self._warn(
                "OffsetsSkipped",
                f"{one}: its log was truncated to {end}, before offset {offsets[one]} (unclean leader election); goes"
                f" on at {end}, and records that came between the truncation and now are not read",
            )
        return dict(ends)

    def begun_again(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where partitions of recreated topics begin.

        :param offsets: where each stood in the former topic.
        """
        first = self._cluster.earliest(sorted(offsets)) if offsets else {}
        for one, offset in sorted(first.items()):
            self._warn(
                "TopicRecreated",
                f"{one}: the topic was deleted and created again; what followed offset {offsets[one]} of the former one"
                f" is gone, and the new one is read from its beginning, offset {offset}",
            )
        return first

    def _backwards(self, beyond: Mapping[TopicPartition, int]) -> set[TopicPartition]:
        """Of offsets beyond what can be read those that are beyond the log, too.

        The others are behind an open transaction that somebody else did not wait for when the group's offset was
        committed; they are read when it has ended.
        """
        ends = self._cluster.log_ends(sorted(beyond)) if beyond else {}
        return {one for one, start in beyond.items() if ends[one] < start}

    def explain(self, error: OffsetsWentBackwards, offsets: Mapping[TopicPartition, int]) -> OffsetsWentBackwards:
        """What a reader's error means to the job: retention came between the plan and the read.

        :param error: of a reader, which knows one offset; the beginning of the log is looked for here.
        :param offsets: where the partitions go on.
        :returns: under SkipToAvailable one that is not fatal: the next attempt goes on at what is there.
        """
        message, remedy = error.message, error.remedy
        # Brokers that do not answer now leave the reader's words.
        with contextlib.suppress(KafkaAccessError):
            first = self._cluster.earliest(sorted(offsets))
            gone = sorted(one for one, offset in offsets.items() if first[one] > offset)
            if gone:
                one = gone[0]
                more = f" (and so of {len(gone) - 1} more partitions)" if len(gone) > 1 else ""
                message = f"{one}: records from offset {offsets[one]} on are gone, the log begins at {first[one]}{more}"
                remedy = f"{_MOVE_GROUP if self._is_member else _SKIP}, and {_KEEP}"
        if self._skips:
            return OffsetsOvertaken(message)
        return error if message == error.message else OffsetsWentBackwards(message, remedy=remedy)

    def _told(
        self, offsets: Mapping[TopicPartition, int], available: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        for one, offset in sorted(available.items()):
            number = offset - offsets[one]
            skipped = f", {number} offset(s) skipped" if number > 0 else ""
            self._warn(
                "OffsetsSkipped",
                f"{one}: what follows offset {offsets[one]} is gone (topic made anew, or retention); goes on at"
                f" {offset}, the first one available{skipped}",
            )
        return dict(available)
