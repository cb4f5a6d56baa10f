"""Rights that only a request shows: on a consumer group, and on a transactional id. No request changes anything."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError
from sparkapp.clients.transactions.requests import KafkaWire
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.errors import AuthorizationFailed
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

_NOBODY = (1 << 63) - 1
"""The id of no producer: a coordinator that allows the request refuses this id."""
_PAUSE = 0.1


class RightsProbe:
    """Asks the coordinators as the job will; used by the driver's check before Spark starts.

    :param config: librdkafka properties of the cluster.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._connection = KafkaConnection(config)
        self._wire = KafkaWire(self._connection)

    def close(self) -> None:
        """Ends the connections."""
        self._connection.close()

    def may_read_group(self, group_id: str, partition: TopicPartition, deadline: Deadline) -> bool:
        """Whether the user may use the group's offsets.

        :param partition: which the user may describe.
        :raises KafkaAccessError: the brokers cannot be reached, or refuse the credentials.
        """

        async def ask(limit: Deadline) -> None:
            await self._wire.committed_offsets(group_id, [partition], limit, stable=False)

        return self._is_allowed(ask, deadline)

    def may_write_id(self, transactional_id: str, deadline: Deadline) -> bool:
        """Whether the user may write under a transactional id; errors as in :meth:`may_read_group`."""
        end = EndTxn(transactional_id=transactional_id, producer_id=_NOBODY, producer_epoch=0, commit=False)

        async def ask(limit: Deadline) -> None:
            await self._wire.end_txn(end, limit)

        return self._is_allowed(ask, deadline)

    def _is_allowed(self, ask: Callable[[Deadline], Awaitable[None]], deadline: Deadline) -> bool:
        """False only where the broker says so: a coordinator that is away for long is not this check's concern."""

        async def until_answered() -> bool:
            while True:
                try:
                    await ask(deadline)
                except AuthorizationFailed:
                    return False
                except RefusedWireError:
                    return True
                except RetriableWireError as error:
                    if deadline.expired:
                        LOG.warning("a right could not be checked: %s", error)
                        return True
                    await self._connection.sleep(deadline.bound(_PAUSE))
                else:
                    return True

        return self._connection.run(deadline, until_answered)
