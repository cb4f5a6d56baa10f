"""Divides query state into another number of partitions, before the first batch of an attempt (ADR 78).

Spark reads the state behind the last batch N, and writes it as that of a batch N + 1, which reads no records. That
batch is a checkpoint of its own. It is written into the attempt's own folder. Until the document names the new
checkpoint the next attempt begins with the previous state, whatever is left of the new state.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import RepartitionRefused
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spark_settings import ROCKSDB
from sparkapp.model.job.spec import Job
from sparkapp.spark.failures import original_error
from sparkapp.spark.state import query_log, state_store_files
from sparkapp.spark.state.object_store.query_folder import StoredQueryFolder
from sparkapp.spark.state.query_folder import LocalQueryFolder
from sparkapp.spark.state.rocksdb_files import Readable

StateFolder = LocalQueryFolder | StoredQueryFolder
"""Where an attempt's query may have its state."""

LOG = logging.getLogger(__name__)

_SCHEMA = b'{"type":"struct"'
"""How the schema of a store's keys begins in Spark's file; that of its values follows."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Repartition:
    """A change of the number of partitions of query state.

    :param before: the number that the document has. :param after: the number that the job asks for.
    """

    before: int
    after: int


def repartition_due(job: Job, document: CheckpointDocument, folder: StateFolder) -> Repartition | None:
    """Whether query state has another number of partitions than ``spec.checkpoint.state.partitions``.

    Called by the attempt before its engine starts.

    :param folder: of the attempt's query, with the document's version of query state.
    :raises RepartitionRefused: Spark cannot divide this state, or would lose some of it.
    :raises CheckpointCorrupt: the document's numbers contradict each other.
    """
    wanted = job.spec.wanted_state_partitions
    if not wanted or not document.engine_has_state:
        return None
    engine = query_log.restored_engine(document)
    before = engine.state_partitions
    if before == wanted:
        return None
    single = {operator.name: _is_single(operator, before) for operator in _operators(folder.state)}
    if all(single.values()):
        LOG.info("query state has one row and no key: it keeps its partition")
        return None
    asked = f"checkpoint.state.partitions asks for {wanted} partitions of query state, which has {before}"
    if engine.provider != ROCKSDB:
        msg = f"{asked}: the state's provider {engine.provider.rpartition('.')[2]} cannot be repartitioned"
        raise RepartitionRefused(msg)
    if any(single.values()):
        # Spark would move the row to the partition of an empty key's hash. The operator reads partition 0.
        operators = listed((name for name, is_single in single.items() if is_single), _SHOWN)
        msg = f"{asked}: operator {operators} keeps a single row without a key next to operators with keys"
        raise RepartitionRefused(msg)
    return Repartition(before, wanted)


def repartition(
    spark: SparkSession, job: Job, document: CheckpointDocument, folder: StateFolder, change: Repartition
) -> query_log.EngineState:
    """Writes the state's next version with the new number of partitions: reads and writes all of it.

    :param folder: of the attempt's query, which this changes.
    :returns: the engine's part of the next checkpoint.
    :raises KafkaSparkJobError: it failed, or the volume or store did. The document's state stays for the next attempt.
    """
    engine = query_log.restored_engine(document)
    batch = document.checkpoint_id - engine.base
    LOG.info("query state gets %d partitions instead of %d", change.after, change.before)
    folder.rebuild(job_uid=job.uid, checkpoint_id=document.checkpoint_id, engine=engine, sources=1)
    try:
        spark._streamingCheckpointManager.repartition(folder.uri, change.after)
    except (Py4JError, PySparkException) as error:
        raise original_error(error) from error
    made = replace(
        engine,
        metadata=folder.metadata(batch),
        previous_watermark=engine.batch_watermark,
        attempt=job.attempt,
        retained=None,
    )
    gaps = list(state_store_files.missing(folder.state, batch + 1, change.after))
    if made.state_partitions != change.after:
        gaps.append(f"Spark's log has {made.state_partitions} partitions")
    if gaps:
        shown = listed(gaps, _SHOWN, separator="; ")
        # The document's version is in another folder and is whole: the next attempt divides it again.
        msg = f"the new version {batch + 1} of query state is not whole in {folder.uri}: {shown}"
        raise folder.unusable(msg)
    folder.settle(batch + 1, change.after)
    return made


def _operators(state: Readable) -> list[Readable]:
    found: list[Readable] = [entry for entry in state.iterdir() if entry.is_dir() and entry.name.isdigit()]
    return sorted(found, key=lambda entry: entry.name)


def _is_single(operator: Readable, partitions: int) -> bool:
    """Whether the operator keeps one row without a key, as a total does: all of it is in partition 0."""
    if partitions > 1:
        return [entry.name for entry in operator.iterdir() if entry.is_dir() and entry.name.isdigit()] == ["0"]
    return any(_has_no_key(schema) for schema in _schemas(operator / "0"))


def _schemas(folder: Readable) -> Iterator[Readable]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _schemas(entry)
        elif entry.name == "schema" and folder.name == "_metadata":
            yield entry


def _has_no_key(schema: Readable) -> bool:
    """
    :param schema: Spark's file: a number for the form, then the schemas of keys and values as JSON.
    """
    _, begin, rest = schema.read_bytes().partition(_SCHEMA)
    keys, _ = json.JSONDecoder().raw_decode((begin + rest).decode(errors="replace"))
    return not keys["fields"]
