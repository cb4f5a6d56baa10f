"""The driver's interfaces to the outside, with the places where the driver may be killed or frozen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sparkapp.checkpoint.group_progress import GroupOffsets
from sparkapp.checkpoint.store import CheckpointStore, Stored
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import Evidence
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import Settled
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from tests.support.protocol.moments import DriverMoment, Moment, Place, StoreWrite


class WatchedStore:
    """The job's document as this driver reaches it; counts writes."""

    def __init__(self, store: CheckpointStore, passed: Callable[[Place], None]) -> None:
        self._store, self._passed = store, passed
        self._claimed = False
        self.writes = 0

    def read(self) -> Stored:
        return self._store.read()

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        self.writes += 1
        self._passed(StoreWrite(self.writes, effective=False))
        version = self._store.write(text, expected=expected, deadline=deadline)
        self._passed(StoreWrite(self.writes, effective=True))
        if not self._claimed:
            self._claimed = True
            self._passed(Moment.AFTER_CLAIM)
        return version


class WatchedControl:
    """The steps of recovery."""

    def __init__(self, control: KafkaTransactionControl, passed: Callable[[Place], None]) -> None:
        self._control, self._passed = control, passed

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        settled = self._control.settle(document)
        self._passed(Moment.AFTER_SETTLE)
        return settled

    def abort_lingering(self, document: CheckpointDocument) -> int:
        aborted = self._control.abort_lingering(document)
        self._passed(Moment.AFTER_ABORT)
        return aborted


class WatchedGroup:
    """The group's offsets as the coordinator moves them."""

    def __init__(self, offsets: GroupOffsets, passed: Callable[[Place], None]) -> None:
        self._offsets, self._passed = offsets, passed

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool:
        return self._offsets.withdraw(partitions, timeout)

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None:
        self._passed(DriverMoment.BEFORE_PLACE)
        self._offsets.place(offsets, mark)

    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None:
        self._passed(DriverMoment.BEFORE_OFFSET_COMMIT)
        self._offsets.commit(offsets, mark)


class WatchedEvidence:
    """The group's offsets as the coordinator of the local pace reads them."""

    def __init__(self, evidence: Evidence, passed: Callable[[Place], None]) -> None:
        self._evidence, self._passed = evidence, passed

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        self._passed(DriverMoment.BEFORE_EVIDENCE)
        found = self._evidence.committed(partitions)
        self._passed(DriverMoment.AFTER_EVIDENCE)
        return found


class WatchedClient(TransactionClient):
    """The driver's control plane."""

    passed: Callable[[Place], None]

    def fence_all(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, tuple[int, int]]:
        self.passed(DriverMoment.BEFORE_SWEEP)
        return super().fence_all(transactional_ids, deadline=deadline)
