"""Errors of the driver's process and of its file systems."""

from __future__ import annotations

from sparkapp.model.errors.base import KafkaSparkJobError


class SparkDied(KafkaSparkJobError):
    """The driver's JVM ended by itself, at any step of an attempt; the message has signal or exit status.

    The job restarts with backoff.
    """

    reason = "SparkDied"
    default_remedy = "raise spec.driver.memoryOverhead if signal 9 ended the JVM: that is the container's memory limit"


class ExecutorsFailed(KafkaSparkJobError):
    """Spark ended the application: more executors failed than ``spark.executor.maxNumFailures``, by default in an hour.

    Pods that Kubernetes refuses are not among them.
    """

    reason = "ExecutorsFailed"
    default_remedy = (
        "the events ExecutorFailed name the cause of each: kubectl get events -n NAMESPACE; raise"
        " spec.executor.memoryOverhead where it is OOMKilled"
    )


class StreamStalled(KafkaSparkJobError):
    """The attempt or its stream made no progress within the limit of its step; the driver ended itself.

    The message names the step. Limits of a start: 300 s for each step, and 900 s for the import of a module and the
    plan of the transform. Recovery has 300 s for each answer of a coordinator. The copy of query state has 900 s for
    each file. Limits of a stream: 120 s without a call of Spark's stream thread, 300 s for a plan. A checkpoint has
    ``sink.transactions.timeoutSeconds`` and 60 s, or an hour without transactions. Time in which it waits for an
    executor does not count. The log has the stacks of the driver's threads: look for a call without a time-out in the
    transform.
    """

    reason = "StreamStalled"


class SubtaskDisconnected(KafkaSparkJobError):
    """A subtask of the continuous engine has no connection to the driver; Spark starts its task again.

    The reason is in the executors' logs alone, until ``SubtaskMissing``.
    """

    reason = "SubtaskDisconnected"
    default_remedy = "check that NetworkPolicies let executors connect to the driver's pod"


class SubtaskMissing(KafkaSparkJobError):
    """A subtask of the continuous engine did not connect for 120 s although executors have a place for it.

    Where they have none, the attempt waits. Only where it is to stop, or where readers wait for what other subtasks
    have pre-committed, it ends after 10 s or 60 s. It also ends where a subtask dies or falls silent eight times within
    ten minutes. With ``checkpoint.commitIntervalMillis`` it ends, too, where a subtask has not confirmed its last
    commits at a stop. There a subtask that failed or was lost four times without getting further ends it, and the
    message names the offsets. A record there may end the function's process, or keep Python's global lock for 10 s. The
    next attempt has new executors.
    """

    reason = "SubtaskMissing"
    default_remedy = (
        "read the log of the executors: kubectl logs POD -n NAMESPACE. A frozen node or container has none, and kubectl"
        " get pods -n NAMESPACE shows executors without room; the next attempt starts by itself"
    )


class ExtensionMissing(KafkaSparkJobError):
    """``KAFKASPARK_NATIVE`` is ``required``, as in the image, and the C extension of the data plane does not load."""

    reason = "ExtensionMissing"
    fatal = True
    default_remedy = (
        "build the image again: make images; or, at a fifth of the speed, set spec.image to an image from it with"
        " ENV KAFKASPARK_NATIVE=auto"
    )


class VolumeUnusable(KafkaSparkJobError):
    """A file of the job could not be written or read; the message has the path and the system's error message.

    The failed write changed nothing: the previous file still exists. A failed read proves no loss. The job restarts
    with backoff.
    """

    reason = "VolumeUnusable"
    default_remedy = (
        "check the volume of that path: the claim in spec.checkpoint.stateVolume.claimName, or else the node's disk;"
        " the job then resumes by itself"
    )


class StateStoreUnusable(KafkaSparkJobError):
    """The object store of ``spec.checkpoint.state.storage`` refused a request, or did not answer.

    The message has the bucket, the store's address and its answer. The document names no state that the store does not
    have whole. The job restarts with backoff.
    """

    reason = "StateStoreUnusable"
    default_remedy = (
        "check that the store of spec.checkpoint.state.storage.s3 answers and lets the access key list, read, write"
        " and delete; the job then resumes by itself"
    )


class VolumeFull(VolumeUnusable):
    """The volume has no free space, or the job's quota of it is used up."""

    reason = "VolumeFull"
    default_remedy = (
        "enlarge the claim in spec.checkpoint.stateVolume.claimName (kubectl edit pvc CLAIM -n NAMESPACE),"
        " or else free the node's disk; the job then resumes by itself"
    )
