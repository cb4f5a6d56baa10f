"""Proof that ended transactions are closed in their partitions' logs, and the repair where one is not (ADR 68)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import GROUP_TOPIC, LogScope, OpenInLogs
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionState
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable, TransactionHanging
from sparkapp.model.partition import TopicPartition, named

LOG = logging.getLogger(__name__)

_IN_FLIGHT_LOOKS = 2
"""Looks at the logs before the coordinator is asked: markers are written behind the answer to EndTxn."""
_ENDED = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT, TransactionState.EMPTY}


class Logs(Protocol):
    """Part of :class:`sparkapp.clients.transactions.partition_logs.PartitionLogs`."""

    def open_in(
        self, partitions: Collection[TopicPartition] | LogScope, *, deadline: Deadline | None = None
    ) -> OpenInLogs: ...

    def group_partition(self, group_id: str, *, deadline: Deadline | None = None) -> TopicPartition | None: ...


class EndingClient(Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`."""

    @property
    def logs(self) -> Logs: ...

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]: ...

    def fence_all(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, tuple[int, int]]: ...

    def end_again(
        self, end: EndTxn, partitions: Collection[TopicPartition], *, group_id: str = "", deadline: Deadline
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A transaction that its coordinator calls ended, or will soon.

    :param end: its outcome, with the producer's triple that would end it again.
    :param epoch: of its records; ``end`` has a later epoch behind a fence. Later epochs are other transactions.
    :param epochs: of records that have this outcome; of others up to ``epoch`` it is forgotten. None for all.
    :param partitions: that it has written to, with the partition of the group's offsets. None where they are not known:
        every partition of the job is asked.
    :param fence: whether its producer may be alive and unaware. It is fenced before the transaction is ended again,
        which would otherwise end the producer's next transaction.
    """

    end: EndTxn
    epoch: int
    epochs: frozenset[int] | None = None
    partitions: frozenset[TopicPartition] | None = None
    fence: bool = False


class ProvenEnds:
    """Asks the leaders of a job's partitions; used by driver, subtasks and commands, from any thread.

    Where a leader has a transaction open that its coordinator calls ended, the marker was left out. The transaction is
    ended again with the same outcome, and the leaders are asked again. Until then nothing may be written under the id:
    the next marker would decide the old records, too.

    :param scope: the partitions that the job's transactions can have written to.
    :param refused: called with the topics whose leaders the user may not ask. Nothing is proven there.
    :param sleep: replaced by tests.
    """

    def __init__(
        self,
        client: EndingClient,
        scope: LogScope,
        *,
        refused: Callable[[frozenset[str]], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._scope = scope
        self._refused = refused
        self._sleep = sleep

    def require(self, ends: Sequence[Ended], *, deadline: Deadline) -> None:
        """Returns when no leader has one of these transactions open.

        :raises KafkaUnreachable: a partition has no leader, or stays open until the deadline. Another call continues.
        :raises KafkaAccessError: the brokers refuse.
        :raises TransactionHanging: an open transaction is of another epoch, so that its outcome is forgotten.
        """
        pauses = deadline.pauses(0.003, 0.5)
        described: Mapping[str, TransactionDescription] | None = None
        looks = 0
        left = list(ends)
        while left:
            # Behind the descriptions: a marker may be written between them.
            left = self._open(left, deadline)
            if not left:
                return
            left = [self._ended_again(each, described, deadline) for each in left]
            if deadline.expired:
                msg = f"their coordinators have ended {_shown(left)}, and the leaders have them open"
                raise KafkaUnreachable(msg)
            self._sleep(next(pauses))
            looks += 1
            if looks >= _IN_FLIGHT_LOOKS:
                described = self._client.describe([each.end.transactional_id for each in left], deadline=deadline)

    def _open(self, ends: Sequence[Ended], deadline: Deadline) -> list[Ended]:
        """Those that a leader has open, with the partitions where it does."""
        asked: set[TopicPartition] = set()
        for each in ends:
            asked |= each.partitions or frozenset()
        everything = any(each.partitions is None for each in ends)
        found = self._client.logs.open_in(self._scope if everything else asked, deadline=deadline)
        if found.refused:
            self._refused(found.refused)
        left = []
        for each in ends:
            open_at = {
                partition: producer.epoch
                for partition, producer in found.of(each.end.producer_id).items()
                if producer.epoch <= each.epoch and (each.partitions is None or partition in each.partitions)
            }
            if open_at:
                left.append(replace(each, partitions=frozenset(open_at)))
            if each.epochs is not None and not each.epochs.issuperset(open_at.values()):
                msg = f"whether a missing marker commits or aborts is forgotten: {_shown(left[-1:])}"
                raise TransactionHanging(msg)
        return left

    def _ended_again(
        self, each: Ended, described: Mapping[str, TransactionDescription] | None, deadline: Deadline
    ) -> Ended:
        """The same end, with the triple of the fence if its producer had to be fenced.

        :param described: before the last look at the leaders; None for nothing yet.
        """
        if described is None:
            return each
        now = described.get(each.end.transactional_id)
        where = each.partitions or frozenset()
        if now is None or now.producer_id != each.end.producer_id:
            msg = f"the brokers have forgotten producer {each.end.producer_id} of {_shown([each])}, where it hangs"
            raise KafkaAccessError(msg, remedy=FORGOTTEN)
        is_ours = now.producer_epoch == each.end.producer_epoch
        try:
            if is_ours and now.state is TransactionState.ONGOING:
                # Its coordinator moved between the requests of a repair, or has never heard of the end.
                self._client.end_again(each.end, (), deadline=deadline)
            elif now.state in _ENDED and (is_ours or each.fence):
                LOG.warning(
                    "%s is %s by its coordinator, and open in %s: ended again", each.end.transactional_id, now.state,
                    named(sorted(where)),
                )  # fmt: skip
                group_id = self._group_of(where, deadline)
                if each.fence:
                    each = self._fenced(each, deadline)
                topics = [partition for partition in where if partition.topic != GROUP_TOPIC]
                self._client.end_again(each.end, topics, group_id=group_id, deadline=deadline)
            # Of another epoch the id has a newer producer, whose process proves the end before it writes.
        except KafkaAccessError as error:
            LOG.warning("%s could not be ended again yet: %s", each.end.transactional_id, error.message)
        return each

    def _fenced(self, each: Ended, deadline: Deadline) -> Ended:
        ids = [each.end.transactional_id]
        # Where the epochs are used up, the id has another producer now. This producer's records hang all the same.
        _, epoch = self._client.fence_all(ids, deadline=deadline)[each.end.transactional_id]
        return replace(each, end=replace(each.end, producer_epoch=epoch), fence=False)

    def _group_of(self, partitions: Collection[TopicPartition], deadline: Deadline) -> str:
        """The group whose offsets are in one of the partitions; empty for none."""
        for group in self._scope.groups:
            if self._client.logs.group_partition(group, deadline=deadline) in partitions:
                return group
        return ""


def _shown(ends: Sequence[Ended]) -> str:
    return "; ".join(f"{each.end.transactional_id} in {named(sorted(each.partitions or ()))}" for each in ends)


def aborted_by_init(
    transactional_id: str, before: TransactionDescription, producer_id: int, epoch: int, *, was_proven: bool
) -> Ended | None:
    """What an initialisation of an id may have aborted, or found aborted without proof; None for nothing. Pure.

    :param before: the id's description before. :param producer_id: and ``epoch``: that the initialisation has returned.
    :param was_proven: whether nothing was open by the description, and the end before it was proven.
    """
    first = before.producer_epoch
    steps = epoch - first if producer_id == before.producer_id else None
    if was_proven and steps == _INITIALISED:
        return None
    last = first if steps is None else epoch - 1
    # Of a transaction that began behind the description the partitions are not known.
    is_known = before.state is TransactionState.ONGOING and steps == _INITIALISED + 1
    return Ended(
        end=EndTxn(
            transactional_id=transactional_id, producer_id=before.producer_id, producer_epoch=epoch, commit=False
        ),
        epoch=last,
        epochs=frozenset(range(first, last + 1)) | _aborted_before(before),
        partitions=before.partitions if is_known else None,
    )  # fmt: skip


def _aborted_before(described: TransactionDescription) -> frozenset[int]:
    """Epochs of records that had been aborted before; see :mod:`sparkapp.sink.ending.hanging_end`."""
    epoch = described.producer_epoch
    if described.state is TransactionState.COMPLETE_ABORT:
        return frozenset([epoch - 2, epoch - 1])
    return frozenset([epoch - 2] if described.state is TransactionState.EMPTY else [])


_INITIALISED = 1
"""Steps of the epoch by an initialisation where nothing is open; one more where it aborts a transaction."""
FORGOTTEN = (
    "find the outcome in another partition of the transaction; `python3 -m sparkapp txn hanging --namespace NAMESPACE"
    " --job NAME` lists what hangs, and `kafka-transactions.sh abort` writes the marker of an abort"
)
