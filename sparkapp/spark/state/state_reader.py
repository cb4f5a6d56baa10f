"""The rows of operators' state at a checkpoint, by Spark's own data sources; the volume is only read.

Spark's sources read a query's checkpoint folder, and take its numbers from the log there. So the log is rebuilt from
the checkpoint, as at a start. It is in a folder of its own, with a link to the state on the volume.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructType

from sparkapp.model.errors import CommandRefused, QueryStateMissing
from sparkapp.model.errors.listed import listed
from sparkapp.spark.state import operator_metadata, query_log, state_store_files

TIMERS = "timers"
"""As a store: the registered timers of an operator of ``transformWithState``."""
_SIDES = {"left": "left-keyWithIndexToValue", "right": "right-keyWithIndexToValue"}
"""The rows that a join keeps of each side. Spark's option for a side fails for RocksDB, so its stores are read."""
_COUNTS = "-keyToNumValues"
"""End of the name of a store of a join that has the number of rows of each key."""
_SHOWN = 3
_SHOWN_CHARACTERS = 300
_ROW = ("partition", "key", "value")


@dataclass(frozen=True, slots=True)
class StateAt:
    """Where the state of a checkpoint is.

    :param checkpoint_id: number of the checkpoint. :param engine: the engine's text of its document or entry.
    :param folder: of the job, on the volume.
    """

    checkpoint_id: int
    engine: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Store:
    """What can be read of an operator.

    :param operator: its number in the plan of the transform. :param kind: Spark's name of the operator.
    :param name: a side of a join, a state variable or :data:`TIMERS`; empty for an operator with a single store.
    :param partitions: of its state.
    """

    operator: int
    kind: str
    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows of a store are read.

    :param partition: None for all. :param key: text of a field of the key, or the key as JSON; empty for all.
    """

    operator: int
    store: str = ""
    partition: int | None = None
    key: str = ""


class StateReader:
    """Reads checkpoints of one job. Made and used by ``kafkaspark state``.

    :param scratch: an empty folder, for the logs of the checkpoints.
    """

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark, self._scratch = spark, scratch

    def stores(self, at: StateAt) -> list[Store]:
        """The stores of all operators.

        :raises QueryStateMissing: the volume does not have the state of the checkpoint.
        """
        path, _ = self._opened(at)
        found: dict[Store, None] = {}
        for row in self._spark.read.format("state-metadata").load(str(path)).collect():
            for name in _names(row.stateStoreName, row.operatorProperties):
                found[Store(row.operatorId, row.operatorName, name, row.numPartitions)] = None
        return sorted(found, key=lambda each: (each.operator, each.name))

    def rows(self, at: StateAt, selection: Selection, *, limit: int) -> tuple[list[dict[str, Any]], bool]:
        """Rows with ``partition``, ``key`` and ``value``, the least first; and whether there are more.

        :raises QueryStateMissing: as :meth:`stores`. :raises CommandRefused: Spark cannot read that store.
        """
        frame = self._frame(at, selection).orderBy("partition", "key", "value").limit(limit + 1)
        return _taken([_decoded(row) for row in _collected(frame)], limit)

    def changes(
        self, before: StateAt, after: StateAt, selection: Selection, *, limit: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """Keys whose values differ, with ``change``, ``key``, ``before`` and ``after``; and whether there are more.

        Partitions are not compared: state may have been divided again. A key of a list, a map or a join has several
        values, which are compared together.

        :raises QueryStateMissing: as :meth:`stores`. :raises CommandRefused: Spark cannot read that store.
        """
        sides = []
        for at, name in ((before, "before"), (after, "after")):
            values = f.sort_array(f.collect_list(f.coalesce("value", f.lit("null")))).alias(name)
            sides.append(self._frame(at, selection).groupBy("key").agg(values))
        joined = sides[0].join(sides[1], "key", "full_outer").where(~f.col("before").eqNullSafe(f.col("after")))
        rows = []
        for row in _collected(joined.orderBy("key").limit(limit + 1)):
            change = "added" if row.before is None else "removed" if row.after is None else "changed"
            values = {"before": _values(row.before), "after": _values(row.after)}
            rows.append({"change": change, "key": json.loads(row.key), **values})
        return _taken(rows, limit)

    def _opened(self, at: StateAt) -> tuple[Path, int]:
        """The checkpoint as a folder that Spark reads, and the number of its last batch."""
        engine = query_log.decode_engine(at.engine)
        version = at.checkpoint_id - engine.base
        source = state_store_files.folder_of_state(at.folder, engine)
        gaps = list(state_store_files.missing(source / "state", version, engine.state_partitions))
        if gaps:
            shown = listed(gaps, _SHOWN, separator="; ")
            msg = f"the state of checkpoint {at.checkpoint_id} is not in {source / 'state'}: {shown}"
            raise QueryStateMissing(msg, remedy="mount the volume of the job, or read again: the job may have moved on")
        path = self._scratch / f"checkpoint-{at.checkpoint_id}"
        if not path.exists():
            query_log.rebuild(path, job_uid="reader", checkpoint_id=at.checkpoint_id, engine=engine, sources=1)
            operator_metadata.link_for_reading((source / "state").resolve(), path / "state")
        return path, version - 1

    def _frame(self, at: StateAt, selection: Selection) -> DataFrame:
        path, batch = self._opened(at)
        reader = self._spark.read.format("statestore").option("batchId", batch).option("operatorId", selection.operator)
        if selection.store in _SIDES:
            reader = reader.option("storeName", _SIDES[selection.store])
        elif selection.store == TIMERS:
            reader = reader.option("readRegisteredTimers", "true")
        elif selection.store:
            reader = reader.option("stateVarName", selection.store)
        try:
            found = reader.load(str(path))
            values = [name for name in found.columns if name not in {"key", "partition_id"}]
            if values == ["value"]:
                value = _as_json("value", found.schema["value"].dataType)
            else:
                value = f.to_json(f.struct(*values), {"ignoreNullFields": "false"})
            rows = found.where(_matches(found.schema["key"].dataType, selection))
        except (PySparkException, Py4JError) as error:
            raise _unreadable(error) from error
        key = _as_json("key", found.schema["key"].dataType)
        return rows.select(f.col("partition_id").alias("partition"), key.alias("key"), value.alias("value"))


def _as_json(name: str, kind: DataType) -> Column:
    """A column as JSON text."""
    if isinstance(kind, StructType):
        return f.to_json(name, {"ignoreNullFields": "false"})
    return f.to_json(f.struct(name), {"ignoreNullFields": "false"})


def _matches(kind: DataType, selection: Selection) -> Column:
    wanted = f.lit(True)
    if selection.partition is not None:
        wanted = wanted & (f.col("partition_id") == selection.partition)
    if selection.key:
        fields = [f.col(name).cast("string") == selection.key for name in _leaves("key", kind)]
        found = _as_json("key", kind) == _compact(selection.key)
        for each in fields:
            found = found | f.coalesce(each, f.lit(False))
        wanted = wanted & found
    return wanted


def _leaves(name: str, kind: DataType) -> Iterator[str]:
    if not isinstance(kind, StructType):
        yield name
        return
    for field in kind.fields:
        yield from _leaves(f"{name}.`{field.name}`", field.dataType)


def _compact(text: str) -> str:
    """JSON as Spark writes it; any other text as it is."""
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        return text


def _names(store: str, properties: str) -> Sequence[str]:
    """What ``--store`` may name, by Spark's name of a store and the properties of its operator."""
    if store in _SIDES.values() or store.endswith(_COUNTS):
        return [side for side, name in _SIDES.items() if name == store]
    try:
        variables = json.loads(properties or "{}").get("stateVariables") or ()
    except (ValueError, AttributeError):
        variables = ()
    named = [str(each.get("stateName", "")) for each in variables]
    own = [name for name in named if name and not name.startswith("$")]
    if named:
        return (*own, TIMERS)
    return ("",)


def _collected(frame: DataFrame) -> Sequence[Any]:
    try:
        rows: Sequence[Any] = frame.collect()
        return rows
    except (PySparkException, Py4JError) as error:
        raise _unreadable(error) from error


def _unreadable(error: PySparkException | Py4JError) -> CommandRefused:
    text = next((line for line in str(error).splitlines() if "[" in line), str(error))[:_SHOWN_CHARACTERS]
    return CommandRefused(
        f"Spark cannot read this state: {text}", remedy="list the stores of the operators: kafkaspark state read JOB"
    )


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    partition, key, value = (row[name] for name in _ROW)
    return {"partition": partition, "key": json.loads(key), "value": None if value is None else json.loads(value)}


def _values(texts: Sequence[str] | None) -> Any:
    """The values of a key: None for none, a single value as it is, several as a list."""
    if texts is None:
        return None
    values = [json.loads(text) for text in texts]
    return values[0] if len(values) == 1 else values


def _taken(rows: list[dict[str, Any]], limit: int) -> tuple[list[dict[str, Any]], bool]:
    return rows[:limit], len(rows) > limit
