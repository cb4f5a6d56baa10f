"""The control plane of transactions: ends, describes, lists and fences them, without being their producer.

It makes a commit independent of the process that wrote. The broker ends a transaction for any client that has
(transactional id, producer id, producer epoch).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError
from sparkapp.clients.transactions.partition_logs import PartitionLogs
from sparkapp.clients.transactions.probes import Coordinators, probe_ids
from sparkapp.clients.transactions.requests import KafkaWire
from sparkapp.clients.transactions.second_end import end_again
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionListing
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.naming import is_of_prefix, order_of, pattern_of
from sparkapp.model.errors import AuthorizationFailed, KafkaAccessError, KafkaSparkJobError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""One request that has no answer by then is sent again on a new connection."""
DESCRIBE_AT_ONCE = 500

_ANSWERS: Mapping[str, EndTxnAnswer] = {
    "INVALID_TXN_STATE": EndTxnAnswer.INVALID_TXN_STATE,
    "PRODUCER_FENCED": EndTxnAnswer.PRODUCER_FENCED,
    # What brokers say instead to requests before version 2.
    "INVALID_PRODUCER_EPOCH": EndTxnAnswer.PRODUCER_FENCED,
    "INVALID_PRODUCER_ID_MAPPING": EndTxnAnswer.INVALID_PRODUCER_ID_MAPPING,
}
_CONCURRENT = "CONCURRENT_TRANSACTIONS"

Answer = TypeVar("Answer")


class TransactionClient:
    """Speaks to the transaction coordinators of one cluster; thread-safe, connects on first use.

    Used by the driver (committer, lingering transactions) and by every Python worker's producer pool.

    :param config: librdkafka properties of the cluster: bootstrap.servers, security.*, sasl.*, client.id.
    :param timeout: seconds for one call, all its retries included, except where a call takes its own deadline.
    :ivar logs: asks the leaders of partitions what is open there.
    """

    def __init__(self, config: Mapping[str, str], *, timeout: float = 30.0) -> None:
        self._connection = KafkaConnection(config)
        self._wire = KafkaWire(self._connection)
        self._timeout = timeout
        self.logs = PartitionLogs(self._connection, timeout=timeout)

    @property
    def answers(self) -> int:
        """Number of responses of brokers so far: a recovery of many transactions progresses by them."""
        return self._connection.answers

    def end_all(
        self, ends: Sequence[EndTxn], *, deadline: Deadline | None = None
    ) -> list[EndTxnAnswer | KafkaSparkJobError]:
        """Ends several transactions concurrently, one request each; answers in order.

        An id whose request was refused (access) has its error in place of an answer, so that no other answer is lost.
        A request whose answer did not arrive is OTHER_RETRIABLE: it may have worked.
        """
        used = deadline or Deadline.after(self._timeout)

        async def end_transaction(end: EndTxn) -> EndTxnAnswer | KafkaSparkJobError:
            try:
                await self._wire.end_txn(end, _request_deadline(used))
            except RefusedWireError as error:
                return _answer_of(error)
            except RetriableWireError as error:
                LOG.info("EndTxn of %s: %s; retry", end.transactional_id, error)
                if error.name == _CONCURRENT:
                    return EndTxnAnswer.CONCURRENT_TRANSACTIONS
                self._wire.forget_coordinators([end.transactional_id])
                return EndTxnAnswer.OTHER_RETRIABLE
            except KafkaSparkJobError as error:
                return error
            return EndTxnAnswer.NONE

        async def every() -> list[EndTxnAnswer | KafkaSparkJobError]:
            ids = [end.transactional_id for end in ends]
            try:
                # One lookup for all ids. Where it fails, each request makes its own lookup and has its own error.
                await self._wire.coordinators(ids, _request_deadline(used))
            except (RetriableWireError, RefusedWireError, KafkaSparkJobError) as error:
                LOG.debug("looking the coordinators up: %s", error)
            return await self._connection.gather(end_transaction, ends)

        try:
            return self._connection.run(used, every)
        except KafkaUnreachable as error:
            # Nothing was sent: the caller may retry.
            LOG.info("EndTxn: %s", error)
            return [EndTxnAnswer.OTHER_RETRIABLE] * len(ends)

    def end_again(
        self, end: EndTxn, partitions: Collection[TopicPartition], *, group_id: str = "", deadline: Deadline
    ) -> None:
        """See :func:`sparkapp.clients.transactions.second_end.end_again`."""
        again = partial(end_again, self._connection, self._wire, end, partitions, group_id=group_id)
        self._connection.run(deadline, again)

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        """What the coordinators know of each id; ids that they do not know are absent.

        :param transactional_ids: of any number. They are taken as they are asked for.
        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: DESCRIBE is missing on an id.
        """
        ids = iter(transactional_ids)
        used = deadline or Deadline.after(self._timeout)

        async def chunk(part: Sequence[str]) -> dict[str, TransactionDescription]:
            async def attempt() -> dict[str, TransactionDescription]:
                limit = _request_deadline(used)
                at = _by_coordinator(await self._wire.coordinators(part, limit))
                parts = await self._connection.gather(
                    lambda each: self._wire.describe(each[1], each[0], limit), at.items()
                )
                return {answer: description for answers in parts for answer, description in answers.items()}

            return await self._retried(attempt, used, f"describing {len(part)} transactional ids", part)

        async def every() -> dict[str, TransactionDescription]:
            found: dict[str, TransactionDescription] = {}
            part = first
            while part:
                found |= await chunk(part)
                part = list(dict.fromkeys(islice(ids, DESCRIBE_AT_ONCE)))
            return found

        first = list(dict.fromkeys(islice(ids, DESCRIBE_AT_ONCE)))
        return self._connection.run(used, every) if first else {}

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None:
        """The next request looks the coordinators of these ids up again."""
        self._wire.forget_coordinators(transactional_ids)

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]:
        """Every transactional id of the prefix that any coordinator knows, in any state, whatever its naming; in order.

        Complete also right after a broker's start or death: the list is taken when every coordinator has loaded, and
        again if a coordinator moved meanwhile. Kafka silently leaves out ids that the user may not describe. A user
        that may write under an id may describe it.

        :raises ListingUnsupported: the brokers do not know the request. :raises AuthorizationFailed: it is forbidden.
        :raises KafkaUnreachable: no answer in time.
        """
        rows = self._list(prefix, f"listing transactions of {prefix}", deadline)
        ours = (row for row in rows if is_of_prefix(row.transactional_id, prefix))
        return sorted(ours, key=lambda row: order_of(row.transactional_id, prefix))

    def list_all(self) -> list[TransactionListing]:
        """Every id in the cluster, sorted; for people, never for a job."""
        rows = self._list(None, "listing transactions", None)
        return sorted(rows, key=lambda row: row.transactional_id)

    def coordinators(self, transactional_ids: Iterable[str]) -> dict[str, str]:
        """The broker that coordinates each id, as ``number (host:port)``; for people.

        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: DESCRIBE is missing on an id.
        """
        ids = list(dict.fromkeys(transactional_ids))
        used = Deadline.after(self._timeout)

        async def attempt() -> dict[str, str]:
            nodes = await self._wire.coordinators(ids, _request_deadline(used))
            return {transactional_id: self._connection.broker_name(node) for transactional_id, node in nodes.items()}

        return self._connection.run(used, lambda: self._retried(attempt, used, "looking coordinators up", ids))

    def fence_all(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, tuple[int, int]]:
        """Aborts the open transactions of the ids and increments their epochs, which fences every earlier producer.

        Returns when each abort is complete by its coordinator; :mod:`sparkapp.sink.ending.proven_fence` proves it.
        The first failure is raised when all have ended.

        :returns: of each id the producer id and epoch that it has now.

        :raises KafkaUnreachable: not complete in time. :raises AuthorizationFailed: WRITE is missing on an id.
        """
        ids = list(dict.fromkeys(transactional_ids))
        used = deadline or Deadline.after(self._timeout)

        async def fence(transactional_id: str) -> tuple[int, int]:
            async def attempt() -> tuple[int, int]:
                return await self._wire.init_producer_id(transactional_id, _request_deadline(used))

            return await self._retried(attempt, used, f"fencing {transactional_id}", [transactional_id])

        async def every() -> dict[str, tuple[int, int]]:
            return dict(zip(ids, await self._connection.gather(fence, ids), strict=True))

        return self._connection.run(used, every) if ids else {}

    def close(self) -> None:
        """Ends the connections; the next call would open new connections."""
        self._connection.close()

    def _list(self, prefix: str | None, what: str, deadline: Deadline | None) -> list[TransactionListing]:
        used = deadline or Deadline.after(self._timeout)
        pattern = None if prefix is None else pattern_of(prefix)

        async def attempt() -> list[TransactionListing]:
            limit = _request_deadline(used)
            probes: list[str] = []
            if prefix is not None:
                probes = probe_ids(prefix, await self._wire.transaction_partitions(limit))
            try:
                before = await self._loaded(probes, limit)
            except AuthorizationFailed:
                # A prefix whose ids the user may not describe: none will be listed, so none is missed.
                probes, before = [], Coordinators({}, [])
            answers = await self._connection.gather(
                lambda node: self._wire.list_transactions(pattern, node, limit),
                {*self._wire.brokers(), *before.nodes.values()},
            )
            if await self._looked_up(probes, limit) != before:
                raise RetriableWireError("NOT_COORDINATOR", "a coordinator has moved meanwhile")
            return [row for rows in answers for row in rows]

        return self._connection.run(used, lambda: self._retried(attempt, used, what))

    async def _loaded(self, probes: Sequence[str], limit: Deadline) -> Coordinators:
        """The coordinator of each probe, once all of them have loaded.

        :raises RetriableWireError: one has not.
        """
        found = await self._looked_up(probes, limit)
        at = _by_coordinator(found.nodes)
        await self._connection.gather(lambda each: self._wire.require_loaded(each[1], each[0], limit), at.items())
        return found

    async def _looked_up(self, probes: Sequence[str], limit: Deadline) -> Coordinators:
        self._wire.forget_coordinators(probes)
        nodes = await self._wire.coordinators(probes, limit)
        terms = await self._connection.gather(
            lambda node: self._wire.transaction_leaders(node, limit), sorted(set(nodes.values()), key=str)
        )
        return Coordinators(nodes, terms)

    async def _retried(
        self,
        attempt: Callable[[], Awaitable[Answer]],
        deadline: Deadline,
        what: str,
        transactional_ids: Sequence[str] = (),
    ) -> Answer:
        pauses = deadline.pauses(0.005, 0.5)
        while True:
            try:
                return await attempt()
            except RefusedWireError as error:
                raise KafkaAccessError(f"{what}: {error}") from error
            except RetriableWireError as error:
                if error.name != _CONCURRENT:
                    self._wire.forget_coordinators(transactional_ids)
                await self._connection.sleep(next(pauses))
                if deadline.expired:  # another request would have no time, and hide this answer
                    msg = f"{what}: not within the time allowed; the last answer was {error}"
                    raise KafkaUnreachable(msg) from error


def _by_coordinator(nodes: Mapping[str, object]) -> dict[object, list[str]]:
    at: dict[object, list[str]] = {}
    for transactional_id, node in nodes.items():
        at.setdefault(node, []).append(transactional_id)
    return at


def _answer_of(error: RefusedWireError) -> EndTxnAnswer:
    answer = _ANSWERS.get(error.name)
    if answer is None:
        LOG.warning("EndTxn: %s is not an answer that proves anything", error)
        return EndTxnAnswer.OTHER_FATAL
    return answer


def _request_deadline(deadline: Deadline) -> Deadline:
    return Deadline.after(deadline.bound(REQUEST_SECONDS), clock=deadline.clock)
