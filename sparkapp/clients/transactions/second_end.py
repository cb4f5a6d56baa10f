"""Ends a transaction a second time, in partitions that lack its marker (ADR 68)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError, check
from sparkapp.clients.transactions.partition_requests import add_partitions_request, codes_of_added
from sparkapp.clients.transactions.requests import KafkaWire, add_offsets_request, end_txn_request
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition

_SECONDS = 10.0
"""For the answers, also if the caller has less time left. A request that times out closes the connection, and later
requests on it are lost."""


async def end_again(
    connection: KafkaConnection,
    wire: KafkaWire,
    end: EndTxn,
    partitions: Collection[TopicPartition],
    *,
    group_id: str,
) -> None:
    """An empty transaction of the same producer adds the partitions, and ends with the same outcome; one attempt.

    Its markers decide the records that the producer has left open there. The requests are written as one, and a broker
    takes those of a connection one by one. So a caller that dies leaves all of them or none. Where the coordinator
    moves in between, the transaction is open with this triple: another call, without partitions, ends it.

    :param partitions: of topics. :param group_id: whose offsets lack the marker, too; empty for none.
    :raises KafkaUnreachable: the coordinator may have done it, or a part, or is still writing markers.
    :raises KafkaAccessError: it refuses, for instance because the producer has changed.
    """
    deadline = Deadline.after(_SECONDS)
    ids = [end.transactional_id]
    requests: list[Any] = []
    if partitions:
        requests.append(add_partitions_request(end, partitions))
    if group_id:
        requests.append(add_offsets_request(end, group_id))
    requests.append(end_txn_request(end))
    try:
        node = (await wire.coordinators(ids, deadline))[end.transactional_id]
        answers = await connection.send_together(requests, node, deadline)
        what = f"ending {end.transactional_id} again"
        for answer in answers:
            for code in codes_of_added(answer):
                check(code, what)
    except RetriableWireError as error:
        wire.forget_coordinators(ids)
        raise KafkaUnreachable(str(error)) from error
    except RefusedWireError as error:
        raise KafkaAccessError(str(error)) from error
