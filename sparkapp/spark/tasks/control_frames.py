"""Frames of the control channel between the continuous engine and a subtask: JSON objects, and what they mean.

Work and barriers go down in the two-phase pace, and orders in the local pace. Answers come up. In the local pace a
frame names its instance, and every other instance ignores it. So an order that was sent before the engine heard of an
instance's end has no effect on the next instance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkapp.model.checkpoint.split import SPLIT_ROWS, KafkaPartitionSplit, Offsets
from sparkapp.model.encoding.json_parts import decode_part, encode_part, stored
from sparkapp.model.partition import PARTITION_ROWS, TopicPartition
from sparkapp.source.watermarks.subtask_watermark import GivenWatermarks, ReachedWatermarks
from sparkapp.spark.tasks.write_task import WriteOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first frame of a subtask's task.

    :param task: Spark's id of this try of the task.
    :param wave: of the task.
    :param executor: Spark's id of its executor; empty where Spark does not tell it.
    """

    subtask: int = stored(key="ready")
    task: int
    wave: int
    executor: str


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
    splits: tuple[KafkaPartitionSplit, ...] = stored(**SPLIT_ROWS)
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
    """The frame of one checkpoint's work; most often the transaction's ranges are the splits."""
    return encoded({"work": encode_part(work) | {"isCut": work.splits != work.order.ranges}})


def decode_work(frame: dict[str, Any]) -> Work | None:
    """Reads a frame of the engine, which is no beat and no barrier; None asks the subtask to end."""
    if "work" not in frame:
        return None
    body = dict(frame["work"])
    is_cut = body.pop("isCut")
    work = decode_part(Work, body, "work")
    return work if is_cut else replace(work, order=replace(work.order, ranges=work.splits))


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
    place: Offsets | None = stored(default=None, **PARTITION_ROWS)
    mark: str = ""
    read: tuple[KafkaPartitionSplit, ...] = stored(default=(), **SPLIT_ROWS)
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
    reading: tuple[KafkaPartitionSplit, ...] = stored(default=(), **SPLIT_ROWS)
    opened: bool = False
    placed: Offsets | None = stored(default=None, **PARTITION_ROWS)
    offsets: Offsets | None = stored(default=None, **PARTITION_ROWS)
    totals: Mapping[str, int] = field(default_factory=dict)
    clients: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """A subtask's answer, as its frame has it.

    :param subtask: whose work it was: its own, or another's.
    :param checkpoint_id: that it answers for; None for its end.
    :param result: of the write task; empty after a failure.
    :param failure: an error by :func:`sparkapp.spark.failures.printed`; empty without one.
    :param watermarks: None after a failure, and for a job without them.
    :param report: in the local pace; then everything else is empty.
    """

    subtask: int
    checkpoint_id: int | None = None
    result: str = ""
    failure: str = ""
    watermarks: ReachedWatermarks | None = None
    report: SubtaskReport | None = None

    @property
    def is_last(self) -> bool:
        """Whether the subtask ends."""
        return self.checkpoint_id is None and self.report is None


def encode_stop() -> bytes:
    """The frame that ends a subtask."""
    return encoded({"stop": True})


def encode_barrier(checkpoint_id: int) -> bytes:
    """The frame that ends a subtask's part of an open checkpoint."""
    return encoded({"barrier": checkpoint_id})


def barrier_of(body: dict[str, Any]) -> int | None:
    """The checkpoint whose barrier a frame of the engine is; None for other frames."""
    return body.get("barrier")


def encode_beat() -> bytes:
    """The frame that says nothing but that its sender runs."""
    return encoded({"beat": True})


def is_beat(body: dict[str, Any]) -> bool:
    """Whether a frame of either side is a beat."""
    return "beat" in body


def encode_instance_order(order: InstanceOrder) -> bytes:
    """The frame of an order."""
    return encoded({"order": encode_part(order)})


def decode_instance_order(frame: Mapping[str, Any]) -> InstanceOrder | None:
    """Reads a frame of the engine, which is no beat; None asks the subtask to end."""
    return decode_part(InstanceOrder, frame["order"], "order") if "order" in frame else None


def encoded(body: dict[str, Any]) -> bytes:
    """A frame of either side."""
    return json.dumps(body, separators=(",", ":")).encode()
