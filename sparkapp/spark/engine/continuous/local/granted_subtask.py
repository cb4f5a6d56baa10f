"""What the driver knows of a subtask in the local pace: its instance and its partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.continuous.local.subtask_failures import SubtaskFailures
from sparkapp.spark.tasks.control_frames import SubtaskReport


@dataclass
class GrantedSubtask:
    """What the driver knows of a subtask's instance.

    :ivar instance: 0 while none was asked for.
    :ivar opened: its producer is open. :ivar granted: it may write.
    :ivar ending: it ends, and its last commit is not known: partitions are gone, or its process was lost.
    :ivar placing: starts that it was told to commit. :ivar placed: starts that it has committed, in no document yet.
    :ivar reading: partitions that it was told to read.
    :ivar returning: partitions of the document that it was not given: a broker did not know them at its grant.
    :ivar follows: the instance before has ended in order, and has reported all its commits.
    :ivar totals: of this instance. :ivar failures: of all instances of the subtask.
    """

    instance: int = 0
    opened: bool = False
    granted: bool = False
    follows: bool = False
    ending: bool = False
    placing: dict[TopicPartition, int] = field(default_factory=dict)
    placed: dict[TopicPartition, int] = field(default_factory=dict)
    reading: set[TopicPartition] = field(default_factory=set)
    returning: set[TopicPartition] = field(default_factory=set)
    totals: Mapping[str, int] = field(default_factory=dict)
    failures: SubtaskFailures = field(default_factory=SubtaskFailures)
    heard: bool = False

    @property
    def assigned(self) -> set[TopicPartition]:
        """The partitions that its instance has been given."""
        return {*self.placing, *self.placed, *self.reading}

    def has_placed(self, starts: Mapping[TopicPartition, int]) -> None:
        """It has committed these starts."""
        self.placed |= starts
        self.placing = {each: at for each, at in self.placing.items() if each not in starts}

    def is_to_read(self, partitions: Collection[TopicPartition]) -> None:
        """The document says that these are placed."""
        self.placed = {each: at for each, at in self.placed.items() if each not in partitions}
        self.reading |= set(partitions)

    def never_given(
        self, owned: Mapping[TopicPartition, int], recorded: Callable[[], Collection[TopicPartition]]
    ) -> dict[TopicPartition, int]:
        """The partitions that are new for every instance, with their offsets; notes those that are :attr:`returning`.

        An instance before may have read what the document has, and committed more than it has reported.

        :param owned: partitions of the subtask. :param recorded: gives those of the document.
        """
        assigned = self.assigned
        left = {each: at for each, at in owned.items() if each not in assigned}
        known = recorded() if left else ()
        self.returning = {each for each in left if each in known}
        return {each: at for each, at in left.items() if each not in self.returning}

    @property
    def is_settled(self) -> bool:
        """Whether all offsets of the subtask are known by its reports. An instance without a grant commits nothing."""
        if not self.granted:
            return self.follows
        return not (self.ending or self.placing or self.placed or self.returning)

    def replaced_by(self, instance: int, end: SubtaskReport) -> GrantedSubtask:
        """The subtask's next instance.

        :param end: the report that asks for it. A task that Spark has started again names no instance: the last commit
            of the task before is not known. The outcome of a commit that failed is not known either.
        """
        in_order = end.instance == self.instance and not end.failure
        return GrantedSubtask(
            instance=instance, failures=self.failures, heard=True, follows=in_order and self.is_settled
        )
