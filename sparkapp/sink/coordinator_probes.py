"""Whether the coordinators' word is complete: an id for each partition of the topic that they keep transactions in.

ListTransactions tells what a broker has loaded. A broker that is about to take over a coordinator's partition, because
it has just started or another one has died, tells of nothing in it, and without an error. DescribeTransactions of an
id does tell: the coordinator of its partition answers, or nobody does. So every partition is asked for an id of its
own, which need not exist.

Before and after: a broker that was out of service for a moment while it was asked for the list is the coordinator again
by then, and has loaded again. The terms of the partitions' leaders tell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkapp.model.partition import java_hash

TRANSACTION_TOPIC = "__transaction_state"
USUAL_PARTITIONS = 50
"""``transaction.state.log.num.partitions`` unless it is set; taken where the user may not see the topic."""
_MIN_INT = -(2**31)


class Coordinators(NamedTuple):
    """Who coordinates what, at a moment; equal only where no coordinator has been another in between, nor the same one
    anew, which tells of nothing until it has loaded again.

    :param nodes: the broker of each probe.
    :param terms: of each of these brokers, ``KafkaWire.transaction_leaders``.
    """

    nodes: dict[str, Any]
    terms: list[dict[int, tuple[int, int]]]


def partition_of(transactional_id: str, partitions: int) -> int:
    """The coordinator's partition of an id, as brokers compute it."""
    code = java_hash(transactional_id)
    return (0 if code == _MIN_INT else abs(code)) % partitions


def probe_ids(prefix: str, partitions: int) -> list[str]:
    """Ids of the prefix, whose user may ask for them, one for each partition. Pure."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < partitions:
        one = f"{prefix}-{number}"
        found.setdefault(partition_of(one, partitions), one)
        number += 1
    return list(found.values())
