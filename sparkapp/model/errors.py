"""One tree of errors; at the edge each becomes a condition with a reason and a remedy.

KafkaSparkJobError
 + InvalidArgument (also a ValueError)
 + TransformFailed                    the user's function or query raised over records
 + SparkDied                          the driver's JVM ended by itself
 + StreamStalled                      the driver's stream thread made no progress
 + CommandRefused                     a command for people that would do harm, or lacks what it needs to know
 + ConfigurationError                 the resource or the code in it cannot work: InvalidSpec, InvalidTransform …
 |  + TransformError  + ReleaseMismatch
 + ExtensionMissing                   the C extension was not built, or does not load
 + RecordError                          a record that does not parse, under onRecordError: Fail
 + KafkaAccessError                     the broker or what is on it
 |  + KafkaUnreachable  + AuthenticationFailed  + AuthorizationFailed  + TopicNotFound
 |  + TransactionTimeoutTooLong  + UndefinedOffset  + OffsetsWentBackwards  + ReadTimedOut  + ListingUnsupported
 |  + LeaderUnavailable  + GroupInUse
 |  |                                  + OffsetsOvertaken (an OffsetsWentBackwards)  + TopicRecreated (likewise)
 |  + GroupMembershipError             a consumer group that the job is a member of
 |     + GroupMemberFenced  + GroupProtocolMismatch  + GroupFull  + SessionTimeoutRefused
 + SchemaError                          the schema registry or what is in it
 |  + SchemaRegistryUnreachable  + SchemaRegistryAccessDenied  + SchemaRegistryUntrusted
 |  + SchemaNotFound  + SchemaUnusable
 + CheckpointError                    the document that decides everything
 |  + CheckpointConflict  + CheckpointTooLarge  + CheckpointCorrupt  + CheckpointForeign  + CheckpointMissing
 |  + CheckpointStoreUnavailable  + CheckpointRefused  + ClusterChanged  + StateRolledBack
 |  + CheckpointUnusable  + CheckpointNotRetained  + RestoreRefused
 |  + OperatorStateMissing  + OperatorStateIncompatible
 + VolumeUnusable                     a file system that the job writes to: read-only, broken
 |  + VolumeFull
 + TransactionError
    + ProducersPoolEmpty  + TransactionFenced  + CommitOutcomeUnknown  + PreCommitFailed
    + TransactionLost  + StateUncertain
"""

from __future__ import annotations

from typing import ClassVar


class KafkaSparkJobError(Exception):
    """Base of every error this project raises on purpose.

    ``reason`` is the CamelCase word of the Kubernetes condition and event, ``remedy`` says what to type or
    change (empty where nobody knows: then the operator names the command that shows the attempt's log), ``fatal`` says
    that starting the driver again cannot help until a person acts. ``detail`` replaces the log's end in the status.
    """

    reason: ClassVar[str] = "InternalError"
    fatal: ClassVar[bool] = False
    default_remedy: ClassVar[str] = ""
    detail: str = ""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy if remedy is not None else self.default_remedy


class InvalidArgument(KafkaSparkJobError, ValueError):
    """A value outside what a rule of the protocol allows (case H17)."""

    reason = "InvalidArgument"
    fatal = True


class TransformFailed(KafkaSparkJobError):
    """The user's function or query raised while it worked on records; nothing of that checkpoint is visible.

    Restarted with backoff, because the cause may be a service that the function calls. The operator limits these
    restarts also where ``restartPolicy.maxConsecutiveFailures`` does not.
    """

    reason = "TransformFailed"
    default_remedy = "correct spec.transform, or the ConfigMap that it names: the job then restarts by itself"

    def __init__(self, message: str, *, remedy: str | None = None, detail: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.detail = detail


class SparkDied(KafkaSparkJobError):
    """The driver's JVM ended by itself; restarted with backoff."""

    reason = "SparkDied"
    default_remedy = "if signal 9 ended it, which is the container's memory limit: raise spec.driver.memory"


class StreamStalled(KafkaSparkJobError):
    """The stream thread made no progress for longer than its step may take; the driver has ended itself."""

    reason = "StreamStalled"


class ExtensionMissing(KafkaSparkJobError):
    """``KAFKASPARK_NATIVE=required``, as in the image, and the C extension of the batch path does not load."""

    reason = "ExtensionMissing"
    fatal = True
    default_remedy = (
        "build the image again: make images; or, at a fifth of the speed, set KAFKASPARK_NATIVE to auto in env of"
        " spec.driver and spec.executor"
    )


class CommandRefused(KafkaSparkJobError):
    """A command for people (``sparkapp txn``) that would do harm, or lacks what it needs to know; nothing was done."""

    reason = "CommandRefused"
    fatal = True


class ConfigurationError(KafkaSparkJobError):
    """The resource cannot work as it is written; the message names the field."""

    reason = "InvalidSpec"
    fatal = True
    default_remedy = "correct the field and apply the resource again"


class TransformError(ConfigurationError):
    """The user's transform does not import, fails to plan, or returns no DataFrame."""

    reason = "InvalidTransform"
    default_remedy = "correct spec.transform (or the ConfigMap that it names) and apply the resource again"


class ReleaseMismatch(ConfigurationError):
    """The operator's description of the job is not one that the image can read: their releases differ too much.

    Tried again with backoff: the operator writes a new description for each attempt, so another image heals it, and
    another operator does so too, without a change of the resource.
    """

    reason = "ReleaseMismatch"
    fatal = False
    default_remedy = (
        "set spec.image to an image of the operator's release, or a newer one; or take the field that it does not know"
        " out of the spec"
    )


class RecordError(KafkaSparkJobError):
    """A record does not parse and ``onRecordError`` is Fail; the message names topic, partition and offset."""

    reason = "RecordError"
    fatal = True
    default_remedy = (
        "set spec.onRecordError to Skip or DeadLetter, or correct spec.source.format; "
        "the job then goes on at its last checkpoint"
    )


class KafkaAccessError(KafkaSparkJobError):
    """The broker, or what is on it, does not allow the job to work; restarted with backoff."""

    reason = "KafkaError"


class KafkaUnreachable(KafkaAccessError):
    """No broker of ``kafka.bootstrapServers`` answered in time."""

    reason = "KafkaUnreachable"
    default_remedy = "check spec.kafka.bootstrapServers and that the brokers are up and reachable from the pods"


class AuthenticationFailed(KafkaAccessError):
    """The broker refused the credentials."""

    reason = "AuthenticationFailed"
    default_remedy = "check spec.kafka.authentication: the username and the Secret that holds the password"


class AuthorizationFailed(KafkaAccessError):
    """The broker knows the user, but an ACL is missing."""

    reason = "AuthorizationFailed"
    default_remedy = (
        "grant READ on the source topics and the group, WRITE on the sink topic and the transactional id prefix"
    )


class TopicNotFound(KafkaAccessError):
    """A topic that the job names does not exist, or a pattern matches none."""

    reason = "TopicNotFound"
    default_remedy = "create the topic, or correct spec.source / spec.sink"


class TransactionTimeoutTooLong(KafkaAccessError):
    """``sink.transactionTimeoutSeconds`` is beyond the broker's ``transaction.max.timeout.ms``."""

    reason = "TransactionTimeoutTooLong"
    fatal = True
    default_remedy = "lower spec.sink.transactionTimeoutSeconds, or raise transaction.max.timeout.ms on the brokers"


class UndefinedOffset(KafkaAccessError):
    """A group has no committed offset and no reset strategy is allowed (case S23)."""

    reason = "UndefinedOffset"
    fatal = True
    default_remedy = "set spec.source.startup.onMissingOffset to EARLIEST or LATEST, or commit offsets for the group"


class OffsetsWentBackwards(KafkaAccessError):
    """A partition ends before the restored offset: the topic was recreated, or records were lost (case S40)."""

    reason = "OffsetsWentBackwards"
    fatal = True
    default_remedy = (
        "check whether the topic was deleted and created again, or its retention took what was not read:"
        " spec.source.dataLossPolicy SkipToAvailable goes on at the first record there is; a new job name starts from"
        " spec.source.startup"
    )


class TopicRecreated(OffsetsWentBackwards):
    """A topic has another id than in the checkpoint: it was deleted and created again under its name (KIP-516)."""

    reason = "TopicRecreated"
    fatal = True
    default_remedy = (
        "to read the new topic from its beginning: kubectl patch ksj NAME --type merge -p"
        ' \'{"spec":{"source":{"dataLossPolicy":"SkipToAvailable"}}}\''
    )


class OffsetsOvertaken(OffsetsWentBackwards):
    """Under ``dataLossPolicy: SkipToAvailable`` retention came between a plan and its read: the next attempt skips."""

    fatal = False
    default_remedy = (
        "nothing: the job goes on at the first record there is, as spec.source.dataLossPolicy says; a topic that keeps"
        " its records for longer (retention.ms, retention.bytes) loses none"
    )


class LeaderUnavailable(KafkaAccessError):
    """A partition's leader could not answer: an election, or too few replicas in sync, for longer than a question may
    take."""

    reason = "LeaderUnavailable"
    default_remedy = (
        "check the partition's leader and its replicas: kafka-topics.sh --bootstrap-server <broker> --describe"
        " --under-min-isr-partitions (and --unavailable-partitions); the job tries again by itself"
    )


class GroupInUse(KafkaAccessError):
    """``source.groupId`` has active members: Kafka takes no offsets of it from anybody else (GroupMetadataManager)."""

    reason = "GroupInUse"
    default_remedy = (
        "stop the group's other consumers (kafka-consumer-groups.sh --describe --group <group> --members lists them),"
        " or set spec.source.groupId to a group of the job's own"
    )


class ReadTimedOut(KafkaAccessError):
    """A bounded read made no progress within its deadline."""

    reason = "ReadTimedOut"
    default_remedy = "check the brokers that lead the partition; the job reads the range again after the restart"


class ListingUnsupported(KafkaAccessError):
    """The brokers do not offer ListTransactions; lingering transactions are looked for one by one instead."""

    reason = "ListingUnsupported"


class GroupMembershipError(KafkaAccessError):
    """The group's coordinator does not let the job be a member (``source.groupMembership`` Subscribe)."""

    reason = "GroupMembershipFailed"


class GroupMemberFenced(GroupMembershipError):
    """FENCED_INSTANCE_ID: another member joined with this job's ``groupInstanceId``; a restart would fence it back."""

    reason = "GroupMemberFenced"
    fatal = True
    default_remedy = (
        "give each member of the group a source.groupMembership.groupInstanceId of its own, or stop the other member;"
        " then change spec.restartNonce"
    )


class GroupProtocolMismatch(GroupMembershipError):
    """INCONSISTENT_GROUP_PROTOCOL: the group's other members offer no assignor that this job has."""

    reason = "GroupProtocolMismatch"
    default_remedy = (
        "set spec.source.groupMembership.assignor to one that every member of the group offers"
        " (range is in the defaults of Java's and librdkafka's clients)"
    )


class GroupFull(GroupMembershipError):
    """GROUP_MAX_SIZE_REACHED: the group has as many members as the brokers allow."""

    reason = "GroupFull"
    default_remedy = "stop another member of the group, or raise group.max.size on the brokers"


class SessionTimeoutRefused(GroupMembershipError):
    """INVALID_SESSION_TIMEOUT: ``sessionTimeoutSeconds`` is outside what the brokers allow."""

    reason = "SessionTimeoutRefused"
    fatal = True
    default_remedy = (
        "set spec.source.groupMembership.sessionTimeoutSeconds between the brokers' group.min.session.timeout.ms"
        " (6 s by default) and group.max.session.timeout.ms"
    )


class SchemaError(KafkaSparkJobError):
    """The schema registry, or a schema in it; restarted with backoff."""

    reason = "SchemaError"


class SchemaRegistryUnreachable(SchemaError):
    """The registry did not answer in time, or answered with an error of its own."""

    reason = "SchemaRegistryUnreachable"
    default_remedy = "check spec.source.schemaRegistry.url and that the registry is up and reachable from the pods"


class SchemaRegistryAccessDenied(SchemaError):
    """The registry refused the user, or does not let it read (HTTP 401 and 403); a Secret can be mended meanwhile."""

    reason = "SchemaRegistryAccessDenied"
    default_remedy = (
        "check spec.source.schemaRegistry.authentication: the username and the Secret that holds the password or token;"
        " the user has to be allowed to read the source topics' subjects"
    )


class SchemaRegistryUntrusted(SchemaError):
    """The registry's certificate was not signed by an authority that the job trusts, or is not for this host."""

    reason = "SchemaRegistryUntrusted"
    default_remedy = (
        "name the Secret with the certificate of the registry's authority in spec.source.schemaRegistry.tls.caFrom,"
        " and a host in spec.source.schemaRegistry.url that the registry's certificate is for"
    )


class SchemaNotFound(SchemaError):
    """The registry has no schema for the source topic."""

    reason = "SchemaNotFound"
    default_remedy = "register the schema, or give one in spec.source.format.valueSchema (or keySchema)"


class SchemaUnusable(SchemaError):
    """A schema that is not Avro, does not parse, or has a type without a counterpart in a DataFrame."""

    reason = "SchemaUnusable"
    fatal = True
    default_remedy = "give a reader schema in spec.source.format.valueSchema (or keySchema) that leaves the field out"


class CheckpointError(KafkaSparkJobError):
    """The checkpoint document could not be read or written."""

    reason = "CheckpointFailed"


class CheckpointConflict(CheckpointError):
    """Another writer changed the document: this attempt has been superseded and must stop."""

    reason = "Superseded"
    default_remedy = "nothing: a newer attempt of the job owns the checkpoint, or the next one will"


class CheckpointTooLarge(CheckpointError):
    """The document would exceed its byte budget."""

    reason = "CheckpointTooLarge"
    fatal = True
    default_remedy = "split the job: fewer partitions per job"


class CheckpointCorrupt(CheckpointError):
    """The document is unreadable, truncated, or breaks its schema; the job never starts empty by guess."""

    reason = "StateCorrupt"
    fatal = True
    default_remedy = (
        "correct the document, or put it back from a backup. Without one, delete the job and create it again with"
        " source.startup.mode GROUP_OFFSETS (exactly once unless the transform shuffles), or with SPECIFIC_OFFSETS and"
        " those of an earlier checkpoint, noted before (`python -m sparkapp checkpoint list`, `checkpoint show ID`)"
    )


class CheckpointForeign(CheckpointError):
    """The document belongs to another job (its UID differs)."""

    reason = "StateForeign"
    fatal = True
    default_remedy = "delete the foreign ConfigMap, or give the job another name"


class ClusterChanged(CheckpointError):
    """The checkpoint belongs to another Kafka cluster than the one that ``kafka.bootstrapServers`` reaches.

    Offsets, group and transactions of one cluster mean nothing on another. Nothing was written anywhere.
    """

    reason = "ClusterChanged"
    fatal = True
    default_remedy = "point spec.kafka.bootstrapServers back at the cluster of the checkpoint"


class StateRolledBack(CheckpointError):
    """The document is older than what the job has committed: somebody put an earlier state back.

    To go on from it would write again what readers have. Nothing was written.
    """

    reason = "StateRolledBack"
    fatal = True
    default_remedy = "put the newest state back, or set spec.restoreFrom to accept what is written twice"


class CheckpointMissing(CheckpointError):
    """The state ConfigMap, which the operator creates, is gone."""

    reason = "StateMissing"
    fatal = True
    default_remedy = CheckpointCorrupt.default_remedy


class CheckpointStoreUnavailable(CheckpointError):
    """The API server did not answer within the deadline."""

    reason = "CheckpointStoreUnavailable"
    default_remedy = "check the Kubernetes API server; the job restarts by itself"


class CheckpointRefused(CheckpointError):
    """The API server refuses the request: rights, admission, an immutable ConfigMap; the message has its words.

    Tried again with backoff, for rights can be granted meanwhile.
    """

    reason = "CheckpointRefused"
    default_remedy = (
        "see what refuses it: an admission policy, a quota, or `immutable: true` in the ConfigMap, which only deleting"
        " it and creating it again with the same data takes away"
    )


class CheckpointUnusable(CheckpointError):
    """A retained checkpoint that cannot be gone back to: unreadable, or another job's; the message names it."""

    reason = "CheckpointUnusable"
    fatal = True
    default_remedy = (
        "set spec.restoreFrom.checkpoint to one that `python -m sparkapp checkpoint verify` finds right,"
        " or remove spec.restoreFrom to go on where the job is"
    )


class CheckpointNotRetained(CheckpointError):
    """``spec.restoreFrom`` names a checkpoint that is not kept; the message lists those that are."""

    reason = "CheckpointNotRetained"
    fatal = True
    default_remedy = (
        "set spec.restoreFrom.checkpoint to one of those that are kept, or remove spec.restoreFrom to go on where the"
        " job is"
    )


class RestoreRefused(CheckpointError):
    """The job cannot go back to an earlier checkpoint as it is."""

    reason = "RestoreRefused"
    fatal = True
    default_remedy = "remove spec.restoreFrom: the job goes on where it is"


class OperatorStateMissing(CheckpointError):
    """Operators keep state, and the version that belongs to the checkpoint is not on the volume (or not all of it)."""

    reason = "OperatorStateMissing"
    fatal = True
    default_remedy = (
        "put the volume of spec.checkpoint.stateVolume back as it was, then change spec.restartNonce. Without it,"
        " create a job with another name, which starts with empty state, and source.startup.mode SPECIFIC_OFFSETS"
        " (`python -m sparkapp checkpoint show` has the offsets). If the transform no longer keeps state, remove"
        " spec.checkpoint.stateVolume"
    )


class OperatorStateIncompatible(CheckpointError):
    """The transform's operators are not those whose state is on the volume; Spark's words are in the message."""

    reason = "OperatorStateIncompatible"
    fatal = True
    default_remedy = (
        "take the change of the transform back (other operators, keys or columns under an aggregation, deduplication or"
        " join), or create a job with another name, which starts with empty state, and source.startup.mode"
        " SPECIFIC_OFFSETS (`python -m sparkapp checkpoint show` has the offsets). If the transform no longer keeps"
        " state, remove spec.checkpoint.stateVolume"
    )


class VolumeUnusable(KafkaSparkJobError):
    """A file of the job could not be written; the message has the path and the system's words.

    Nothing was decided by the write, and what was there before is still there. Started again with backoff.
    """

    reason = "VolumeUnusable"
    default_remedy = (
        "check the volume that the message names: the claim of spec.checkpoint.stateVolume.claimName, or else the"
        " node's disk; the job goes on by itself"
    )


class VolumeFull(VolumeUnusable):
    """No byte is left on the volume, or none that the job may have."""

    reason = "VolumeFull"
    default_remedy = (
        "make room on the volume that the message names: with spec.checkpoint.stateVolume.claimName enlarge the claim"
        " (kubectl edit pvc CLAIM), else free the node's disk; the job goes on by itself"
    )


class TransactionError(KafkaSparkJobError):
    """A step of the two-phase commit failed."""

    reason = "TransactionFailed"


class ProducersPoolEmpty(TransactionError):
    """Every transactional id of the subtask belongs to a checkpoint that is not yet committed (cases T01, T08)."""

    reason = "ProducersPoolEmpty"
    default_remedy = "raise spec.sink.producersPoolSize"


class TransactionFenced(TransactionError):
    """A newer producer took over the transactional id."""

    reason = "TransactionFenced"
    default_remedy = "nothing, if the job restarted by itself; else look for a second job with the same prefix"


class CommitOutcomeUnknown(TransactionError):
    """A commit was sent and no answer came within the deadline; the next attempt settles it."""

    reason = "CommitOutcomeUnknown"
    default_remedy = "check the brokers; the next attempt of the driver settles the transaction"


class PreCommitFailed(TransactionError):
    """Flush left records, or a delivery report was a failure: nothing of this transaction may be committed."""

    reason = "PreCommitFailed"
    default_remedy = "check the sink topic's brokers (and max.message.bytes); the job writes the range again"


class TransactionLost(TransactionError):
    """The brokers have aborted a transaction of the last checkpoint, and ``sink.lostTransactionPolicy`` is Fail.

    Nothing of it is visible, and nothing was written since: a replay is as exactly once later as it is now.
    """

    reason = "TransactionLost"
    fatal = True
    default_remedy = (
        "look for what has kept the job from its commit (was it down for longer than"
        " spec.sink.transactionTimeoutSeconds?), then set spec.sink.lostTransactionPolicy: Replay, which reads these"
        " records again and writes them; set it back to Fail when the job runs"
    )


class StateUncertain(TransactionError):
    """Neither going on nor going back is exactly once: what became of a transaction cannot be proven, or part of a
    checkpoint that shuffles or cuts partitions is committed and part is lost."""

    reason = "StateUncertain"
    fatal = True
    default_remedy = (
        "compare the sink topic with its source, then delete the job and create it again with the startup you want"
    )
