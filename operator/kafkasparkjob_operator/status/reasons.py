"""The operator's reasons: of starts and stops of attempts, of states, and of events."""

from __future__ import annotations

from enum import StrEnum

from sparkapp.model.event_reason import ExplainedReason


class StopReason(StrEnum):
    """``status.attempt.stopReason``: why the operator stopped an attempt."""

    SUSPEND = "Suspend"
    RESCALE = "Rescale"
    SPEC_CHANGE = "SpecChange"
    ROLLBACK = "Rollback"
    """Its revision has not become stable, and the job goes back."""
    DELETE = "Delete"
    """The resource is being deleted, and its transactions have no time-out."""
    HEARTBEAT_TIMEOUT = "HeartbeatTimeout"
    """The driver's reports have stopped: frozen processes, a lost node, or an unreachable API server."""
    NO_PROGRESS = "NoProgress"
    """The driver sends reports, and makes no progress."""


OF_THE_OPERATOR = frozenset({str(StopReason.HEARTBEAT_TIMEOUT), str(StopReason.NO_PROGRESS)})
"""Reasons of attempts that the operator ends although nobody has asked for it; they count as failures."""


class StartReason(StrEnum):
    """``status.attempt.startReason``: why an attempt was started."""

    CREATED = "Created"
    RESCALED = "Rescaled"
    SPEC_CHANGED = "SpecChanged"
    RESUMED = "Resumed"
    RESTARTED = "Restarted"
    ROLLED_BACK = "RolledBack"
    DELETED = "Deleted"
    """To settle the transactions of a job that is being deleted."""


class JobReason(ExplainedReason):
    """``status.reason`` and the reasons of the operator's events, next to those of the driver's errors."""

    AWAITING_COLLECTION = (
        "AwaitingCollection",
        "An object of a deleted job of the same name still exists. Kubernetes usually deletes it within seconds.",
        "If it stays, use the command of the message, which deletes it.",
    )
    AWAITING_RESTART = (
        "AwaitingRestart",
        "Too many other jobs restart at the moment (`operator.concurrentRestarts` of the chart). The job restarts when"
        " some of them run. A job whose code has changed runs with its previous code until then.",
    )
    CHECKPOINT_STALLED = (
        "CheckpointStalled",
        "No checkpoint has completed for five intervals, at least 60 s, and records wait. `Ready` is False until one"
        " completes.",
        "Read the driver's log by the command of the message.",
    )
    CODE_CHANGED = (
        "CodeChanged",
        "The ConfigMap with the transform's modules has other content. The driver drains, and the next attempt has the"
        " new modules.",
    )
    CODE_MISSING = (
        "CodeMissing",
        "The ConfigMap with the transform's modules does not exist. The next attempt waits for it. A running attempt"
        " continues with its copy.",
        "Create the ConfigMap, or correct `configMapRef.name`.",
    )
    CONFIG_MAP_NAME_TAKEN = (
        "ConfigMapNameTaken",
        "A ConfigMap that the operator did not create has a name of the next attempt. The operator tries the next"
        " number at once.",
        "Delete it: `kubectl delete configmap NAME -n NAMESPACE`.",
    )
    DELETING = (
        "Deleting",
        "The resource is deleted, and a finalizer holds it until its transactions are settled. Only jobs with"
        " `spec.deletion` or `sink.transactions.timeoutSeconds: 0` have it.",
    )
    DRAIN_TIMED_OUT = (
        "DrainTimedOut",
        "`status.refused.reason` of another revision for which the drain has not ended in time, with"
        " `upgrade.drainFallback: Abort`.",
        "Raise `spec.upgrade.drainTimeoutSeconds`. Or use the command of the message, which sets `drainFallback:"
        " LastCheckpoint`. Both try the change again.",
    )
    DRAINED = "Drained", "The driver has stopped after its last checkpoint."
    DRAINING = "Draining", "The driver completes its last checkpoint."
    DRIVER_FAILED = (
        "DriverFailed",
        "The driver ended without a termination message, or its message has no reason of the list. Restarts are"
        " automatic.",
        "Read the log of the last failure.",
    )
    DRIVER_KILLED = (
        "DriverKilled",
        "The driver's container was killed, and left no termination message. Restarts are automatic.",
        "The message has the command for the pod's events.",
    )
    DRIVER_MISSING = (
        "DriverMissing",
        "The driver's pod was deleted before it reported how it ended, for instance with its node. Restarts are"
        " automatic.",
        "The message has the command for the pod's events.",
    )
    DRIVER_PENDING = (
        "DriverPending",
        "The driver's container does not run yet. Instead, the kubelet's reason is shown where it has a reason, for"
        " instance `ImagePullBackOff`.",
    )
    DRIVER_STARTING = "DriverStarting", "The driver checks Kafka and the code, and starts Spark."
    DRIVER_STOPPING = (
        "DriverStopping",
        "The driver's pod is being deleted, and the next attempt follows. Somebody else deleted it, or a suspension was"
        " withdrawn before the pod was gone.",
    )
    EVENTS_THROTTLED = (
        "EventsThrottled",
        "Events of this job are dropped: its driver reports more than the operator publishes.",
        "Find what reports so often: the driver's log has each event.",
    )
    EXECUTOR_FAILED = (
        "ExecutorFailed",
        "An executor ended by itself. Spark starts another. `status.executors` has the counts.",
        "With `OOMKilled` raise `spec.executor.memoryOverhead`. Else read the driver's log.",
    )
    EXECUTORS_PENDING = (
        "ExecutorsPending",
        "The attempt has fewer executors than it asks for. The message has the answer of the API server (a quota, a"
        " LimitRange, an admission policy, a PriorityClass), of the scheduler or of the kubelet. `Ready` is True where"
        " an executor runs: the job runs with what fits. Where none has run for 30 s, or one is refused and none runs,"
        " it is False, and nothing is read.",
        "Change what the message names: a larger quota, room in the cluster, or less `spec.executor.cores`,"
        " `spec.executor.memory`, `spec.executor.instances`. The job resumes by itself.",
    )
    FAILED = (
        "Failed",
        "A failure that no restart heals, and the status has no reason of it.",
        "Act as the message says, then change `spec.restartNonce`.",
    )
    EXPIRY_REFUSED = (
        "ExpiryRefused",
        "Kubernetes refuses the deletion of a Finished job whose `spec.ttlSecondsAfterFinished` has passed. The"
        " operator tries again.",
        "Use `helm upgrade`, which grants the right. Or delete the job: `kubectl delete ksj NAME -n NAMESPACE`.",
    )
    FINALIZER_REFUSED = (
        "FinalizerRefused",
        "The operator may not patch the resource, so its deletion will not wait for its transactions.",
        "Use `helm upgrade`, which grants the right.",
    )
    FINISHED = "Finished", "The job has read to the end of `source.stopping`."
    FOREIGN_OBJECT = (
        "ForeignObject",
        "A pod or ConfigMap has the job's labels, and the operator did not create it. It is not counted. A driver that"
        " also names the job as its owner is deleted.",
        "Find its creator: `kubectl get pods,configmaps -n NAMESPACE -l kafkaspark.io/job=JOB --show-labels`.",
    )
    GROUP_ID_IN_USE = (
        "GroupIdInUse",
        "Another job commits offsets to the consumer group. A job would take the other's offsets for its own.",
        "Create the job again with another `source.groupId`.",
    )
    GROUP_ID_NOT_ALLOWED = (
        "GroupIdNotAllowed",
        "The consumer group begins with the name of another namespace and a period, as the groups of its jobs do.",
        "Create the job again with another `source.groupId`. Or ask the administrator"
        " (`operator.transactionalIdPrefixes` of the chart).",
    )
    HEARTBEAT_TIMEOUT = (
        StopReason.HEARTBEAT_TIMEOUT.value,
        "The driver has sent no report for 30 s, or no first report for 300 s. Restarts are automatic.",
        "Look at the node (`kubectl get nodes`), and at the way to the API server.",
    )
    NO_PROGRESS = (
        StopReason.NO_PROGRESS.value,
        "The driver sends reports, and has made no progress for 1200 s while it starts or ends. Restarts are"
        " automatic.",
        "Read the end of the driver's log, and look at its node (`kubectl get nodes`).",
    )
    NOT_DRAINED = (
        "NotDrained",
        "A driver that was asked to stop did not end in order. A transaction may be open. The next attempt settles it."
        " Of a suspended job it holds back `read_committed` readers until its time-out, if it has one.",
        "For a suspended job wait for the time-out, or end the transaction by `python3 -m sparkapp txn`.",
    )
    NOT_RECOVERED = (
        "NotRecovered",
        "The driver was stopped, and the state does not say that its attempt had recovered. Transactions of an earlier"
        " attempt may be open.",
        "Nothing: the next attempt settles them. So does the deletion of a job with `spec.deletion` or"
        " `sink.transactions.timeoutSeconds: 0`.",
    )
    OOM_KILLED = (
        "OOMKilled",
        "The driver used more memory than its container's limit. Restarts are automatic.",
        "Raise `spec.driver.memoryOverhead`.",
    )
    POD_NAME_TAKEN = (
        "PodNameTaken",
        "A pod that the operator did not create has a name of the next attempt. The operator tries the next number"
        " after ten seconds.",
        "Delete it: `kubectl delete pod NAME -n NAMESPACE`.",
    )
    POD_NOT_TERMINATING = (
        "PodNotTerminating",
        "A pod of the previous attempt has been terminating for too long, for instance on a lost node. The next attempt"
        " waits for it.",
        "If the node is lost: `kubectl delete pod POD -n NAMESPACE --force`.",
    )
    PREFIX_IN_USE = (
        "PrefixInUse",
        "Another job has the transactional id prefix. Two such jobs would abort each other's transactions.",
        "Create the job again with another `sink.transactions.idPrefix`.",
    )
    PREFIX_NOT_ALLOWED = (
        "PrefixNotAllowed",
        "The transactional id prefix is not one of the namespace's.",
        "Create the job again with a `sink.transactions.idPrefix` that begins with its namespace and a period. Or ask"
        " the administrator.",
    )
    NOT_PREPARED = (
        "NotPrepared",
        "`status.refused.reason` of a change with `upgrade.strategy: BlueGreen` whose driver is not prepared within"
        " `upgrade.prepareTimeoutSeconds`, or was refused by a quota.",
        "Make room for a second job, or choose `prepareFallback: Recreate`.",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        "A new revision has not become stable within `upgrade.progressDeadlineSeconds`.",
        "Look at the state and the last failure of the job.",
    )
    PREPARING_SUCCESSOR = (
        "PreparingSuccessor",
        "The job continues until the next attempt is prepared. Then its driver drains.",
    )
    QUOTA_EXCEEDED = (
        "QuotaExceeded",
        "A quota refuses an object of the next attempt. No attempt number is used. The job retries.",
        "Raise the quota, or lower what the job asks for. The message has Kubernetes' answer.",
    )
    RECONCILIATION_PAUSED = (
        "ReconciliationPaused",
        'The resource has the annotation `kafkaspark.io/pause-reconciliation: "true"`. The operator starts, stops and'
        " changes nothing of the job. A deletion is carried out.",
        "Remove the annotation: `kubectl annotate ksj NAME -n NAMESPACE kafkaspark.io/pause-reconciliation-`.",
    )
    RECONCILIATION_RESUMED = "ReconciliationResumed", "The annotation that paused the operator is gone."
    RECOVERING = "Recovering", "The driver settles the transactions of previous attempts."
    RESCALE_REFUSED = (
        "RescaleRefused",
        "Kubernetes refuses the request for a rescale in place, for instance because a webhook for pods is down. The"
        " job continues.",
        "The message has Kubernetes' answer. The request is repeated for 60 s. Then another attempt has the new"
        " parallelism.",
    )
    RESCALE_REQUESTED = (
        "RescaleRequested",
        "The driver has not confirmed yet that it changes its parallelism. After 60 s another attempt does.",
    )
    RESCALE_STARTED = (
        "RescaleStarted",
        "The job changes to another parallelism: the driver drains at a checkpoint, or the attempt changes in place.",
    )
    RESCALED = "Rescaled", "The job runs with another parallelism."
    RESCALE_WITHDRAWN = (
        "RescaleWithdrawn",
        "`status.refused.reason` of a rescale in place that has found no room for its executors within 600 s. The"
        " operator has taken the request back, and the job runs with the parallelism that it had.",
        "Make room, and set `spec.parallelism` to another number, or to the number that runs.",
    )
    RESCALING_IN_PLACE = "RescalingInPlace", "The job continues, and the same attempt changes its parallelism."
    RESTART_LIMIT_REACHED = (
        "RestartLimitReached",
        "`restartPolicy.maxConsecutiveFailures` is reached.",
        "Remove the cause, then use a command of the message, which says what it runs. Any change of the spec resets"
        " the count of failures and the pause.",
    )
    RESTART_SCHEDULED = (
        "RestartScheduled",
        "The attempt ended, and the next attempt starts after the pause of the message.",
    )
    RESUMED = "Resumed", "A suspended job starts again."
    REVISION_REFUSED = (
        "RevisionRefused",
        "The standby driver for a change of the resource fails, or does not start. The change is refused. The previous"
        " attempt runs with the previous spec and stays `Ready`; `Stalled` is True.",
        "Correct the resource, or what the message names. The refusal ends when the resource asks for"
        " something else or its code changes (`status.refused.request`), and when the driver is prepared after all.",
    )
    ROLLBACK_REFUSED = (
        "RollbackRefused",
        "A new revision has failed before it was stable, and the job cannot go back to the stable revision. The message"
        " has the reason.",
        "Correct the resource, as the message of the failure says.",
    )
    ROLLED_BACK = (
        "RolledBack",
        "A new revision has failed before it was stable, or the drain for it has not ended in time. The job runs the"
        " revision of before and is `Ready`. `Stalled` is True, with both revisions and the cause.",
        "Correct the resource or its modules. Another `spec.restartNonce` or `spec.upgrade` tries the revision again.",
    )
    RUNNING = "Running", "Checkpoints complete."
    SCALE_IGNORED = (
        "ScaleIgnored",
        "A change of `spec.parallelism` alone does not start a failed or finished job. The next attempt has that"
        " parallelism.",
        "Correct what has failed, or use a command of the message.",
    )
    SCALING_ADVISED = (
        "ScalingAdvised",
        "`spec.autoscaler.dryRun` is true: the autoscaler would change the parallelism, for the message's cause.",
    )
    SCALING_BLOCKED = (
        "ScalingBlocked",
        "The job needs more subtasks, and gets none, or they would not help. The message begins with the finding, which"
        " `status.autoscaler.reason` has, too.",
        "Look for the finding.",
    )
    SCALING_DOWN = "ScalingDown", "The autoscaler lowers the parallelism, for the message's cause."
    SCALING_UP = "ScalingUp", "The autoscaler raises the parallelism, for the message's cause."
    SNAPSHOT_FAILED = (
        "SnapshotFailed",
        "A snapshot that the operator makes was refused, or holds no checkpoint. The message has the cause. The next"
        " periodic snapshot is made at its time. A change that waits for its snapshot is refused with this reason."
        " A job with `spec.deletion.snapshot` was deleted without its snapshot.",
        "Look at the snapshot: `kubectl get kss -n NAMESPACE -o wide`.",
    )
    SNAPSHOT_MADE = "SnapshotMade", "A snapshot that the operator makes holds a checkpoint."
    SNAPSHOT_NOT_READY = (
        "SnapshotNotReady",
        "The snapshot that the next attempt begins at does not exist or holds no checkpoint. The operator looks again.",
        "Name a snapshot that is Ready: `kubectl get kss -n NAMESPACE` lists them.",
    )
    SNAPSHOTTING = (
        "Snapshotting",
        "The snapshot of `spec.upgrade.snapshot` or `spec.deletion.snapshot` is not Ready yet. Until then the attempt"
        " runs, or the deleted resource stays.",
    )
    SPEC_CHANGED = "SpecChanged", "The driver drains at a checkpoint, for a changed spec."
    START_FAILED = (
        "StartFailed",
        "The API server failed twice in a row, or gave no answer, when the next attempt's objects were created. The job"
        " retries.",
        "Look at the API server and its webhooks.",
    )
    START_REFUSED = (
        "StartRefused",
        "Kubernetes refuses an object of the next attempt: a policy, a webhook that is down, a missing permission. No"
        " attempt number is used. The job retries.",
        "The message has Kubernetes' answer.",
    )
    STATE_NOT_REMOVED = (
        "StateNotRemoved",
        "The job is deleted, and its query state stays on the volume, in spite of `spec.deletion.state: Delete`.",
        "Remove the folder of the message from the volume, but what snapshots keep.",
    )
    STATE_REMOVED = "StateRemoved", "The query state of a deleted job is removed from its volume or bucket."
    SUBMITTED = "Submitted", "An attempt was started. The event has its cause, parallelism and image."
    SUBTASKS_IDLE = (
        "SubtasksIdle",
        "`spec.parallelism` is above the number of the source's partitions, so subtasks read nothing. The job works,"
        " and the message of `Ready` has the numbers. A transform that shuffles uses all subtasks for what follows.",
        "Lower `spec.parallelism`, add partitions, or set `source.limits.maxRecordsPerSplit`.",
    )
    SUCCESSOR_REFUSED = (
        "SuccessorRefused",
        "A standby driver could not be created. The current attempt stops first.",
        "The message has the cause, for instance a quota.",
    )
    SUCCESSOR_STARTED = "SuccessorStarted", "A standby driver was created."
    SUSPENDED = "Suspended", "Nothing runs. `spec.suspend: false` resumes."
    SUSPENDING = "Suspending", "The driver drains at a checkpoint, because `spec.suspend` is true."
    TIME_TO_LIVE_EXPIRED = (
        "TimeToLiveExpired",
        "The operator deletes a Finished job, because its `spec.ttlSecondsAfterFinished` has passed.",
    )
    TRANSACTION_HANGING = (
        "TransactionHanging",
        "A partition lacks the marker of a transaction that has ended. The job writes the marker when the partition has"
        " a leader.",
        "Look at the brokers. The command of the message lists the transactions.",
    )
    TRANSACTION_OVERDUE = (
        "TransactionOverdue",
        "A transaction of the job is open for longer than five checkpoint intervals, at least 60 s.",
        "The message has its time, and the command that lists it.",
    )
    TRANSACTIONS_LEFT_OPEN = (
        "TransactionsLeftOpen",
        "A job that was held by the operator's finalizer was deleted, and its transactions could not be settled.",
        "Use the command of the message, which ends them.",
    )
    TRANSACTIONS_SETTLED = "TransactionsSettled", "The transactions of a deleted job are settled."
    TURN_GIVEN = "TurnGiven", "A standby driver was activated."
    WAITING_FOR_PODS = "WaitingForPods", "The next attempt waits until the pods of the previous attempt are gone."
