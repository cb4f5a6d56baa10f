"""The engine in this process, on a session of the bench: what every bench that copies topics starts."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from bench.allocator import allocator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.job.client.security_properties import credentials_directory
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import ArrowTransform, OutputMode, Transform
from sparkapp.model.job.spec import Engine, Job, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.spark.driver import Driver
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.session import create_session
from sparkapp.spark.launch.settings import session_settings
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore

_NOWHERE = Path("/nowhere")


def engine_job(
    bootstrap: str,
    source: str,
    sink: str,
    *,
    delivery_guarantee: DeliveryGuarantee,
    parallelism: int,
    records_a_checkpoint: int,
    interval_millis: int = 1000,
    commit_interval_millis: int = 0,
    json_schema: str = "",
    query: str = "",
    arrow_function: str = "",
    function: str = "",
    output_mode: OutputMode = OutputMode.APPEND,
    engine: Engine = Engine.MICRO_BATCH,
    offset_commit: OffsetCommit = OffsetCommit.IN_TRANSACTION,
    sink_properties: Mapping[str, str] | None = None,
    kafka: KafkaCluster | None = None,
) -> Job:
    """A job of one topic from its start, with names that no other job has.

    :param records_a_checkpoint: with a larger backlog there is no pause between two checkpoints.
    :param json_schema: the columns of values in JSON; empty for values that stay bytes.
    :param arrow_function: a function over Arrow batches, and ``function``: over DataFrames; instead of a query.
    :param sink_properties: of the producers.
    :param query: SQL over the view ``source``; empty passes records through.
    :param kafka: of a secured broker, instead of ``bootstrap``.
    """
    name = uuid.uuid4().hex[:8]
    return Job(
        namespace="bench", name=name, uid=name, generation=1, attempt=1,
        spec=JobSpec(
            kafka=kafka or KafkaCluster(bootstrap_servers=bootstrap),
            source=Source(
                topics=(source,), group_id=name, startup=Startup(mode=StartupMode.EARLIEST),
                offset_commit=offset_commit,
                max_offsets_per_checkpoint=records_a_checkpoint,
                value_format=Format.JSON if json_schema else Format.RAW, value_schema=json_schema,
            ),
            transform=Transform(
                sql=query, function=function, arrow=ArrowTransform(function=arrow_function), output_mode=output_mode
            ),
            sink=Sink(
                topic=sink, delivery_guarantee=delivery_guarantee, transactional_id_prefix=f"bench.{name}",
                properties=sink_properties or {},
            ),
            engine=engine,
            parallelism=parallelism,
            checkpoint_interval_millis=interval_millis,
            commit_interval_millis=commit_interval_millis,
        ),
    )  # fmt: skip


def engine_session(parallelism: int, **settings: str) -> SparkSession:
    """A session with the settings of a job with transactions, in this process.

    :param settings: Spark's settings that win over the job's.
    """
    # Of the JVM and its Python workers. Spark's gateway starts with the variables of this process.
    os.environ.update(allocator())
    job = engine_job(
        "none", "none", "none", delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, parallelism=parallelism,
        records_a_checkpoint=1,
    )  # fmt: skip
    return create_session(session_settings(job, directory=_NOWHERE) | {"spark.driver.memory": "2g"} | settings)


def engine_driver(
    job: Job,
    spark: SparkSession,
    on_completed: Callable[[Completed], None],
    *,
    state: Path | None = None,
    store: MemoryStore | None = None,
) -> Driver:
    """A driver whose store is in memory, and that leaves the session open at its end.

    :param state: the folder for the state of operators; None for a job without.
    :param store: has the documents; a later attempt of the same job gets that of the earlier.
    """
    return Driver(
        job,
        DriverEnvironment(
            store=store or MemoryStore(), retained=MemoryRetainedStore(),
            write_report=lambda _: None, open_session=lambda: spark,
            close_session=lambda _: None, folder=state or Path(tempfile.mkdtemp(prefix="bench-query-")),
            stateful_allowed=state is not None, credentials=credentials_directory(), on_completed=on_completed,
        ),
    )  # fmt: skip
