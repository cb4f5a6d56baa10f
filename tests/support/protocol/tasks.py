"""What runs in an attempt's executors: worker processes, and tasks that halt at their moments."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkapp.dataplane.interface import BatchConsumer
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.sink.producers.producer_pool import ProducerPool
from tests.support.protocol.moments import Place, TaskMoment


@dataclass(frozen=True)
class Worker:
    """A Python worker process: its consumer and its producers."""

    reader: BatchConsumer
    pool: ProducerPool

    def end(self) -> None:
        """Without a word about transactions."""
        self.pool.close()
        self.reader.close()


@dataclass
class Names:
    """The transactional ids that an attempt has written under.

    :ivar by_subtask: which subtask under which. :ivar beyond: those that a restart could not have known.
    """

    by_subtask: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    beyond: set[str] = field(default_factory=set)

    def note(self, subtask: int, name: str, within: Collection[str]) -> None:
        self.by_subtask[subtask].add(name)
        if name not in within:
            self.beyond.add(name)

    @property
    def shared(self) -> set[str]:
        """Those that several subtasks have written under."""
        counts = Counter(name for names in self.by_subtask.values() for name in names)
        return {name for name, count in counts.items() if count > 1}


class Written(NamedTuple):
    """What a task returns."""

    committable: KafkaCommittable | None
    records: int
    dead_letters: int


Groups = Mapping[int, tuple[KafkaPartitionSplit, ...]]
Task = Generator[TaskMoment, None, Written]
"""Halts at its moments; what it has written comes in the end."""


def run_task(task: Task, passed: Callable[[Place], None]) -> Written:
    """To its end."""
    while True:
        try:
            moment = next(task)
        except StopIteration as end:
            written: Written = end.value
            return written
        passed(moment)


def run_task_to(task: Task, moment: TaskMoment) -> Written | None:
    """Up to the moment; to its end where it has none of that name, and what it has written then."""
    try:
        while next(task) != moment:
            pass
    except StopIteration as end:
        written: Written = end.value
        return written
    return None


def unwatched(_: Place) -> None:
    """Of tasks in which nothing happens."""
