"""The rules between the fields that only the operator reads."""

from __future__ import annotations

from collections.abc import Iterable

from kafkasparkjob_operator.workload.environment import FREE_NAMES, RESERVED_NAMES, RESERVED_PREFIXES
from kafkasparkjob_operator.workload.spark_conf import DENIED_SPARK_PREFIXES, DENIED_SPARK_SETTINGS
from sparkapp.model.encoding.schema import ObjectRule
from sparkapp.model.job.rules.job_rules import KEEPS_STATE
from sparkapp.model.job.rules.property_rules import is_secret, listed
from sparkapp.model.job.spark_settings import AUTHENTICATION, FIXED, REFUSED, REFUSED_PREFIXES


def begins(name: str, prefixes: Iterable[str]) -> str:
    """Whether a name begins with one of the prefixes, in CEL."""
    return " || ".join(f"{name}.startsWith('{prefix}')" for prefix in prefixes)


_CONF = ("sparkConf",)
PRIVATE_KEY = "PRIVATE KEY-----"
"""The end of a private key's first line. The operator knows more forms (``client.secret_names``)."""
_REFUSED_BY_NAME = [name for name in REFUSED if not name.startswith(REFUSED_PREFIXES)]
_FAMILY, *_FAMILIES = RESERVED_PREFIXES
_FREE = "".join(f" && e.name != '{name}'" for name in FREE_NAMES)
_IS_RESERVED = " || ".join(
    [
        f"({begins('e.name', (_FAMILY,))}{_FREE})",
        begins("e.name", _FAMILIES),
        *(f"e.name == '{name}'" for name in RESERVED_NAMES),
    ]
)
"""The first family is the operator's own, of which some names are free."""

INTERVAL_OR_SCHEDULE = "spec.snapshots needs exactly one of intervalSeconds and schedule"
ZONE_WITHOUT_SCHEDULE = "spec.snapshots.timeZone is of the schedule: intervalSeconds needs no time zone"

OPERATOR_RULES = (
    ObjectRule(
        "self.initialSeconds <= self.maxSeconds",
        "restartPolicy.backoff.initialSeconds must not exceed restartPolicy.backoff.maxSeconds",
        ("restartPolicy.backoff",),
    ),
    ObjectRule(
        "self.minParallelism <= self.maxParallelism",
        "autoscaler.minParallelism must not exceed autoscaler.maxParallelism",
        ("autoscaler",),
    ),
    ObjectRule(
        "(!has(self.snapshots) && !self.upgrade.snapshot && (!has(self.deletion) || !self.deletion.snapshot)) ||"
        " self.source.groupMembership.mode != 'Subscribe'",
        "snapshots cannot work with source.groupMembership.mode Subscribe, because the group has the offsets: remove"
        " spec.snapshots, upgrade.snapshot and deletion.snapshot",
        by_server=True,
    ),
    ObjectRule(
        "(!has(self.snapshots) && !self.upgrade.snapshot && (!has(self.deletion) || !self.deletion.snapshot)) ||"
        f" !({KEEPS_STATE}) || self.checkpoint.retention.count > 0",
        "snapshots of a job that keeps state hold a retained checkpoint: set checkpoint.retention.count to 1 or more,"
        " or remove spec.snapshots, upgrade.snapshot and deletion.snapshot",
        by_server=True,
    ),
    ObjectRule(
        "!has(self.strategy) || self.strategy != 'BlueGreen' || self.mode == 'Drain'",
        "upgrade.strategy BlueGreen needs mode Drain: the new revision takes over at the checkpoint of the drain",
        ("upgrade",),
    ),
    ObjectRule(
        "self.upgrade.strategy != 'BlueGreen' || !has(self.checkpoint.stateVolume)",
        "upgrade.strategy BlueGreen cannot work with checkpoint.stateVolume: two drivers cannot mount the volume;"
        " set upgrade.strategy: Recreate, or keep the state in a bucket (checkpoint.state.storage)",
        by_server=True,
    ),
    ObjectRule(
        "self.upgrade.mode != 'Stateless' || self.source.groupMembership.mode != 'Subscribe'",
        "upgrade.mode Stateless cannot work with source.groupMembership.mode Subscribe, whose group decides where its"
        " members begin: set upgrade.mode: Drain, and use kafka-consumer-groups.sh --reset-offsets while the job is"
        " suspended",
        by_server=True,
    ),
    ObjectRule("has(self.intervalSeconds) != has(self.schedule)", INTERVAL_OR_SCHEDULE, ("snapshots",), by_server=True),
    ObjectRule("!has(self.timeZone) || has(self.schedule)", ZONE_WITHOUT_SCHEDULE, ("snapshots",), by_server=True),
    ObjectRule(
        "!self.snapshot || self.policy != 'Orphan'",
        "deletion.snapshot needs policy Drain or Cancel: with Orphan the resource waits for nothing",
        ("deletion",),
    ),
    ObjectRule(
        "self.state != 'Delete' || self.policy != 'Orphan'",
        "deletion.state Delete needs policy Drain or Cancel: with Orphan the resource waits for nothing",
        ("deletion",),
    ),
    ObjectRule(
        "!has(self.limits) || !has(self.limits.cpu) || !isQuantity(string(self.limits.cpu)) ||"
        " !has(self.requests.cpu) || !isQuantity(string(self.requests.cpu)) ||"
        " quantity(string(self.requests.cpu)).compareTo(quantity(string(self.limits.cpu))) <= 0",
        "resources.requests.cpu must not exceed resources.limits.cpu",
        ("driver.resources", "executor.resources"),
    ),
    ObjectRule(
        "!isQuantity(string(self.requests.ephemeral__dash__storage)) ||"
        " !isQuantity(string(self.limits.ephemeral__dash__storage)) ||"
        " quantity(string(self.requests.ephemeral__dash__storage))"
        ".compareTo(quantity(string(self.limits.ephemeral__dash__storage))) <= 0",
        "resources.requests.ephemeral-storage must not exceed resources.limits.ephemeral-storage",
        ("driver.resources", "executor.resources"),
    ),
    ObjectRule(
        f"!self.exists(e, {_IS_RESERVED})",
        "the operator sets HOME, PYTHONPATH and names that begin with KAFKASPARK_, SPARK_, PYSPARK_ or"
        " KUBERNETES_: give the variable another name",
        ("driver.env", "executor.env"),
    ),
    ObjectRule(
        f"!self.exists(e, has(e.value) && {is_secret('e.name')})",
        "a variable with the name of a credential does not have its value here: put it into a Secret and use"
        " valueFrom.secretKeyRef",
        ("driver.env", "executor.env"),
    ),
    ObjectRule(
        f"!self.exists(e, has(e.value) && e.value.contains('{PRIVATE_KEY}'))",
        "a private key does not belong into a variable's value: put it into a Secret and use valueFrom.secretKeyRef",
        ("driver.env", "executor.env"),
    ),
    ObjectRule(
        "has(self.value) != has(self.valueFrom)",
        "an environment variable needs exactly one of value and valueFrom",
        ("driver.env[]", "executor.env[]"),
    ),
    ObjectRule(
        "has(self.secretKeyRef) != has(self.configMapKeyRef)",
        "valueFrom needs exactly one of secretKeyRef and configMapKeyRef",
        ("driver.env[].valueFrom", "executor.env[].valueFrom"),
    ),
    ObjectRule("self.all(k, k.startsWith('spark.'))", "names in sparkConf must begin with 'spark.'", _CONF),
    ObjectRule(
        f"!self.exists(k, {begins('k', DENIED_SPARK_PREFIXES)})",
        "spark.kubernetes.*, spark.submit.*, spark.app.*, spark.jars*, spark.files* and spark.archives* are the"
        " operator's: use the resource's fields, or put code into the image",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, {begins('k', (AUTHENTICATION,))})",
        "Spark's ports always authenticate, with the attempt's own secret: remove spark.authenticate*;"
        " spark.network.crypto.enabled: 'false' switches encryption off",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, k in {listed(DENIED_SPARK_SETTINGS)})",
        "this Spark setting is the operator's: use memory, memoryOverhead, executor.instances, executor.cores or"
        " parallelism",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, {begins('k', REFUSED_PREFIXES)})",
        "settings of speculation, dynamic allocation, decommissioning, stages and Python workers are the protocol's:"
        " remove them; set variables in executor.env instead of spark.executorEnv.*",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, k in {listed(_REFUSED_BY_NAME)})",
        "this Spark setting is the protocol's: Spark could run a stage or a task twice, or replace the Python workers;"
        " remove it",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, k in {listed(FIXED)})",
        "this Spark setting is the checkpoint's: remove it; it decides the log and the state of the query, and the time"
        " zone UTC",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, self[k].contains('{PRIVATE_KEY}'))",
        "a private key does not belong in sparkConf: use driver.env or executor.env with valueFrom.secretKeyRef",
        _CONF,
    ),
    ObjectRule(
        f"!self.exists(k, {is_secret('k')})",
        "credentials do not belong in sparkConf: use driver.env or executor.env with valueFrom.secretKeyRef",
        _CONF,
    ),
)
