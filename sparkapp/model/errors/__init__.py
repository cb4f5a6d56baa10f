"""One tree of errors; the operator shows each as a condition with a reason and a remedy.

:mod:`.base`: KafkaSparkJobError, the root; InvalidArgument (also a ValueError); CommandRefused, above InputUnreadable.

:mod:`.configuration`: ConfigurationError, above NameNotAllowed, TransformError, ReleaseMismatch and
CredentialsUnusable; TransformFailed; RecordError; EncodeError.

:mod:`.driver`: SparkDied, ExecutorsFailed, StreamStalled, SubtaskDisconnected, SubtaskMissing, ExtensionMissing;
StateStoreUnusable; VolumeUnusable, above VolumeFull.

:mod:`.kafka`: KafkaAccessError, above KafkaUnreachable, TlsFailed, AuthenticationFailed, AuthorizationFailed,
TopicNotFound, TransactionTimeoutTooLong, LeaderUnavailable, GroupInUse, ReadTimedOut, ListingUnsupported and
UndefinedOffset. OffsetsWentBackwards is a KafkaAccessError, too, above TopicRecreated and OffsetsOvertaken.

:mod:`.group`: GroupMembershipError, a KafkaAccessError, above GroupMemberFenced, GroupProtocolMismatch, GroupFull and
SessionTimeoutRefused.

:mod:`.schema`: SchemaError, above SchemaRegistryUnreachable, SchemaRegistryAccessDenied, SchemaRegistryUntrusted,
SchemaNotFound, SchemaUnusable and SchemaMismatch.

:mod:`.checkpoint`: CheckpointError, above CheckpointConflict, CheckpointTooLarge, CheckpointCorrupt, CheckpointForeign,
CheckpointMissing, CheckpointStoreUnavailable, CheckpointRefused, IncarnationMismatch, ClusterChanged, StateRolledBack,
CheckpointUnusable, CheckpointNotRetained, RestoreRefused, RepartitionRefused, QueryStateMissing and
QueryStateIncompatible.

:mod:`.transaction`: TransactionError, above ProducersPoolEmpty, TransactionFenced, CommitOutcomeUnknown,
PreCommitFailed, TransactionLost and StateUncertain, above TransactionHanging, GroupOffsetsBehind,
GroupOffsetsMoved and GroupOffsetsMissing.

:mod:`.refusal`: RecordRefused, a PreCommitFailed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkapp.model.errors.base import (
    KAFKA_REACHABLE,
    STATE_VALID,
    CommandRefused,
    InputUnreadable,
    InvalidArgument,
    KafkaSparkJobError,
)
from sparkapp.model.errors.checkpoint import (
    CheckpointConflict,
    CheckpointCorrupt,
    CheckpointError,
    CheckpointForeign,
    CheckpointMissing,
    CheckpointNotRetained,
    CheckpointRefused,
    CheckpointStoreUnavailable,
    CheckpointTooLarge,
    CheckpointUnusable,
    ClusterChanged,
    IncarnationMismatch,
    QueryStateIncompatible,
    QueryStateMissing,
    RepartitionRefused,
    RestoreRefused,
    StateRolledBack,
)
from sparkapp.model.errors.configuration import (
    ConfigurationError,
    CredentialsUnusable,
    EncodeError,
    NameNotAllowed,
    RecordError,
    RecordFailed,
    ReleaseMismatch,
    TransformError,
    TransformFailed,
)
from sparkapp.model.errors.driver import (
    ExecutorsFailed,
    ExtensionMissing,
    SparkDied,
    StateStoreUnusable,
    StreamStalled,
    SubtaskDisconnected,
    SubtaskMissing,
    VolumeFull,
    VolumeUnusable,
)
from sparkapp.model.errors.group import (
    GroupFull,
    GroupMemberFenced,
    GroupMembershipError,
    GroupProtocolMismatch,
    SessionTimeoutRefused,
)
from sparkapp.model.errors.kafka import (
    AuthenticationFailed,
    AuthorizationFailed,
    GroupInUse,
    KafkaAccessError,
    KafkaUnreachable,
    LeaderUnavailable,
    ListingUnsupported,
    OffsetsOvertaken,
    OffsetsWentBackwards,
    ReadTimedOut,
    TlsFailed,
    TopicNotFound,
    TopicRecreated,
    TransactionTimeoutTooLong,
    UndefinedOffset,
)
from sparkapp.model.errors.refusal import RecordRefused
from sparkapp.model.errors.schema import (
    SchemaError,
    SchemaMismatch,
    SchemaNotFound,
    SchemaRegistryAccessDenied,
    SchemaRegistryUnreachable,
    SchemaRegistryUntrusted,
    SchemaUnusable,
)
from sparkapp.model.errors.transaction import (
    CommitOutcomeUnknown,
    GroupOffsetsBehind,
    GroupOffsetsMissing,
    GroupOffsetsMoved,
    PreCommitFailed,
    ProducersPoolEmpty,
    StateUncertain,
    TransactionError,
    TransactionFenced,
    TransactionHanging,
    TransactionLost,
)


def kinds_of(kind: type[KafkaSparkJobError] = KafkaSparkJobError) -> Iterator[type[KafkaSparkJobError]]:
    """The class and all classes below it."""
    yield kind
    for child in kind.__subclasses__():
        yield from kinds_of(child)


CONDITION_BY_REASON: Mapping[str, str] = {kind.reason: kind.condition for kind in kinds_of() if kind.condition}
"""The condition type that becomes False for an attempt's reason; other reasons show in Ready alone.

Called by the operator, which knows the reason of a termination message and not its class. StateValid means that the
stored state does not allow a start before a person acts. Errors that a retry can heal (CheckpointStoreUnavailable,
CheckpointRefused, Superseded, VolumeFull) have no condition. Nor has a checkpoint for ``spec.restore`` that does
not exist: the job's own state is valid.
"""

__all__ = [
    "CONDITION_BY_REASON",
    "KAFKA_REACHABLE",
    "STATE_VALID",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "CheckpointConflict",
    "CheckpointCorrupt",
    "CheckpointError",
    "CheckpointForeign",
    "CheckpointMissing",
    "CheckpointNotRetained",
    "CheckpointRefused",
    "CheckpointStoreUnavailable",
    "CheckpointTooLarge",
    "CheckpointUnusable",
    "ClusterChanged",
    "CommandRefused",
    "CommitOutcomeUnknown",
    "ConfigurationError",
    "CredentialsUnusable",
    "EncodeError",
    "ExecutorsFailed",
    "ExtensionMissing",
    "GroupFull",
    "GroupInUse",
    "GroupMemberFenced",
    "GroupMembershipError",
    "GroupOffsetsBehind",
    "GroupOffsetsMissing",
    "GroupOffsetsMoved",
    "GroupProtocolMismatch",
    "IncarnationMismatch",
    "InputUnreadable",
    "InvalidArgument",
    "KafkaAccessError",
    "KafkaSparkJobError",
    "KafkaUnreachable",
    "LeaderUnavailable",
    "ListingUnsupported",
    "NameNotAllowed",
    "OffsetsOvertaken",
    "OffsetsWentBackwards",
    "PreCommitFailed",
    "ProducersPoolEmpty",
    "QueryStateIncompatible",
    "QueryStateMissing",
    "ReadTimedOut",
    "RecordError",
    "RecordFailed",
    "RecordRefused",
    "ReleaseMismatch",
    "RepartitionRefused",
    "RestoreRefused",
    "SchemaError",
    "SchemaMismatch",
    "SchemaNotFound",
    "SchemaRegistryAccessDenied",
    "SchemaRegistryUnreachable",
    "SchemaRegistryUntrusted",
    "SchemaUnusable",
    "SessionTimeoutRefused",
    "SparkDied",
    "StateRolledBack",
    "StateStoreUnusable",
    "StateUncertain",
    "StreamStalled",
    "SubtaskDisconnected",
    "SubtaskMissing",
    "TlsFailed",
    "TopicNotFound",
    "TopicRecreated",
    "TransactionError",
    "TransactionFenced",
    "TransactionHanging",
    "TransactionLost",
    "TransactionTimeoutTooLong",
    "TransformError",
    "TransformFailed",
    "UndefinedOffset",
    "VolumeFull",
    "VolumeUnusable",
    "kinds_of",
]
