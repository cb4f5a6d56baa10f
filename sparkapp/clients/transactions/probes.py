"""Probes that prove a list of transactions complete: an id for each partition of the coordinators' topic.

ListTransactions lists what a broker has loaded. A broker that is about to take over a coordinator's partition lists
nothing of it, without an error. It has just started, or another broker has died. DescribeTransactions is different: the
coordinator of the id's partition answers, or no broker does. So every partition is asked for a probe id, which need not
exist.

The probes run before and after the list. A broker may be out of service for a moment during the list, and be loaded
again afterwards. The terms of the partitions' leaders reveal that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkapp.model.partition import java_hash

TRANSACTION_TOPIC = "__transaction_state"
USUAL_PARTITIONS = 50
"""Default of ``transaction.state.log.num.partitions``; used where the user may not see the topic."""
_MIN_INT = -(2**31)


class Coordinators(NamedTuple):
    """The coordinators at a moment. Two are equal only if no coordinator moved or reloaded in between: until it has
    loaded, a coordinator lists nothing.

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
        transactional_id = f"{prefix}-{number}"
        found.setdefault(partition_of(transactional_id, partitions), transactional_id)
        number += 1
    return list(found.values())
