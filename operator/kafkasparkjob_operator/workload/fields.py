"""The fields of ``spec`` that only the operator reads: the image, the pods, and the reaction to failures and requests.

They describe themselves as those of :mod:`sparkapp.model.job.spec` do (``sparkapp.model.encoding.schema``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from kafkasparkjob_operator.workload.autoscaler_fields import Autoscaler
from kafkasparkjob_operator.workload.cron import CRON_RULE, ZONE_RULE
from kafkasparkjob_operator.workload.pod_fields import ExecutorFields, PodFields
from sparkapp.model.encoding.schema import Described, ObjectDefault, at, entries_of, items_of, part, text_of
from sparkapp.model.job.forms import OBJECT


class PullPolicy(StrEnum):
    """The kubelet's, as a pod writes it."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class SuccessorPolicy(StrEnum):
    """``spec.restartPolicy.successor``: when the next attempt's pods are made."""

    AFTER_STOP = "AfterStop"
    """When every pod of the previous attempt is gone."""
    BEFORE_STOP = "BeforeStop"
    """Before a running attempt is stopped for a change of the resource."""
    STANDBY = "Standby"
    """As BeforeStop, and a standby driver is always ready for an attempt that fails."""


@part
class RestartPolicy:
    """The reaction to a failure or a change."""

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "backoff": Described("Delay before a restart. It grows with each consecutive failure.", ObjectDefault.SPELLED)
    }

    initial_seconds: int = at(
        "Delay after the first failure, in seconds. Up to a quarter of each delay is left out, so that"
        " jobs do not restart in step. After three restarts, attempts start at least 10 s after each"
        " other.",
        default=1,
        low=0,
        high=86400,
        path="backoff.initialSeconds",
    )
    max_seconds: int = at("Longest delay, in seconds.", default=300, low=1, high=86400, path="backoff.maxSeconds")
    multiplier: int = at(
        "Factor by which the delay grows from a failure to the next.",
        default=2,
        low=1,
        high=10,
        path="backoff.multiplier",
    )
    max_consecutive_failures: int = at(
        "Number of consecutive failures after which the job stays Failed. 0 is no limit, except 6"
        " for exceptions of the transform.",
        default=0,
        low=0,
        high=10000,
    )
    reset_after_seconds: int = at(
        "Age of an attempt, in seconds, at which the count of consecutive failures starts again at 0.",
        default=600,
        low=1,
        high=604800,
    )
    successor: SuccessorPolicy = at(
        "Start of the next attempt's pods. AfterStop creates them when the previous attempt's pods"
        " are gone. BeforeStop creates them for a change of the resource while the previous attempt"
        " still runs. That shortens the pause to seconds and needs room for both attempts. Standby"
        " also keeps a standby driver with executors ready for a failure, which needs the room of a"
        " second job. Jobs with checkpoint.stateVolume always use AfterStop.",
        default=SuccessorPolicy.AFTER_STOP,
    )


class UpgradeStrategy(StrEnum):
    """``spec.upgrade.strategy``: the order of the old and the new revision."""

    RECREATE = "Recreate"
    """The attempt stops as ``restartPolicy.successor`` says."""
    BLUE_GREEN = "BlueGreen"
    """The new revision prepares next to the old, takes over at a checkpoint, and the job goes back where it fails."""


class PrepareFallback(StrEnum):
    """``spec.upgrade.prepareFallback``: what follows where a new revision is not prepared in time."""

    ABORT = "Abort"
    """The change is refused, and the attempt continues."""
    RECREATE = "Recreate"
    """The attempt stops first, as with the other strategy."""


class UpgradeMode(StrEnum):
    """``spec.upgrade.mode``: how an attempt is stopped for a change of the resource."""

    DRAIN = "Drain"
    """It completes its checkpoint and leaves no transaction open."""
    LAST_CHECKPOINT = "LastCheckpoint"
    """At once. The next attempt settles its transactions, and resumes at the last checkpoint."""
    STATELESS = "Stateless"
    """As Drain. A new revision begins as a new job does, without the checkpoint."""


class DrainFallback(StrEnum):
    """``spec.upgrade.drainFallback``: what follows a drain that does not end in time."""

    LAST_CHECKPOINT = "LastCheckpoint"
    """The change takes place: the next attempt resumes at the last checkpoint."""
    ABORT = "Abort"
    """Another revision is refused: the next attempt has the revision of before."""


class RollbackPolicy(StrEnum):
    """``spec.upgrade.rollback``."""

    AUTO = "Auto"
    NEVER = "Never"


@part
class UpgradePolicy:
    """The change from a revision of the job to another."""

    strategy: UpgradeStrategy = at(
        "Order of the two revisions. Recreate stops the attempt as restartPolicy.successor says. BlueGreen prepares a"
        " driver of the new revision while the attempt works. The attempt then drains, and the driver takes over at its"
        " last checkpoint. Where the new revision fails before it is stable, the job goes back to"
        " status.stable.revision, whatever rollback says. BlueGreen needs the room of a second job during the change.",
        default=UpgradeStrategy.RECREATE,
    )
    prepare_timeout_seconds: int = at(
        "Longest time, in seconds, for which BlueGreen waits until the driver of the new revision is prepared. It"
        " includes the wait for a node.",
        default=300,
        low=10,
        high=86400,
    )
    prepare_fallback: PrepareFallback = at(
        "Reaction of BlueGreen to a driver that is not prepared in time, or that a quota refuses. Abort refuses the"
        " change, and the attempt continues. Recreate stops the attempt first. A driver that fails refuses the change"
        " in both cases.",
        default=PrepareFallback.ABORT,
    )
    mode: UpgradeMode = at(
        "Stop of the running attempt, and begin of the next. Drain completes its checkpoint first. LastCheckpoint stops"
        " it within seconds, and the next attempt settles its transactions. Stateless drains, and a new revision begins"
        " as a new job does: at startFrom or source.startup, without the checkpoint and without state of operators. A"
        " restart, a rescale and a rollback resume at the checkpoint in each mode. Stateless cannot work with"
        " source.groupMembership.mode Subscribe.",
        default=UpgradeMode.DRAIN,
    )
    drain_timeout_seconds: int | None = at(
        "Longest time for the drain, in seconds. Without it the grace period of the driver's pod counts.",
        default=None,
        low=1,
        high=3600,
    )
    drain_fallback: DrainFallback = at(
        "Reaction to a drain that has not ended in time. LastCheckpoint makes the change all the same. Abort refuses"
        " another revision, and the next attempt has the revision of before. A restart and a rescale take place in both"
        " cases: they have the same revision, and the attempt has ended.",
        default=DrainFallback.LAST_CHECKPOINT,
    )
    progress_deadline_seconds: int = at(
        "Time in which a new revision becomes stable, in seconds, from the start of its first attempt.",
        default=600,
        low=30,
        high=86400,
    )
    rollback: RollbackPolicy = at(
        "Reaction to a new revision that fails before it is stable. Auto goes back to status.stable.revision, once."
        " Failures of Kafka, quotas and nodes are no reason.",
        default=RollbackPolicy.NEVER,
    )
    snapshot: bool = at(
        "Snapshot before a new revision replaces an attempt that runs. The attempt continues until the snapshot is"
        " Ready. A change whose snapshot fails is refused.",
        default=False,
    )
    stable_after_seconds: int = at(
        "Time for which a revision runs, in seconds, before it is stable. It has also completed a checkpoint, or has"
        " nothing to read.",
        default=60,
        low=0,
        high=86400,
    )

    @property
    def is_blue_green(self) -> bool:
        """Whether the new revision prepares next to the old, and the job goes back where it fails."""
        return self.strategy is UpgradeStrategy.BLUE_GREEN

    @property
    def goes_back(self) -> bool:
        """Whether the job goes back to its stable revision by itself."""
        return self.is_blue_green or self.rollback is RollbackPolicy.AUTO


class DeletionPolicy(StrEnum):
    """``spec.deletion.policy``: what becomes of the driver and the transactions of a deleted job."""

    DRAIN = "Drain"
    """The driver stops at a checkpoint, in its grace period."""
    CANCEL = "Cancel"
    """It stops within seconds. Another attempt settles what is open then."""
    ORPHAN = "Orphan"
    """The resource waits for nothing."""


class StateOnDelete(StrEnum):
    """``spec.deletion.state``: what becomes of a deleted job's folder on the volume."""

    RETAIN = "Retain"
    """It stays, until a person removes it."""
    DELETE = "Delete"
    """One more attempt removes it, but what snapshots keep."""


@part
class Deletion:
    """The deletion of a job with ExactlyOnce."""

    policy: DeletionPolicy = at(
        "Stop of the driver. Drain completes a checkpoint. Cancel gives the driver 5 s. Where the driver has not ended"
        " in order, one more attempt commits what the last checkpoint names and aborts all else. Orphan waits for"
        " nothing: open transactions end by their time-out, or by a person.",
        default=DeletionPolicy.DRAIN,
    )
    deadline_seconds: int = at(
        "Longest time, in seconds, for which the resource waits until no transaction of the job is open. Then it is"
        " deleted in any case. operator.deletionSeconds of the chart limits it.",
        default=300,
        low=1,
        high=86400,
    )
    snapshot: bool = at(
        "Snapshot of the last checkpoint, when the driver has stopped and no transaction is open. It outlives the job."
        " Where it cannot be made by the deadline, the job is deleted without it. Also for a job with another"
        " deliveryGuarantee.",
        default=False,
    )
    state: StateOnDelete = at(
        "Query state of the job, on checkpoint.stateVolume or in checkpoint.state.storage. Retain keeps its folder."
        " Delete removes it by one more attempt, when no transaction is open. State that a snapshot keeps stays. Where"
        " it cannot be removed by the deadline, the job is deleted without that. Also for a job with another"
        " deliveryGuarantee.",
        default=StateOnDelete.RETAIN,
    )


class SnapshotsOnDelete(StrEnum):
    """``spec.snapshots.onDelete``: what becomes of periodic snapshots when the job is deleted."""

    RETAIN = "Retain"
    """They stay, as those that a person makes."""
    DELETE = "Delete"
    """The job owns them: Kubernetes deletes them with it."""


@part
class SnapshotPolicy:
    """Snapshots that the operator makes."""

    interval_seconds: int | None = at(
        "Time between two snapshots, in seconds. None is made while the job has no later checkpoint than the last."
        " Exactly one of intervalSeconds and schedule.",
        default=None,
        low=60,
        high=31536000,
    )
    schedule: str = at(
        "Times of the snapshots as a cron expression, as in a CronJob: minute, hour, day of the month, month, day of"
        " the week. @hourly, @daily, @weekly, @monthly and @yearly stand for such times. Of several missed times the"
        " last has a snapshot.",
        default="",
        form=text_of(1, 100, CRON_RULE),
    )
    time_zone: str = at(
        "Time zone of the schedule, as a name of the IANA database. By default UTC.",
        default="",
        form=text_of(1, 64, ZONE_RULE),
    )
    starting_deadline_seconds: int | None = at(
        "Time after which a missed snapshot is not made any more, in seconds. Without the field it is made when the"
        " operator can.",
        default=None,
        low=10,
        high=31536000,
    )
    count: int = at(
        "Number of periodic snapshots to keep: the newest that are Ready. Those that a spec names stay in addition.",
        default=7,
        low=1,
        high=100,
    )
    max_age_seconds: int | None = at(
        "Age at which a periodic snapshot is deleted, in seconds. The newest stays at any age. Without the field the"
        " count alone decides.",
        default=None,
        low=60,
        high=315360000,
    )
    on_delete: SnapshotsOnDelete = at(
        "Periodic snapshots of a deleted job. Retain keeps them. With Delete the job owns those that are made from then"
        " on, and they are deleted with it.",
        default=SnapshotsOnDelete.RETAIN,
    )


@part
class SecretReference:
    """An entry of ``imagePullSecrets``."""

    name: str = at("Name of the Secret.", form=OBJECT)


@part
class OperatorSpec:
    """``spec`` without the fields of :class:`sparkapp.model.job.spec.JobSpec`."""

    image: str = at(
        "Image of driver and executors: the sparkapp image of the operator's release, or an image"
        " that is built on it. By default the operator's default job image when the attempt starts.",
        default="",
        form=text_of(1, 512),
    )
    image_pull_policy: PullPolicy = at(
        "Pull policy of the image, as in a pod. Always pulls at each start of a pod, IfNotPresent"
        " only where the node has no copy, Never not at all.",
        default=PullPolicy.IF_NOT_PRESENT,
    )
    image_pull_secrets: tuple[SecretReference, ...] = at(
        "Secrets in the job's namespace with the credentials of the image's registry.",
        default=(),
        form=items_of(0, 8, keys=("name",)),
    )
    suspend: bool = at(
        "Request to stop. True drains the job at a checkpoint and keeps it stopped. False resumes it"
        " at that checkpoint.",
        default=False,
    )
    restart_nonce: int = at(
        "Request to restart. Each new value drains the job at a checkpoint and starts it again, also"
        " from state Failed.",
        default=0,
        is_long=True,
    )
    restart_policy: RestartPolicy = at(
        "Restarts after a failure of the driver. A failure that a restart cannot solve is not retried.",
        default_factory=RestartPolicy,
    )
    upgrade: UpgradePolicy = at(
        "Changes of the resource: how an attempt is stopped for them, and when they are taken back.",
        default_factory=UpgradePolicy,
    )
    deletion: Deletion | None = at(
        "Deletion in order, of a job with ExactlyOnce, with a snapshot, or with state to remove. A finalizer"
        " holds the deleted resource until no transaction of the job is open. Without the field that holds with"
        " sink.transactions.timeoutSeconds 0 alone, by Drain and operator.deletionSeconds of the chart. It needs"
        " watchNamespaceSelector of the chart.",
        default=None,
    )
    ttl_seconds_after_finished: int | None = at(
        "Time after which the operator deletes a Finished job, in seconds, as of a Job of Kubernetes. 0 deletes it at"
        " once. Without the field a Finished job stays. A Failed or Suspended job is never deleted.",
        default=None,
        low=0,
        high=31536000,
    )
    snapshots: SnapshotPolicy | None = at(
        "Periodic snapshots of the job, as KafkaSparkSnapshots. Not with source.groupMembership.mode Subscribe.",
        default=None,
    )
    autoscaler: Autoscaler | None = at(
        "Parallelism that follows the load. spec.parallelism is then the parallelism of the first start. A later change"
        " of spec.parallelism is carried out, and the autoscaler continues from there.",
        default=None,
    )
    driver: PodFields = at("Pod of the driver.", default_factory=PodFields)
    executor: ExecutorFields = at("Pods of the executors.", default_factory=ExecutorFields)
    spark_conf: Mapping[str, str] = at(
        "Additional Spark settings, for instance spark.sql.shuffle.partitions.",
        default_factory=dict,
        form=entries_of(128),
        each=text_of(0, 4096),
    )
