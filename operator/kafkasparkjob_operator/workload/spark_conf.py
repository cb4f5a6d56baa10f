"""``spec.sparkConf``: Spark settings of a job, without those that the operator and the protocol decide."""

from __future__ import annotations

from collections.abc import Mapping

from kafkasparkjob_operator.workload.environment import INSTEAD_OF_A_VALUE
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.secret_names import carries_secret, names_secret
from sparkapp.model.job.spark_settings import ROCKSDB_MEMORY, STATE_MEBIBYTES, refusal_of
from sparkapp.model.job.spec import JobSpec

DENIED_SPARK_PREFIXES = (
    "spark.kubernetes.", "spark.submit.", "spark.app.", "spark.jars", "spark.files", "spark.archives",
)  # fmt: skip
DENIED_SPARK_SETTINGS = (
    "spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.driver.port",
    "spark.driver.blockManager.port", "spark.driver.memory", "spark.driver.cores", "spark.executor.instances",
    "spark.executor.cores", "spark.executor.memory", "spark.task.cpus", "spark.driver.memoryOverhead",
    "spark.driver.memoryOverheadFactor", "spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor",
)  # fmt: skip
"""Spark settings that the operator decides, or that fetch code or mount volumes."""


def checked_settings(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings, as they are.

    :raises ConfigurationError: naming a setting that a job may not have.
    """
    for name in settings:
        if not name.startswith("spark.") or name.startswith(DENIED_SPARK_PREFIXES) or name in DENIED_SPARK_SETTINGS:
            msg = f"spec.sparkConf: the operator sets {name}: use driver, executor, parallelism or another field"
            raise ConfigurationError(msg)
        reason = refusal_of(name)
        if reason:
            msg = f"spec.sparkConf: remove {name}: {reason}"
            raise ConfigurationError(msg)
        if names_secret(name) or carries_secret(settings[name]):
            msg = f"spec.sparkConf: {name} looks like a credential"
            raise ConfigurationError(msg, remedy=INSTEAD_OF_A_VALUE)
    return settings


def state_memory(spec: JobSpec, settings: Mapping[str, str]) -> int:
    """Mebibytes of an executor that RocksDB may use for query state; 0 for a job without a place for state.

    :param settings: of ``spec.sparkConf``.
    :raises ConfigurationError: the setting of the limit is no number.
    """
    if not spec.may_keep_state:
        return 0
    limit = settings.get(ROCKSDB_MEMORY, str(STATE_MEBIBYTES))
    if not limit.isdecimal():
        msg = f"spec.sparkConf: {ROCKSDB_MEMORY} must be a whole number of mebibytes, not {limit!r}"
        raise ConfigurationError(msg)
    return int(limit)
