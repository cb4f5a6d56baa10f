"""Chooses topic and partition of every record of a batch, column by column: no Python runs for each record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sparkapp.clients.topics.topic_pattern import is_read
from sparkapp.model.errors import TransformError
from sparkapp.model.job.sections.sink import Partitioner, TopicFrom
from sparkapp.model.job.spec import JobSpec


class Router:
    """Turns a result's columns ``topic`` and ``partition`` into those that a producer obeys; one for each task.

    :param partitions_of: a topic's number of partitions; raises for a topic that does not exist.
    :param start: where round robin begins, so that small checkpoints do not all go to the first partition.
    """

    def __init__(self, spec: JobSpec, *, partitions_of: Callable[[str], int], start: int = 0) -> None:
        self._spec = spec
        self._partitions_of = partitions_of
        self._start = start
        self._next: dict[str, int] = {}
        self._allowed: set[str] = set()

    def route(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns ``topic`` and ``partition`` that the options ask for, and no others of that name.

        :raises TransformError: a record has no topic, or none that may be written; or no source partition.
        :raises TopicNotFound: a topic does not exist.
        """
        sink = self._spec.sink
        columns = {
            name: batch.column(index)
            for index, name in enumerate(batch.schema.names)
            if name not in {"topic", "partition"}
        }
        if sink.topic_from is TopicFrom.COLUMN:
            topics = _column(batch, "topic", "sink.topicFrom: Column").cast(pa.string())
            encoded = topics.dictionary_encode()
            names, which = [str(name) for name in encoded.dictionary.to_pylist()], encoded.indices
            self._require(names)
            columns["topic"] = topics
        else:
            names, which = [sink.topic], pa.array(np.zeros(batch.num_rows, np.int32))
        if sink.partitioner is not Partitioner.KEY:
            columns["partition"] = self._partitions(batch, names, which.to_numpy(zero_copy_only=False))
        return pa.RecordBatch.from_pydict(columns)

    def _require(self, names: list[str]) -> None:
        for name in names:
            if name in self._allowed:
                continue
            # A topic of another cluster may have the name of a source topic.
            reads = self._spec.sink.kafka is None and is_read(self._spec.source, name)
            if reads or name in self._spec.record_errors.topics:
                msg = (
                    f"column topic names {name!r}, which the job itself reads or writes dead letters to: set the column"
                    " to the target, or sink.topicFrom: Spec"
                )
                raise TransformError(msg, remedy="set column topic to the name of the target, not of the source")
            self._partitions_of(name)
            self._allowed.add(name)

    def _partitions(self, batch: pa.RecordBatch, names: list[str], which: Any) -> pa.Array[Any]:
        counts = np.array([self._partitions_of(name) for name in names], np.int64)[which]
        if self._spec.sink.partitioner is Partitioner.SOURCE_PARTITION:
            source = _column(batch, "partition", "sink.partitioner: SourcePartition")
            numbers = source.cast(pa.int64()).to_numpy(zero_copy_only=False)
            if len(numbers) and numbers.min() < 0:
                msg = "column partition has a negative number"
                raise TransformError(msg, remedy="keep the source's column partition, or set sink.partitioner: Key")
        else:
            numbers = self._turns(names, which)
        chosen: pa.Array[Any] = pa.array((numbers % counts).astype(np.int32))
        return chosen

    def _turns(self, names: list[str], which: Any) -> Any:
        """Each record's number among the records of its topic, which continues from batch to batch."""
        order = np.argsort(which, kind="stable")
        sizes = np.bincount(which, minlength=len(names))
        firsts = np.cumsum(sizes) - sizes
        starts = np.array([self._next.get(name, self._start) for name in names], np.int64)
        turns = np.empty(len(which), np.int64)
        turns[order] = np.arange(len(which)) + np.repeat(starts - firsts, sizes)
        for name, start, size in zip(names, starts.tolist(), sizes.tolist(), strict=True):
            self._next[name] = start + size
        return turns


def _column(batch: pa.RecordBatch, name: str, option: str) -> pa.Array[Any]:
    index = batch.schema.get_field_index(name)
    if index < 0:
        msg = f"{option} needs a column {name!r} in the transform's result"
        raise TransformError(msg)
    column = batch.column(index)
    if column.null_count:
        msg = f"{option}: column {name} is null in {column.null_count} of {batch.num_rows} records: {_remedy(name)}"
        raise TransformError(msg, remedy=_remedy(name))
    return column


def _remedy(name: str) -> str:
    return f"give every record a {name} in column {name}, or filter the others out"
