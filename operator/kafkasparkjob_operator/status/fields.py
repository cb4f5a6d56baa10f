"""The fields of ``status``, as the CustomResourceDefinition describes them (``sparkapp.model.encoding.schema``).

The operator writes a status by :mod:`kafkasparkjob_operator.status.status`. The API server drops other fields.
"""

from __future__ import annotations

from kafkasparkjob_operator.status.conditions import ConditionStatus
from sparkapp.model.encoding.schema import at, items_of, part, text_of

_TIME = {"format": "date-time"}
_BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}


@part
class Condition:
    """An entry of ``status.conditions``, as ``metav1.Condition``."""

    type: str = at("Name of the condition.", form=text_of(0, 316))
    status: ConditionStatus = at("Value of the condition: True, False or Unknown.")
    last_transition_time: str = at("Time of the last change of status.", form=_TIME)
    reason: str = at("Reason of the value, in CamelCase.", form=text_of(1, 1024))
    message: str = at("Cause of the value and the remedy.", form=text_of(0, 32768))
    observed_generation: int | None = at(
        "Generation of the resource that the condition describes.", default=None, low=0, is_long=True
    )


@part
class Attempt:
    """``status.attempt``."""

    id: int | None = at("Number of the attempt. It only grows.", default=None, is_long=True)
    generation: int | None = at("Generation of the resource that the attempt runs.", default=None, is_long=True)
    started_at: str | None = at("Time at which the operator created the driver.", default=None, form=_TIME)
    start_reason: str | None = at(
        "Reason of the start: Created, Rescaled, SpecChanged, Resumed, Restarted, RolledBack or Deleted. Deleted"
        " settles the transactions of a deleted job.",
        default=None,
    )
    stop_reason: str | None = at(
        "Reason for which the operator stopped the attempt: Suspend, Rescale, SpecChange, Rollback,"
        " Delete, HeartbeatTimeout or NoProgress.",
        default=None,
    )
    outcome: str | None = at("End of the attempt: Drained, Finished, Failed, Killed or Missing.", default=None)
    code_digest: str | None = at(
        "Digest of the modules in the configMapRef of spec.transform at the start.", default=None
    )
    revision: str | None = at(
        "Name of the ConfigMap with the revision that the attempt runs: its spec, image and copy of the modules.",
        default=None,
    )
    driver_pod: str | None = at("Name of the driver's pod.", default=None)
    driver_pod_uid: str | None = at("UID of the driver's pod.", default=None, path="driverPodUID")
    running_since: str | None = at(
        "Time at which the operator first saw the driver complete checkpoints.", default=None, form=_TIME
    )


@part
class Target:
    """``status.target``."""

    revision: str | None = at(
        "Name of the ConfigMap of the wanted revision. It exists when an attempt has it.", default=None
    )
    parallelism: int | None = at("Wanted parallelism.", default=None)
    cause: str | None = at(
        "Cause of the last change of the target: Created, SpecChanged, CodeChanged, Rescaled, Autoscaled, Restarted,"
        " Suspended, Resumed, Refused, RolledBack or Deleted.",
        default=None,
    )
    since: str | None = at("Time of the last change of the target.", default=None, form=_TIME)
    deadline: str | None = at(
        "Time until which the revision has to be stable (spec.upgrade.progressDeadlineSeconds).",
        default=None,
        form=_TIME,
    )


@part
class CurrentPhase:
    """``status.phase``."""

    name: str | None = at(
        "Phase of the job: Pending, Preparing, Stopping, Waiting, Scheduling, Starting, Recovering, Running,"
        " Rescaling, BackingOff, Suspended, Failed, Finished or Deleting.",
        default=None,
    )
    since: str | None = at("Time at which the phase began.", default=None, form=_TIME)
    deadline: str | None = at(
        "Time at which the operator acts, if nothing has ended the phase. Absent where a time without progress of the"
        " driver, or an event from outside limits the phase.",
        default=None,
        form=_TIME,
    )
    awaits: str | None = at(
        "Who ends the phase where all goes well: Operator, Driver, Kubernetes or Person.", default=None
    )


@part
class LastFailure:
    """``status.lastFailure``."""

    attempt: int | None = at("Number of the attempt.", default=None, is_long=True)
    generation: int | None = at("Generation of the resource at that time.", default=None, is_long=True)
    time: str | None = at("Time at which the operator saw the failure.", default=None, form=_TIME)
    reason: str | None = at(
        "Reason of the failure in CamelCase, for instance AuthenticationFailed or OOMKilled.", default=None
    )
    message: str | None = at("Failure and its cause.", default=None)
    remedy: str | None = at("Action that solves it.", default=None)
    fatal: bool | None = at(
        "True where a restart cannot solve the failure until spec changes, for instance spec.restartNonce.",
        default=None,
    )
    state_digest: str | None = at(
        "Digest of the state ConfigMap that the attempt failed with. Only failures of the state have it.", default=None
    )
    log: str | None = at(
        "End of the driver's log, or the traceback of the user's function. At most 4 KiB.", default=None
    )


@part
class Refused:
    """``status.refused``."""

    revision: str | None = at("Name of the refused revision's ConfigMap.", default=None)
    generation: int | None = at("Generation of the resource that is refused.", default=None, is_long=True)
    time: str | None = at("Time of the refusal.", default=None, form=_TIME)
    reason: str | None = at("Reason of the failure in CamelCase, for instance ErrImagePull.", default=None)
    message: str | None = at("Failure, its cause and the remedy.", default=None)
    code: str | None = at("Digest of the transform's modules that failed.", default=None)
    back_to: str | None = at(
        "Name of the revision that the job has gone back to. The refused revision is tried again with other modules,"
        " another spec.restartNonce or another spec.upgrade only.",
        default=None,
    )
    request: str | None = at(
        "Digest of what asked for it at that time: spec.restartNonce and spec.upgrade. Without backTo also the"
        " revision, spec.restore.nonce and spec.restartPolicy.successor, and the parallelism of a refused rescale.",
        default=None,
    )
    restart_nonce: int | None = at(
        "Value of spec.restartNonce at that time. It decides where request is missing.", default=None, is_long=True
    )
    standing: bool | None = at("True for the present resource. Earlier refusals are history.", default=None)


@part
class Stable:
    """``status.stable``."""

    revision: str | None = at("Name of the ConfigMap of the last revision that has become stable.", default=None)
    generation: int | None = at("Generation of the resource that had it.", default=None, is_long=True)
    checkpoint: int | None = at(
        "Checkpoint at which the revision became stable, or at which another revision has followed it.",
        default=None,
        is_long=True,
    )
    since: str | None = at("Time at which the revision became stable.", default=None, form=_TIME)
    restore_nonce: int | None = at("Value of spec.restore.nonce at that time.", default=None, is_long=True)
    document_fields: tuple[str, ...] | None = at(
        "Fields of the checkpoint documents that the revision has written.", default=None, form=items_of(0, 64)
    )


@part
class Restarts:
    """``status.restarts``."""

    total: int | None = at(
        "Number of attempts that replaced an attempt that ended without a request.", default=None, is_long=True
    )
    consecutive_failures: int | None = at("Number of consecutive failures.", default=None, is_long=True)
    last_reason: str | None = at("Reason of the last restart.", default=None)
    next_retry_time: str | None = at("Time of the next attempt's start.", default=None, form=_TIME)


@part
class EngineChoice:
    """``status.engine``."""

    name: str | None = at("Name of the engine: MicroBatch or Continuous.", default=None)
    message: str | None = at("Cause of the choice.", default=None)


@part
class Executors:
    """``status.executors``."""

    desired: int | None = at("Number of executors that the attempt requests.", default=None)
    running: int | None = at("Number of executors that run.", default=None)
    failed: int | None = at("Number of executors of the attempt that failed.", default=None)


@part
class LastCheckpoint:
    """``status.checkpoint``."""

    id: int | None = at("Number of the checkpoint.", default=None, is_long=True)
    time: str | None = at("Time of its completion.", default=None)
    duration_millis: int | None = at(
        "Duration of the checkpoint, in milliseconds. With checkpoint.commitIntervalMillis the time"
        " whose commits it records.",
        default=None,
        is_long=True,
    )
    bytes: int | None = at("Size of its document in the state ConfigMap, in bytes.", default=None, is_long=True)


@part
class Reading:
    """``status.source``."""

    partitions: int | None = at("Number of known partitions.", default=None, is_long=True)
    lag_records: int | None = at(
        "Number of records that are not yet read, measured within the last 30 s. Absent where it is unknown.",
        default=None,
        is_long=True,
    )
    records_in: int | None = at("Number of records read since the job's first start.", default=None, is_long=True)
    records_per_second: int | None = at(
        "Records read per second, between the last two checkpoints. Absent while no driver runs.",
        default=None,
        is_long=True,
    )
    commits_succeeded: int | None = at(
        "Number of successful offset commits of the current attempt, in transactions or after checkpoints.",
        default=None,
        is_long=True,
    )
    commits_failed: int | None = at(
        "Number of failed offset commits of the current attempt. The job continues, and the next"
        " commit includes their offsets.",
        default=None,
        is_long=True,
    )
    records_skipped: int | None = at(
        "Number of records that did not parse and were skipped.", default=None, is_long=True
    )


@part
class Writing:
    """``status.sink``."""

    records_out: int | None = at("Number of records written since the job's first start.", default=None, is_long=True)
    records_dead_lettered: int | None = at(
        "Number of records that did not parse and were written to deadLetter.topic.", default=None, is_long=True
    )
    records_per_second: int | None = at(
        "Records written per second, between the last two checkpoints. Absent while no driver runs.",
        default=None,
        is_long=True,
    )


@part
class Transactions:
    """``status.transactions``."""

    prefix: str | None = at("Prefix of the transactional ids.", default=None)
    open: int | None = at(
        "Number of open transactions at the driver's last check, every 10 s. Absent where it is unknown.",
        default=None,
        is_long=True,
    )
    oldest_open_time: str | None = at(
        "Start of the oldest open transaction in RFC 3339, by its broker's clock. Absent where none"
        " is open or it is unknown.",
        default=None,
    )
    committed: int | None = at(
        "Number of transactions committed since the job's first start.", default=None, is_long=True
    )
    aborted: int | None = at("Number of transactions aborted since the job's first start.", default=None, is_long=True)


@part
class Scaling:
    """``status.autoscaler``."""

    reason: str | None = at(
        "Finding in CamelCase: Balanced, Stabilizing, ScaledUp, ScaledDown, Rescaling, WaitsToShrink, AtMaximum,"
        " HotPartition, NoRoom, Refused, Ineffective, NotReading, RateLimited, ExcludedPeriod or LoadUnknown.",
        default=None,
    )
    message: str | None = at("Numbers behind the finding, of the moment when it began.", default=None)
    recommended: int | None = at("Parallelism that the load asks for.", default=None)
    parallelism: int | None = at("Parallelism of the last decision. Absent before the first.", default=None)
    since: str | None = at("Time of the last decision.", default=None, form=_TIME)
    effective_since: str | None = at("Time at which the operator saw its effect.", default=None, form=_TIME)
    spec_parallelism: int | None = at(
        "spec.parallelism at the last decision. Another number there ends the decision.", default=None
    )
    from_parallelism: int | None = at("Parallelism before the last decision.", default=None)
    rescale_seconds: int | None = at("Time from a decision to its effect, in seconds, as last measured.", default=None)
    records_per_second_of_subtask: int | None = at(
        "Records that a subtask could read per second, at the last decision.", default=None, is_long=True
    )
    more_wanted_since: str | None = at(
        "Time since which more subtasks are needed without a break.", default=None, form=_TIME
    )
    less_wanted_since: str | None = at(
        "Time since which fewer subtasks are enough without a break.", default=None, form=_TIME
    )
    less_wanted: int | None = at("Largest parallelism that was needed since then.", default=None)
    no_room_parallelism: int | None = at("Smallest parallelism that has found no room.", default=None)
    no_room_since: str | None = at("Time at which that was known.", default=None, form=_TIME)


@part
class PeriodicSnapshots:
    """``status.snapshots``."""

    due_time: str | None = at("Time for which the last periodic snapshot was asked for.", default=None, form=_TIME)
    name: str | None = at("Name of that snapshot.", default=None)
    state: str | None = at("Its state: Pending, Ready or Failed. Refused where it could not be created.", default=None)
    message: str | None = at("Cause of Failed and Refused.", default=None)
    retry_time: str | None = at("Time of the next try after a refusal.", default=None, form=_TIME)
    ready: str | None = at("Name of the newest periodic snapshot that is Ready.", default=None)
    checkpoint: int | None = at("Number of the checkpoint that it holds.", default=None, is_long=True)
    count: int | None = at("Number of periodic snapshots that are Ready.", default=None)


@part
class JobStatus:
    """``status``. The operator writes it as an object, and a person reads these descriptions."""

    observed_generation: int | None = at(
        "Generation of the resource that this status describes.", default=None, is_long=True
    )
    spec_digest: str | None = at(
        "Digest of spec without autoscaler, deletion, parallelism, snapshots, ttlSecondsAfterFinished and upgrade at"
        " observedGeneration. A change of these alone starts no Failed or Finished job.",
        default=None,
    )
    state: str | None = at(
        "State of the job: Pending, Starting, Running, Restarting, Rescaling, Suspending, Suspended,"
        " Failed, Finished or Deleting.",
        default=None,
    )
    reason: str | None = at("Reason of the state, in CamelCase.", default=None)
    reason_since: str | None = at("Time since which the job has this reason.", default=None, form=_TIME)
    message: str | None = at("Cause of the state and the remedy, in one line.", default=None)
    conditions: tuple[Condition, ...] | None = at(
        "Conditions: Ready, Reconciling, Stalled, ConfigValid, KafkaReachable, TransactionsHealthy,"
        " TransactionsDurable, StateValid, CheckpointHealthy and ExecutorsAvailable. Reconciling and"
        " Stalled follow kstatus: True is abnormal. A bounded job also has Finished, a job of a"
        " paused operator ReconciliationPaused, and a job with"
        " onRecordError Skip or DeadLetter RecordsHealthy. A job in deletion with"
        " sink.transactions.timeoutSeconds 0 has Settled.",
        default=None,
        form=_BY_TYPE,
    )
    phase: CurrentPhase | None = at("Phase of the job, with its beginning and its end.", default=None)
    target: Target | None = at("State of the job that the operator works towards.", default=None)
    attempt: Attempt | None = at("Current attempt, or the last attempt of a stopped job.", default=None)
    last_failure: LastFailure | None = at(
        "End of the last attempt that failed, from its own report or the kubelet's.", default=None
    )
    refused: tuple[Refused, ...] | None = at(
        "Last five changes of the resource that were refused, the newest last. The standing refusal is that of the"
        " present resource: the previous revision runs.",
        default=None,
        form=items_of(0, 5),
    )
    stable: Stable | None = at("Last revision of the job that has become stable.", default=None)
    snapshots: PeriodicSnapshots | None = at("Snapshots of spec.snapshots.", default=None)
    restarts: Restarts | None = at("Restarts since the job was created.", default=None)
    engine: EngineChoice | None = at("Engine of the current attempt.", default=None)
    parallelism: int | None = at("Parallelism of the current attempt, for the scale subresource.", default=None)
    autoscaler: Scaling | None = at("Decision and finding of spec.autoscaler.", default=None)
    selector: str | None = at("Label selector of the attempt's executors, for the scale subresource.", default=None)
    executors: Executors | None = at("Executors of the current attempt.", default=None)
    checkpoint: LastCheckpoint | None = at("Last completed checkpoint.", default=None)
    source: Reading | None = at("Progress of reading.", default=None)
    sink: Writing | None = at("Progress of writing.", default=None)
    transactions: Transactions | None = at("Kafka transactions of the job.", default=None)
    cluster_id: str | None = at(
        "Id of the Kubernetes cluster in the default names of consumer group and transactional ids, as"
        " operator.clusterId of the chart was at the first start. It never changes. Absent where they have none.",
        default=None,
    )
