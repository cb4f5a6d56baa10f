"""One checkpoint's work of a subtask of the continuous engine, and its frame; the parts that all frames share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.producers.reusable_producers import CommittedTransaction
from sparkapp.source.watermarks.subtask_watermark import GivenWatermarks, ReachedWatermarks
from sparkapp.spark.tasks.write_task import WriteOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One checkpoint's part of a subtask.

    :param order: of the transaction. Its ranges are the splits, unless a partition is cut among subtasks.
    :param splits: read completely, in this checkpoint.
    :param limits: of an open checkpoint (ADR 61): how far each split may be read beyond its stop, until the barrier.
        Empty behind the barrier, and for a checkpoint without a barrier.
    :param watermarks: None for a job without ``source.watermarks``.
    """

    order: WriteOrder
    splits: tuple[KafkaPartitionSplit, ...]
    limits: tuple[int, ...] = ()
    watermarks: GivenWatermarks | None = None

    @property
    def is_open(self) -> bool:
        """Whether it ends at a barrier."""
        return bool(self.limits)

    def again(self) -> Work:
        """The same work for another task: before the barrier it may have fewer records than the task before.

        It uses no producer again, because ``init_transactions`` of a new producer ends the earlier try.
        """
        order = replace(self.order, ends_earlier_try=True, reusable=None)
        return replace(self, order=order) if self.is_open else self

    def closed(self) -> Work:
        """The same work behind the barrier, and of another try: exactly the splits."""
        if not self.is_open:
            return self
        splits = tuple(split for split in self.splits if split.size)
        return replace(self, order=replace(self.again().order, ranges=splits), splits=splits, limits=())


def encode_work(work: Work) -> bytes:
    """The frame of one checkpoint's work."""
    order = work.order
    body = {
        "checkpoint": order.checkpoint_id,
        "subtask": order.subtask,
        "nextFree": order.next_free,
        "settled": order.settled,
        "reusable": order.reusable,
        "group": order.group_id,
        "endsEarlierTry": order.ends_earlier_try,
        "cut": work.splits != order.ranges,
        "splits": split_rows(work.splits),
        "limits": work.limits,
        "watermarks": _given_body(work.watermarks),
    }
    return encoded({"work": body})


def decode_work(frame: dict[str, Any]) -> Work | None:
    """Reads a frame of the engine, which is no beat and no barrier; None asks the subtask to end."""
    body = frame.get("work")
    if body is None:
        return None
    splits = splits_of(body["splits"])
    order = WriteOrder(
        checkpoint_id=body["checkpoint"],
        subtask=body["subtask"],
        next_free=body["nextFree"],
        settled=body["settled"],
        reusable=_reusable(body["reusable"]),
        writes_what_it_reads=True,
        ranges=() if body["cut"] else splits,
        group_id=body["group"],
        ends_earlier_try=body["endsEarlierTry"],
    )
    return Work(order=order, splits=splits, limits=tuple(body["limits"]), watermarks=_given(body["watermarks"]))


def encoded(body: dict[str, Any]) -> bytes:
    """A frame of either side."""
    return json.dumps(body, separators=(",", ":")).encode()


def reached_body(reached: ReachedWatermarks) -> dict[str, Any]:
    """The watermarks of a subtask's answer."""
    return {"own": reached.own, "partitions": partition_rows(reached.partitions)}


def decode_reached(body: dict[str, Any] | None) -> ReachedWatermarks | None:
    """Reads the watermarks of a subtask's answer; called by the engine's side."""
    if body is None:
        return None
    return ReachedWatermarks(own=body["own"], partitions=partitions_of(body["partitions"]))


def _given_body(given: GivenWatermarks | None) -> dict[str, Any] | None:
    if given is None:
        return None
    return {"own": given.own, "others": given.others, "partitions": partition_rows(given.partitions)}


def _given(body: dict[str, Any] | None) -> GivenWatermarks | None:
    if body is None:
        return None
    return GivenWatermarks(own=body["own"], others=body["others"], partitions=partitions_of(body["partitions"]))


def _reusable(rows: Mapping[str, Sequence[int]] | None) -> dict[str, CommittedTransaction] | None:
    return None if rows is None else {each: CommittedTransaction(*row) for each, row in rows.items()}


def partition_rows(numbers: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """A number for each partition, in a frame: an offset, or a watermark in milliseconds."""
    return [(*partition, number) for partition, number in numbers.items()]


def partitions_of(rows: Sequence[Sequence[Any]]) -> dict[TopicPartition, int]:
    """Reads :func:`partition_rows`."""
    return {TopicPartition(row[0], row[1]): row[2] for row in rows}


def split_rows(splits: Sequence[KafkaPartitionSplit]) -> list[tuple[str, int, int, int]]:
    """Splits in a frame."""
    return [(*split.partition, split.start, split.stop) for split in splits]


def splits_of(rows: Sequence[Sequence[Any]]) -> tuple[KafkaPartitionSplit, ...]:
    """Reads :func:`split_rows`."""
    return tuple(KafkaPartitionSplit(TopicPartition(row[0], row[1]), row[2], row[3]) for row in rows)
