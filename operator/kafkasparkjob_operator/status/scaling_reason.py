"""The reasons of the autoscaler's findings: ``status.autoscaler.reason``."""

from __future__ import annotations

from sparkapp.model.event_reason import ExplainedReason

DECISION = "scaling/"
"""Begin of the occurrence of a decision's event."""


class ScalingReason(ExplainedReason):
    """Why the parallelism changes, or stays."""

    AT_MAXIMUM = (
        "AtMaximum",
        "More subtasks are needed, and `maxParallelism`, a fixed `executor.instances` or the number of partitions"
        " allows no more.",
        "Raise `maxParallelism`, remove `executor.instances`, add partitions, or make the transform quicker.",
    )
    BALANCED = "Balanced", "The parallelism fits the load."
    EXCLUDED_PERIOD = "ExcludedPeriod", "A period of `excludedPeriods` forbids a change that the load asks for."
    HOT_PARTITION = (
        "HotPartition",
        "A single partition has more records than a subtask can read. Further subtasks do not help it.",
        "Choose keys that spread the records, or set `source.limits.maxRecordsPerSplit`.",
    )
    INEFFECTIVE = (
        "Ineffective",
        "The last growth has brought less than a tenth of what it should have. Something else limits the job, for"
        " instance the sink, a quota of the brokers or the processors of the nodes.",
        "Look for that limit. The finding ends when the job reads more, or has no backlog.",
    )
    LOAD_UNKNOWN = (
        "LoadUnknown",
        "The driver has not reported its load yet, or its image is of a previous release.",
    )
    NO_ROOM = (
        "NoRoom",
        "Executors wait for room, or have found none: a quota, or full nodes. The job keeps what runs. More is tried"
        " again after 1800 s.",
        "Make room. The message has Kubernetes' answer.",
    )
    NOT_READING = (
        "NotReading",
        "Records wait and none is read, for instance because the sink does not accept them. Further subtasks do not"
        " help.",
        "Look at `Ready`, `CheckpointHealthy` and the driver's log.",
    )
    RATE_LIMITED = (
        "RateLimited",
        "The job reads as much of its heaviest partition as `source.limits.maxRatePerPartition` allows.",
        "Raise the limit.",
    )
    REFUSED = (
        "Refused",
        "The wanted parallelism is refused: its standby driver fails. Or it has found no room, with `dryRun`. The job"
        " keeps what runs.",
        "Look at `Stalled`, which has the cause.",
    )
    RESCALING = "Rescaling", "The last decision is being carried out."
    SCALED_DOWN = "ScaledDown", "Fewer subtasks have been enough for `scaleDownDelaySeconds`."
    SCALED_UP = "ScaledUp", "More subtasks were needed for `stabilizationSeconds`."
    STABILIZING = (
        "Stabilizing",
        "The job was started or rescaled a moment ago, or more subtasks are needed for less than"
        " `stabilizationSeconds`.",
    )
    WAITS_TO_SHRINK = "WaitsToShrink", "Fewer subtasks are enough, for less than `scaleDownDelaySeconds`."
