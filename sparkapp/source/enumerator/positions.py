"""Next offset, stopping offset and last known end of each partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.startup import MAX_OFFSET
from sparkapp.model.partition import TopicPartition


class Positions:
    """State of the enumerator; changed from its thread, :attr:`pending` and the ends may be read from any thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.next: dict[TopicPartition, int] = {}
        """Where the next plan begins: behind every checkpoint that has begun."""
        self._begun: tuple[tuple[KafkaPartitionSplit, ...], ...] = ()
        """Splits of the checkpoints that have begun and are not complete, the oldest first."""
        self.stops: dict[TopicPartition, int] = {}
        """Stopping offsets of a bounded job."""
        self.ahead: Mapping[TopicPartition, int] = {}
        """Offsets that subtasks have committed by themselves, of which some checkpoint will be a record."""
        self._ends: Mapping[TopicPartition, int] | None = None
        self._looked_at = clock()

    @property
    def completed(self) -> dict[TopicPartition, int]:
        """Where each partition resumes after the last completed checkpoint."""
        found = dict(self.next)
        for splits in reversed(self._begun):
            found |= {split.partition: split.start for split in splits if split.partition in found}
        return found

    @property
    def reached(self) -> dict[TopicPartition, int]:
        """Where the next attempt resumes: :attr:`completed`, or what subtasks have committed by themselves since."""
        # A report of commits replaces the whole mapping and never changes it.
        ahead = self.ahead
        return {each: max(offset, ahead.get(each, offset)) for each, offset in self.completed.items()}

    @property
    def pending(self) -> dict[TopicPartition, int] | None:
        """Records between the completed offsets and the last known ends; None before the first look (case S26).

        What subtasks have committed by themselves does not count.
        """
        # A look replaces the whole mapping and never changes it.
        ends = self._ends
        if ends is None:
            return None
        offsets = self.reached
        return {each: max(0, end - offsets.get(each, end)) for each, end in ends.items()}

    @property
    def ends(self) -> Mapping[TopicPartition, int] | None:
        """The last known ends; None before the first look."""
        return self._ends

    @property
    def seconds_since_look(self) -> float:
        """Seconds since the last :meth:`see`."""
        return self._clock() - self._looked_at

    @property
    def at_stops(self) -> bool:
        """Whether every partition has reached its stopping offset, in completed checkpoints."""
        return not self._begun and all(
            partition in self.stops and offset >= self.stops[partition] for partition, offset in self.next.items()
        )

    def before_stops(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The ends, cut at the stopping offsets."""
        return {partition: min(end, self.stops.get(partition, MAX_OFFSET)) for partition, end in ends.items()}

    def see(self, ends: Mapping[TopicPartition, int]) -> None:
        """Notes the ends that the brokers have answered with."""
        self._ends, self._looked_at = ends, self._clock()

    def begin(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        """Moves the next plan behind the splits; :meth:`complete` follows, in the order of the checkpoints."""
        self._begun = (*self._begun, splits)
        self.next |= {split.partition: split.stop for split in splits}

    def complete(self, splits: Iterable[KafkaPartitionSplit], stops: Mapping[TopicPartition, int]) -> None:
        """Moves each partition behind its split, unless :meth:`begin` has done so.

        :param stops: stopping offsets that were found in the records.
        """
        if self._begun:
            self._begun = self._begun[1:]
        else:
            self.next |= {split.partition: split.stop for split in splits}
        if stops:
            self.stops |= stops
            self._ends = {
                partition: min(end, stops.get(partition, end)) for partition, end in (self._ends or {}).items()
            }

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drops partitions that are no longer read."""
        for partition in partitions:
            self.next.pop(partition, None)
            self.stops.pop(partition, None)
        self.ahead = {partition: offset for partition, offset in self.ahead.items() if partition in self.next}
        if self._ends is not None:
            self._ends = {partition: end for partition, end in self._ends.items() if partition in self.next}
