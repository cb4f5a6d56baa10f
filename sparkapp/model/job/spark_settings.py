"""Spark settings that a job may not set: the protocol decides them, or the checkpoint document does.

Transactional ids belong to subtasks: a second copy of a task fences the first (ADR 23). The driver forces the
settings, and the operator refuses them in ``spec.sparkConf``. They were chosen from all configuration entries of Spark
4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model import names
from sparkapp.model.job.sections.state_storage import S3Storage

_ALLOCATOR = "spark.kubernetes.allocation.pods.allocator"

FORCED: Mapping[str, str] = {
    # A second copy of a running task.
    "spark.speculation": "false",
    # Executors that come and go by themselves. Spark does not count a fetch failure from an executor that is being
    # decommissioned: it would submit the stage again whatever spark.stage.maxConsecutiveAttempts says (DAGScheduler).
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "false",
    "spark.storage.decommission.enabled": "false",
    "spark.excludeOnFailure.killExcludedExecutors.decommission": "false",
    "spark.stage.ignoreDecommissionFetchFailure": "false",
    # After a SIGKILL every later executor of the driver would have a place for a single task. The subtasks of the
    # continuous engine need all places at once, so the job would wait for ever; micro-batches would only be slower.
    "spark.kubernetes.allocation.recoveryMode.enabled": "false",
    # The driver may create pods and nothing that creates them, and it reads the log of this allocator.
    _ALLOCATOR: "direct",
    # Spark's default. A failed task is retried when it is gone; then the attempt ends and the next attempt decides.
    "spark.task.maxFailures": "4",
    # Workers are forks of the application's daemon and keep their Kafka clients until the executor ends.
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "sparkapp.spark.launch.worker_daemon",
    "spark.python.worker.module": "pyspark.worker",
    "spark.python.worker.reuse": "true",
    "spark.python.worker.killOnIdleTimeout": "false",
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "false",
    "spark.python.factory.idleWorkerMaxPoolSize": "2147483647",
    # Its reader thread may take the input of the reused worker's next task (pyspark/worker.py).
    "spark.python.udf.pipelined.enabled": "false",
    # An adaptive plan runs the stages of a micro-batch in sequence and may change the number of writers.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}
"""Settings of every session."""

FORCED_EXACTLY_ONCE: Mapping[str, str] = {
    # The tasks of a stage that is submitted again run next to those of the first try, under the same ids.
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.stage.maxAttempts": "1",
    # By default Spark submits a stage again whose input was recomputed with another result. Here the fetch of a lost
    # input has failed before that, and the attempt has ended.
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
}
"""Settings of sessions that write transactions."""

FORCED_CONTINUOUS: Mapping[str, str] = {
    # Spark counts the failures of a task for as long as it runs, and a subtask runs as long as its attempt. The driver
    # counts the losses of a subtask, and those of long ago no more (ADR 46).
    "spark.task.maxFailures": "2147483647",
}
"""Settings of sessions of the continuous engine; they win."""

TIME_ZONE = "spark.sql.session.timeZone"

FIXED: Mapping[str, str] = {
    # The query log is rebuilt from the document at each start, so renames need not protect it.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # RocksDB's tables are copied by this class, and by no other.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    # An attempt restores the version of query state that the document names, which may be older than the newest.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Format 2 keeps names of state files in Spark's commit log, which is rebuilt from the document.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    # The continuous engine has no session. Another zone would move the ends of partitions that a predicate finds.
    TIME_ZONE: "UTC",
}
"""Settings of every session that belong to the checkpoint document, or to both engines alike."""

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Of a new query; its log keeps the number as that of the partitions of state."""
_STATE_STORE = "spark.sql.streaming.stateStore"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = f"{_STATE_STORE}.providerClass"
"""The provider of query state. Spark's log keeps it from the first checkpoint with state on, whatever is set later."""
ROCKSDB_MEMORY = f"{_STATE_STORE}.rocksdb.maxMemoryUsageMB"
STATE_MEBIBYTES = 512
"""Memory of all state of an executor outside the Java heap. The operator adds it to the container's."""
WRITE_BUFFERS = f"{_STATE_STORE}.rocksdb.writeBufferCacheRatio"
"""The share of the memory that tables in memory may take, of all stores of an executor together."""

STATE: Mapping[str, str] = {
    # On the executor's disk, so that state may be larger than its memory.
    PROVIDER: ROCKSDB,
    # A checkpoint uploads its changes, and not all tables of the store.
    f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STATE_STORE}.rocksdb.boundedMemoryUsage": "true",
    ROCKSDB_MEMORY: str(STATE_MEBIBYTES),
    # The filter of the largest table fits into a part of the cache, next to the tables in memory (ADR 109, 110).
    f"{_STATE_STORE}.rocksdb.compression": "none",
    WRITE_BUFFERS: "0.25",
    # A lookup searches the table in memory, and a snapshot waits until it is written.
    f"{_STATE_STORE}.rocksdb.writeBufferSizeMB": "16",
    # To count the rows of its state, a store looks each key up once more before it writes it. Nobody reads the number.
    f"{_STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false",
}
"""Defaults of every session for query state, which a job may change."""

_CREDENTIALS = (
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.InstanceProfileCredentialsProvider",
)
"""Where Hadoop's client looks for credentials: the variables of the pods first. No setting has a credential."""


def store_settings(storage: S3Storage) -> dict[str, str]:
    """Settings of Hadoop's client for the bucket of query state; a job may change them by its ``sparkConf``.

    They are those of this bucket alone. A transform may read other buckets by settings of its own.
    """
    ours = {
        "endpoint.region": storage.region,
        "path.style.access": str(storage.path_style_access).lower(),
        "aws.credentials.provider": ",".join(_CREDENTIALS),
        "input.stream.type": "classic",
        # A store that is away or busy for a minute fails no task. The defaults try for a quarter of an hour.
        "connection.establish.timeout": "15s",
        "connection.timeout": "30s",
        "attempts.maximum": "3",
        "retry.limit": "5",
        "retry.throttle.limit": "10",
    }
    if storage.endpoint:
        ours["endpoint"] = storage.endpoint
    return {f"spark.hadoop.fs.s3a.bucket.{storage.bucket}.{name}": value for name, value in ours.items()}


AUTHENTICATION = "spark.authenticate"
"""Beginning of the settings that a job may not set: without authentication a port runs anybody's code."""

AUTHENTICATED: Mapping[str, str] = {
    AUTHENTICATION: "true",
    # Without a file Spark would put the secret into the executors' environment.
    "spark.authenticate.secret.file": f"{names.SPARK_SECRET_DIRECTORY}/{names.SPARK_SECRET_KEY}",
}
"""Settings of sessions with executor pods: a client of their ports must have the attempt's secret."""

ENCRYPTED: Mapping[str, str] = {
    "spark.network.crypto.enabled": "true",
    # Spark's defaults are kept for the sake of old shuffle services: version 1, and a cipher that does not detect
    # changed bytes.
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}
"""Defaults of the same sessions, which a job may change."""

REFUSED_PREFIXES = (
    "spark.speculation", "spark.dynamicAllocation.", "spark.decommission.", "spark.storage.decommission.",
    "spark.executor.decommission.", "spark.stage.", "spark.pyspark.", "spark.executorEnv.",
)  # fmt: skip
"""Families of the settings above. ``spark.executorEnv.`` would pass by the reserved names of ``executor.env``."""

REFUSED = (*FORCED, *FORCED_EXACTLY_ONCE, "spark.sql.execution.pyspark.python")


def refusal_of(name: str) -> str:
    """Why a job may not set a Spark setting; empty where it may.

    Called by the operator for each setting of ``spec.sparkConf``, and by the driver for those of an earlier operator.
    """
    if name.startswith(AUTHENTICATION):
        return "Spark's ports always authenticate, with the attempt's own secret"
    if name == _ALLOCATOR:
        return "a driver may create executors' pods, and nothing that creates them"
    if name in REFUSED or name.startswith(REFUSED_PREFIXES):
        return "Spark could run a stage or a task twice, or replace the Python workers"
    if name == TIME_ZONE:
        return "both engines have the times of records in UTC; convert them in the transform, by from_utc_timestamp"
    if name in FIXED:
        return "the checkpoint document decides the query's log and state"
    return ""
