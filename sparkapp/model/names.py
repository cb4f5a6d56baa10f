"""Names of everything that belongs to a job; operator and driver must agree on each.

An attempt's number is part of its pods' names, so attempts of a job cannot be confused. A node may mount an immutable
object that it knows by name from a deleted resource. So the names of such objects have the resource's UID (ADR 64).
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime

GROUP = "streaming.kafkaspark.io"
VERSION = "v1beta1"
KIND = "KafkaSparkJob"
PLURAL = "kafkasparkjobs"
SNAPSHOT_KIND = "KafkaSparkSnapshot"
SNAPSHOT_PLURAL = "kafkasparksnapshots"

LABEL_JOB = "kafkaspark.io/job"
LABEL_ATTEMPT = "kafkaspark.io/attempt"
LABEL_ROLE = "kafkaspark.io/role"
ROLE_DRIVER = "driver"
ROLE_EXECUTOR = "executor"
ANNOTATION_JOB_UID = "kafkaspark.io/job-uid"
"""On the state ConfigMap: UID of the resource that it was made for."""
ANNOTATION_TURN = "kafkaspark.io/turn"
"""On the pod of a standby driver: it starts next to the running driver, and changes nothing of the job before its
activation."""
TURN_AWAITED = "awaited"
TURN_NEXT = "next"
"""It begins as soon as the document says that the attempt before it has drained (ADR 95)."""
TURN_GIVEN = "given"
ANNOTATION_PARALLELISM = "kafkaspark.io/parallelism"
ANNOTATION_EXECUTORS = "kafkaspark.io/executors"
"""On the pod of a driver that is to change its number of subtasks in place: their number, and that of executors."""
ANNOTATION_PIN = "pin.kafkaspark.io/"
"""On the ConfigMap of the retained checkpoints: the checkpoint whose query state a snapshot keeps on the volume. The
UID of the snapshot follows."""
AWAITS_TURN_VARIABLE = "KAFKASPARK_AWAITS_TURN"
"""Set to ``true`` in the environment of a standby driver."""
TAKES_OVER_VARIABLE = "KAFKASPARK_TAKES_OVER"
"""Set to ``true`` in the environment of a standby driver that checks brokers and starts its subtasks, too."""
POD_UID_VARIABLE = "KAFKASPARK_POD_UID"
"""In the environment of a driver: the UID of its pod, which the kubelet writes there."""
MANAGED_BY = "kafkaspark-operator"

CHECKPOINT_KEY = "checkpoint.json"
"""Key of the current document in the state ConfigMap; absent until the first attempt claims the state."""
REPORT_KEY = "report.json"
PREPARED_KEY = "prepared"
"""Next to :data:`REPORT_KEY`: number of the attempt that last reported that it is prepared for its activation."""
SNAPSHOT_KEY = "snapshot.json"
"""Key of the checkpoint in the ConfigMap of a snapshot, in the form of a retained checkpoint."""
JOB_KEY = "job.json"
SPARK_CONF_KEY = "spark-conf.json"
"""Spark settings that the operator decides, next to :data:`JOB_KEY`: a JSON object of strings."""
MODULES_KEY = "modules-digest"
"""Digest of the user's modules when the attempt was started, next to :data:`JOB_KEY`; absent without modules."""
EXECUTOR_POD_TEMPLATE_KEY = "executor-pod-template.yaml"
"""Pod template of the executors, next to :data:`JOB_KEY`."""

DRIVER_CONTAINER = "driver"
METRICS_PORT = "metrics"
"""Name of the driver container's port that Prometheus reads."""
METRICS_PATH = "/metrics"
TERMINATION_LOG = "/dev/termination-log"
JOB_DIRECTORY = "/etc/kafkaspark/job"
"""Where the driver finds :data:`JOB_KEY`."""
CODE_DIRECTORY = "/etc/kafkaspark/code"
"""Where the ConfigMap of the transform's modules is mounted, in driver and executors; on the Python path."""
CREDENTIALS_DIRECTORY = "/etc/kafkaspark/credentials"
"""Where the Secrets and the token of ``spec.kafka`` are mounted, in driver and executors."""
SCHEMA_REGISTRY_DIRECTORY = "/etc/kafkaspark/schema-registry"
"""Where the schema registry's password or token and its certificates are mounted, in driver and executors."""
SINK_REGISTRY_DIRECTORY = "/etc/kafkaspark/sink-schema-registry"
"""Likewise of the sink's registry."""
SPARK_SECRET_KEY = "secret"  # noqa: S105 - a file's name
"""Key of the attempt's Secret: what driver and executors authenticate to each other with."""
SPARK_SECRET_DIRECTORY = "/etc/kafkaspark/spark"  # noqa: S105 - a path
"""Where :data:`SPARK_SECRET_KEY` is mounted, in driver and executors."""
STATE_DIRECTORY = "/var/kafkaspark/state"
"""Where ``checkpoint.stateVolume`` is mounted, in driver and executors: operators' state outlives the pods there."""
WORK_DIRECTORY = "/var/kafkaspark/work"
"""Scratch space of driver and executors, empty at each start; the working directory."""

MAX_OBJECT_NAME = 253
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_object_name(name: str) -> bool:
    """True for a DNS subdomain (RFC 1123): Kubernetes gives no other name to a namespace, a Secret or a ConfigMap."""
    return len(name) <= MAX_OBJECT_NAME and all(_LABEL.fullmatch(label) for label in name.split("."))


MAX_JOB_NAME = 45
JOB_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""The form of a job's name, for the API server and for the command line."""
JOB_NAME_TOO_LONG = f"metadata.name must have at most {MAX_JOB_NAME} characters: pods add attempt and executor to it"
JOB_NAME_MALFORMED = "metadata.name must consist of lower case letters, digits and '-', and begin with a letter"


def job_name_problem(name: str) -> str:
    """Why the API server refuses a KafkaSparkJob of the name; empty where it does not."""
    if len(name) > MAX_JOB_NAME:
        return JOB_NAME_TOO_LONG
    return "" if JOB_NAME.fullmatch(name) else JOB_NAME_MALFORMED


def state_config_map(job: str) -> str:
    """Holds the checkpoint document; created empty by the operator, written by the driver alone."""
    return f"{job}-state"


def checkpoints_config_map(job: str) -> str:
    """Holds earlier checkpoints for ``spec.restore``, a key each. Without it the job only resumes."""
    return f"{job}-checkpoints"


RETAINED_STATE = "retained"
"""Where a job's folder on the volume, or in the bucket, has the operators' state of retained checkpoints."""


def retained_state(checkpoint_id: int) -> str:
    """The same of one of them."""
    return f"{RETAINED_STATE}/checkpoint-{checkpoint_id}"


def report_config_map(job: str) -> str:
    """Holds the driver's report to the operator; advisory, and created again where it is lost."""
    return f"{job}-report"


def incarnation(uid: str) -> str:
    """The UID of a resource, short enough for names: 40 bits of its hash."""
    return hashlib.sha256(uid.encode()).hexdigest()[:10]


def attempt_config_map(job: str, uid: str, attempt: int) -> str:
    """Holds the resolved job of one attempt; immutable.

    :param uid: of the resource.
    """
    return f"{job}-{attempt}-{incarnation(uid)}-job"


def revision_config_map(job: str, digest: str) -> str:
    """Holds what attempts of the job run; immutable.

    :param digest: of the content and of the resource's UID.
    """
    return f"{job}-r{digest}"


def modules_config_map(job: str, digest: str) -> str:
    """Holds a copy of the user's modules, which pods mount; immutable. Parameters as of :func:`revision_config_map`."""
    return f"{job}-c{digest}"


def snapshot_config_map(snapshot: str, uid: str) -> str:
    """Holds the checkpoint of a KafkaSparkSnapshot; immutable, and owned by the snapshot alone.

    :param uid: of the snapshot.
    """
    return f"{snapshot}-{incarnation(uid)}-snapshot"


def periodic_snapshot(job: str, uid: str, due: datetime) -> str:
    """The KafkaSparkSnapshot that the operator makes of the job for that time, the same however often it tries.

    :param uid: of the job.
    """
    return f"{job}-{due:%Y%m%d-%H%M%S}-{incarnation(uid)}"


def upgrade_snapshot(job: str, uid: str, *, attempt: int, generation: int, revision: str) -> str:
    """The KafkaSparkSnapshot before an attempt is replaced by another revision.

    :param uid: of the job. :param attempt: that is replaced. :param generation: of the resource.
    :param revision: the new revision; with other modules it has the generation of before.
    """
    return f"{job}-upgrade-{attempt}-{incarnation(f'{uid}/{generation}/{revision}')}"


def deletion_snapshot(job: str, uid: str) -> str:
    """The KafkaSparkSnapshot of a deleted job.

    :param uid: of the job.
    """
    return f"{job}-deleted-{incarnation(uid)}"


def previous_attempt_config_map(job: str, attempt: int) -> str:
    """:func:`attempt_config_map` of an attempt that an operator before ADR 64 started; it may still run."""
    return f"{job}-{attempt}-job"


def spark_secret(job: str, uid: str, attempt: int) -> str:
    """The Secret that driver and executors of one attempt authenticate to each other with; immutable.

    :param uid: of the resource.
    """
    return f"{job}-{attempt}-{incarnation(uid)}-spark"


def service_account(job: str) -> str:
    """Identity of the driver; Role and RoleBinding carry the same name."""
    return f"{job}-driver"


def executor_service_account(job: str) -> str:
    """Identity of the executors: it has no rights, and no pod gets its token."""
    return f"{job}-executor"


def driver_pod(job: str, attempt: int) -> str:
    return f"{job}-{attempt}-driver"


def executor_pod_prefix(job: str, attempt: int) -> str:
    """Spark appends ``-exec-<n>``."""
    return f"{job}-{attempt}"


def default_group_id(namespace: str, job: str, cluster: str = "") -> str:
    """As :func:`default_transactional_id_prefix`."""
    return default_transactional_id_prefix(namespace, job, cluster)


def default_transactional_id_prefix(namespace: str, job: str, cluster: str = "") -> str:
    """Stable over delete and re-create, so that a successor fences its predecessor.

    ``namespace.name`` is unique in a Kubernetes cluster.

    :param cluster: the administrator's id of the Kubernetes cluster, where several use one Kafka; empty for none.
    """
    return ".".join(filter(None, (namespace, job, cluster)))


def labels(job: str, *, attempt: int | None = None, role: str | None = None) -> dict[str, str]:
    """Labels of an object of the job."""
    result = {
        "app.kubernetes.io/name": "kafkasparkjob",
        "app.kubernetes.io/instance": job,
        "app.kubernetes.io/managed-by": MANAGED_BY,
        LABEL_JOB: job,
    }
    if attempt is not None:
        result[LABEL_ATTEMPT] = str(attempt)
    if role is not None:
        result[LABEL_ROLE] = role
    return result
