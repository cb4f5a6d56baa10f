"""Frames of the local pace between the engine and a subtask, over the control channel.

A frame names its instance, and every other instance ignores it. So an order that was sent before the engine heard of an
instance's end has no effect on the next instance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.tasks.work import encoded, partition_rows, partitions_of, split_rows, splits_of

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOrder:
    """What the engine asks of a subtask; the first of these that is set counts.

    :param open: the transactional id of the new instance that is to be opened.
    :param place: partitions whose offsets are to be committed, without records.
    :param mark: text that is stored with each offset; with ``place``.
    :param read: partitions that are read from now on, and those that were before are still.
    :param drop: partitions that are gone. The instance commits what it has read, and is over.
    """

    instance: int
    open: str = ""
    place: Offsets | None = None
    mark: str = ""
    read: tuple[KafkaPartitionSplit, ...] = ()
    drop: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtaskReport:
    """What a subtask says.

    :param instance: 0 where there has been none.
    :param waits: it has no instance (any more), and waits for the order to open the next.
    :param failure: with ``waits``, why the instance ended, by :func:`sparkapp.spark.failures.printed`. Empty where
        it had to be replaced after a commit.
    :param reading: with a failure, what it has read and not committed.
    :param opened: the instance's producer is open.
    :param placed: partitions whose offsets are committed.
    :param offsets: next offset of each partition, by commits that succeeded; None without news of them.
    :param totals: of this instance's commits: ``records_out``, ``dead_lettered``, ``skipped`` and ``transactions``.
    :param clients: totals of the subtask's Kafka clients, by worker.
    """

    instance: int
    waits: bool = False
    failure: str = ""
    reading: tuple[KafkaPartitionSplit, ...] = ()
    opened: bool = False
    placed: Offsets | None = None
    offsets: Offsets | None = None
    totals: Mapping[str, int] = field(default_factory=dict)
    clients: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def encode_instance_order(order: InstanceOrder) -> bytes:
    """The frame of an order."""
    body = {
        "instance": order.instance,
        "open": order.open,
        "place": _rows(order.place),
        "mark": order.mark,
        "read": split_rows(order.read),
        "drop": [[*partition] for partition in order.drop],
    }
    return encoded({"order": body})


def decode_instance_order(frame: Mapping[str, Any]) -> InstanceOrder | None:
    """Reads a frame of the engine, which is no beat; None asks the subtask to end."""
    body = frame.get("order")
    if body is None:
        return None
    return InstanceOrder(
        instance=body["instance"],
        open=body["open"],
        place=_offsets(body["place"]),
        mark=body["mark"],
        read=splits_of(body["read"]),
        drop=tuple(TopicPartition(row[0], row[1]) for row in body["drop"]),
    )


def subtask_report_body(report: SubtaskReport) -> dict[str, Any]:
    """The frame of a report, as the channel takes it."""
    body = {
        "instance": report.instance,
        "waits": report.waits,
        "failure": report.failure,
        "reading": split_rows(report.reading),
        "opened": report.opened,
        "placed": _rows(report.placed),
        "offsets": _rows(report.offsets),
        "totals": dict(report.totals),
        "clients": report.clients,
    }
    return {"report": {name: value for name, value in body.items() if value}}


def decode_subtask_report(frame: Mapping[str, Any]) -> SubtaskReport | None:
    """Reads a frame of a subtask; None for its end."""
    body = frame.get("report")
    if body is None:
        return None
    return SubtaskReport(
        instance=body.get("instance", 0),
        waits=body.get("waits", False),
        failure=body.get("failure", ""),
        reading=splits_of(body.get("reading", ())),
        opened=body.get("opened", False),
        placed=_offsets(body.get("placed")),
        offsets=_offsets(body.get("offsets")),
        totals=body.get("totals", {}),
        clients=body.get("clients", {}),
    )


def _rows(offsets: Offsets | None) -> list[tuple[str, int, int]] | None:
    return None if offsets is None else partition_rows(offsets)


def _offsets(rows: Sequence[Sequence[Any]] | None) -> Offsets | None:
    return None if rows is None else partitions_of(rows)
