"""Ends hanging transactions at a start: a leader has them open, their coordinator calls them ended (ADR 68)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import LogScope, OpenInLogs
from sparkapp.clients.transactions.states import EndTxn, OpenProducer, TransactionDescription, TransactionListing
from sparkapp.model.errors import KafkaUnreachable, TransactionHanging
from sparkapp.model.partition import TopicPartition, named
from sparkapp.sink.ending.hanging_end import HangingEnd, hanging_end
from sparkapp.sink.ending.proven_ends import Ended, EndingClient, ProvenEnds
from sparkapp.sink.ending.proven_fence import FencingClient

_PAUSE = 0.02
_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging:
    """A transaction that hangs in a partition.

    :param described: by its coordinator; None where it knows the id no longer, or with another producer.
    :param found: by the partition's leader.
    """

    transactional_id: str
    partition: TopicPartition
    described: TransactionDescription | None
    found: OpenProducer
    end: HangingEnd

    def ended(self, *, fence: bool) -> Ended:
        """The end that its marker should have written; of :attr:`HangingEnd.COMMIT` and :attr:`HangingEnd.ABORT`.

        :param fence: see :class:`Ended`.
        """
        assert self.described is not None
        return Ended(
            end=EndTxn(
                transactional_id=self.transactional_id, producer_id=self.described.producer_id,
                producer_epoch=self.described.producer_epoch, commit=self.end is HangingEnd.COMMIT,
            ),
            epoch=self.found.epoch,
            partitions=frozenset([self.partition]),
            fence=fence,
        )  # fmt: skip


def find_hanging(
    client: EndingClient, rows: Iterable[TransactionListing], logs: OpenInLogs, *, deadline: Deadline
) -> list[Hanging]:
    """What hangs among the ids of a job; transactions that are ending are among it, until their markers are written.

    :param rows: of the job's ids, by their coordinators. :param logs: what is open in the job's partitions.
    :raises KafkaUnreachable: and other errors of access: the coordinators do not answer.
    """
    open_of = {row.transactional_id: logs.of(row.producer_id) for row in rows}
    ids = [each for each, found in open_of.items() if found]
    described = client.describe(ids, deadline=deadline) if ids else {}
    hanging = []
    for transactional_id in ids:
        for partition, found in sorted(open_of[transactional_id].items()):
            now = described.get(transactional_id)
            if now is not None and now.producer_id != found.producer_id:
                now = None
            is_open = now is not None and now.state.open and partition in now.partitions
            end = hanging_end(now, found.epoch, in_transaction=is_open)
            if end is not HangingEnd.OPEN:
                hanging.append(
                    Hanging(transactional_id=transactional_id, partition=partition, described=now, found=found, end=end)
                )
    return hanging


class HangingAtStart:
    """What earlier attempts have left hanging; made by a recovery, which ends it before it fences any id.

    :param scope: the partitions that the job's transactions can have written to.
    :param fence: whether instances of subtasks may be alive that commit by themselves.
    :param require_claim: called right before a marker is written; its error ends the call.
    """

    def __init__(
        self,
        client: FencingClient,
        ends: ProvenEnds,
        *,
        scope: LogScope,
        fence: bool,
        require_claim: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._ends = ends
        self._scope = scope
        self._fence = fence
        self._require_claim = require_claim
        self._sleep = sleep

    def end(self, rows: Sequence[TransactionListing], *, spare: Collection[str], deadline: Deadline) -> int:
        """Writes the missing markers with the outcome of their transactions; returns how many transactions hung.

        :param rows: of the job's ids, by their coordinators.
        :param spare: ids of a document's committables, whose outcome recovery has yet to settle.
        :raises TransactionHanging: the outcome of one is forgotten. Nothing was written for its id.
        :raises KafkaUnreachable: a partition has no leader. :raises KafkaAccessError: brokers refuse.
        """
        looks = 0
        while True:
            logs = self._client.logs.open_in(self._scope, deadline=deadline)
            every = find_hanging(self._client, rows, logs, deadline=deadline)
            hanging = [each for each in every if each.transactional_id not in spare]
            looks += 1
            # A marker may be written between the two questions.
            is_sure = looks > 1 or not any(each.end is HangingEnd.UNKNOWN for each in hanging)
            if is_sure and not any(each.end is HangingEnd.ENDING for each in hanging):
                break
            if deadline.expired:
                msg = f"these transactions do not end: {', '.join(sorted({each.transactional_id for each in hanging}))}"
                raise KafkaUnreachable(msg)
            self._sleep(deadline.bound(_PAUSE))
        unknown = [each for each in hanging if each.end is HangingEnd.UNKNOWN]
        # Another marker of the same id changes its state, by which a forgotten outcome would look like a known outcome.
        left = {each.transactional_id for each in unknown}
        known = [each.ended(fence=self._fence) for each in hanging if each.transactional_id not in left]
        if known:
            self._require_claim()
            self._ends.require(known, deadline=deadline)
        if unknown:
            raise forgotten(unknown)
        return len({each.end.transactional_id for each in known})


def forgotten(unknown: Sequence[Hanging]) -> TransactionHanging:
    """The error for transactions whose outcome nobody knows any more."""
    shown = "; ".join(
        f"{each.transactional_id} (producer {each.found.producer_id}) in {named([each.partition])} from offset"
        f" {each.found.start_offset}"
        for each in unknown[:_MOST_SHOWN]
    )
    more = f" and {len(unknown) - _MOST_SHOWN} more" if len(unknown) > _MOST_SHOWN else ""
    msg = f"markers are missing, and whether they commit or abort is forgotten: {shown}{more}"
    return TransactionHanging(msg)
