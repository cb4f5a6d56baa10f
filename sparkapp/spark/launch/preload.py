"""Prepares Spark's Python processes once, in the process that they are forked from: modules, and a job's Secrets.

The imports start no Python thread and open no connection, so a fork afterwards is safe.

**Pandas** takes 1.5 s of CPU, as much as the rest of PySpark and pyarrow. A job without a Python function does not use
it. But pyarrow imports it for the first value that it makes of a list or a number, to recognise pandas' types. So in
workers of such a job the import of pandas fails.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder

from sparkapp.clients.security.mounted import held_security
from sparkapp.model.encoding.json_parts import decode_part, encode_part
from sparkapp.model.errors import CredentialsUnusable
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink_format import SinkEncoding
from sparkapp.model.job.spec import JobSpec

WORKERS = (
    "pyarrow",
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.plan_data_source_read",
    "confluent_kafka",
    "sparkapp.spark.tasks.data_source",
    "sparkapp.spark.tasks.worker_clients",
    "sparkapp.spark.frames.record_policy",
    "sparkapp.spark.frames.formats.registry_format",
    "sparkapp.spark.tasks.write_task",
)
PLANNERS = (
    "pyarrow",
    "encodings.idna",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker_message",
    "sparkapp.spark.tasks.data_source",
    "unicodedata",
)
"""Modules of Spark's planner processes; the driver imports most of them, too."""
VARIABLE = "KAFKASPARK_PRELOAD"
"""Names the modules that only this job's workers need; the settings of a session set it."""
KAFKA_VARIABLE = "KAFKASPARK_KAFKA"
"""Has the job's clusters with Secrets, which workers hold as they are mounted; the settings of a session set it."""
_PANDAS = "pandas"
_PARSERS = "sparkapp.source.formats"
"""The package with the parsers of registered formats; each module has its format's name."""
_ENCODERS = {
    kind: f"sparkapp.formats.encoders.{module}_plan"
    for kind, module in (
        (SinkEncoding.AVRO, "avro"),
        (SinkEncoding.PROTOBUF, "protobuf"),
        (SinkEncoding.JSON_SCHEMA, "json_schema"),
    )
}
"""The modules of the sink's registered formats."""


def variables_of(spec: JobSpec) -> dict[str, str]:
    """Variables for the worker daemon of a job; empty for a job without special needs."""
    secured = [each for each in spec.clusters if each.tls is not None or each.authentication is not None]
    clusters = json.dumps([encode_part(each) for each in secured]) if secured else ""
    values = {VARIABLE: _wanted_by(spec), KAFKA_VARIABLE: clusters}
    return {name: value for name, value in values.items() if value}


def _wanted_by(spec: JobSpec) -> str:
    source = spec.source
    chosen = (source.key_format, source.value_format)
    wanted = {f"{_PARSERS}.{kind}" for kind in chosen if kind.traits.registered}
    sink = spec.sink.format
    if sink is not None:
        wanted |= {_ENCODERS[kind] for kind in (sink.key, sink.value) if kind.is_registered}
    if spec.transform.function or spec.transform.arrow.name:
        wanted.add(_PANDAS)
    return " ".join(sorted(wanted))


def preload_workers() -> None:
    """Imports the modules of the job's workers, and reads its Secrets; called by the worker daemon before it forks.

    Secrets that cannot be used are the first task's to refuse: a daemon that fails has no message.
    """
    wanted = os.environ.get(VARIABLE, "").split()
    if _PANDAS not in wanted:
        sys.meta_path.insert(0, _NoPandas())
    _preload((*WORKERS, *wanted))
    importlib.import_module("pyarrow").scalar(0)  # imports pandas or fails to, once for all forks
    for cluster in json.loads(os.environ.get(KAFKA_VARIABLE) or "[]"):
        with suppress(CredentialsUnusable):
            held_security(decode_part(KafkaCluster, cluster, ""))
    _settle()


def preload_planners() -> None:
    """Imports the modules of the planner processes; called by the fork server before it forks."""
    _preload(PLANNERS)
    _settle()


def _preload(modules: Iterable[str]) -> None:
    for name in modules:
        importlib.import_module(name)


def _settle() -> None:
    """Keeps the garbage collector from touching, and so copying, the memory that all forks share."""
    gc.collect()
    gc.freeze()


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:
        if fullname == _PANDAS:
            msg = "pandas is not imported in workers of a job without a Python function"
            raise ModuleNotFoundError(msg, name=fullname)
