"""How often each record of the source is to be in the sink: once, and once more for each restore behind it. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clusterjob.kafka.reading import ReadRecord
from clusterjob.oracle import ID
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.partition import TopicPartition

_EXAMPLES = 5


@dataclass
class Ledger:
    """The restores of a job so far.

    A restore goes back from where the job was to an earlier checkpoint. The job reads and writes the records in
    between once more, and read_committed readers see them once more.
    """

    restores: list[tuple[dict[int, int], dict[int, int]]] = field(default_factory=list)
    """Of each restore: the offsets that the job went back to, and those that it had, by partition."""

    def restored(self, to: RetainedCheckpoint, had: CheckpointDocument) -> None:
        """The job, which is suspended at ``had``, is to go back to ``to``."""
        self.restores.append((_by_partition(to.offsets), _by_partition(had.offsets)))

    def times(self, partition: int, offset: int) -> int:
        """How often readers are to see a record."""
        return 1 + sum(to.get(partition, 0) <= offset < had.get(partition, 0) for to, had in self.restores)

    def differences(self, source: Iterable[ReadRecord], sink: Iterable[ReadRecord]) -> list[str]:
        """What is lost, repeated or foreign, as lines for people; none where every record is there as often as due.

        :param source: whole, in the order of its partitions. It has no transactions: a record's place is its offset.
        """
        due: Counter[int] = Counter()
        places: Counter[int] = Counter()
        for record in source:
            due[number_of(record)] += self.times(record.partition, places[record.partition])
            places[record.partition] += 1
        seen = Counter(number_of(record) for record in sink)
        found = []
        for what, more in (("lost", due - seen), ("repeated", seen - due)):
            if more:
                first = sorted(more)[:_EXAMPLES]
                some = ", ".join(f"{number} (due {due[number]}, seen {seen[number]})" for number in first)
                found.append(f"{more.total()} records {what}: {some}")
        return found


def _by_partition(offsets: Mapping[TopicPartition, int]) -> dict[int, int]:
    return {each.partition: offset for each, offset in offsets.items()}


def number_of(record: ReadRecord) -> int:
    """The unique number of a record."""
    return int(json.loads(record.value or b"null")[ID])
