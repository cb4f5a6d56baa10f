"""Errors of the resource, and of the user's code and records."""

from __future__ import annotations

from sparkapp.model.errors.base import KafkaSparkJobError


class ConfigurationError(KafkaSparkJobError):
    """A field of the resource cannot work; the message names it.

    So does the condition ``ConfigValid`` where the operator has found it.
    """

    reason = "InvalidSpec"
    fatal = True
    default_remedy = "correct the field: kubectl edit ksj NAME -n NAMESPACE"


class NameNotAllowed(ConfigurationError):
    """The resource refers to an image, Secret or other object that the administrator does not allow.

    A running attempt continues, and no other starts. Name another object, or ask the administrator.
    """

    reason = "NameNotAllowed"


class TransformError(ConfigurationError):
    """The user's transform does not import, cannot be planned, returns no DataFrame, or lacks the column ``value``.

    The message has the line of the code.
    """

    reason = "InvalidTransform"
    default_remedy = (
        "correct spec.transform (kubectl edit ksj NAME -n NAMESPACE) or the ConfigMap of its modules;"
        " the job then restarts by itself"
    )


class ReleaseMismatch(ConfigurationError):
    """The image cannot read the operator's description of the job: their releases differ too much.

    The job restarts with backoff. The operator writes a new description for each attempt, so another operator release
    heals it without a change of the resource. Another image heals it, too.
    """

    reason = "ReleaseMismatch"
    fatal = False
    default_remedy = (
        "set spec.image to an image of the operator's release or a newer release."
        " Or remove the field that the image does not know from the spec"
    )


class CredentialsUnusable(ConfigurationError):
    """A Secret of the spec lacks a key, or holds something else than a client can use; the message names the field.

    The job restarts with backoff, because another content of the Secret solves it without a change of the resource.
    """

    reason = "CredentialsUnusable"
    fatal = False
    default_remedy = "correct the Secret that the field names; the job then uses it by itself"


class RecordError(KafkaSparkJobError):
    """A record does not parse and ``onRecordError`` is Fail; the message names topic, partition and offset."""

    reason = "RecordError"
    fatal = True
    default_remedy = (
        "set spec.onRecordError to Skip or DeadLetter, or correct spec.source.format;"
        " the job then resumes from its last checkpoint"
    )


class EncodeError(KafkaSparkJobError):
    """A value of the result cannot be written in the sink's format; the message names column and cause.

    Examples are a null where the schema takes none, and a text that is no symbol of an enum. Nothing of the checkpoint
    is visible.
    """

    reason = "EncodeError"
    fatal = True
    default_remedy = (
        "correct spec.transform, for instance with COALESCE, or leave such records out;"
        " the job then resumes from its last checkpoint"
    )


class TransformFailed(KafkaSparkJobError):
    """The user's function or query raised while it processed records; nothing of that checkpoint is visible.

    The message has exception and line, and the record or the checkpoint's source offsets. The job restarts with
    backoff, because the cause may be a service that the function calls. It stays ``Failed`` (``RestartLimitReached``)
    after ``restartPolicy.maxConsecutiveFailures`` restarts, or after 6 where that is 0.
    """

    reason = "TransformFailed"
    default_remedy = "correct spec.transform, or the ConfigMap of its modules; the job then restarts by itself"

    def __init__(self, message: str, *, remedy: str | None = None, detail: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.detail = detail


class RecordFailed(TransformFailed):
    """The user's function or query raises for a single record; the message has topic, partition, offset and key."""
