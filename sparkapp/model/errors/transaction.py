"""Errors of the two-phase commit."""

from __future__ import annotations

from sparkapp.model.errors.base import STATE_VALID, KafkaSparkJobError


class TransactionError(KafkaSparkJobError):
    """A step of the two-phase commit failed, for a cause without a reason of its own."""

    reason = "TransactionFailed"


class ProducersPoolEmpty(TransactionError):
    """Every transactional id of the subtask belongs to a checkpoint that is not committed yet (cases T01, T08)."""

    reason = "ProducersPoolEmpty"
    default_remedy = "raise spec.sink.transactions.producersPoolSize"


class TransactionFenced(TransactionError):
    """A newer producer took over the transactional id."""

    reason = "TransactionFenced"
    default_remedy = (
        "nothing to do if it happens once: the job restarts by itself; if it repeats, find the other job with the same"
        " prefix: `python3 -m sparkapp txn list --namespace NAMESPACE --job NAME`"
    )


class CommitOutcomeUnknown(TransactionError):
    """The checkpoint is final, and no answer says whether its transactions are committed.

    The next attempt settles it, by the transactions or the group's offsets.
    """

    reason = "CommitOutcomeUnknown"
    default_remedy = "check the brokers; the next attempt of the driver settles the transaction"


class PreCommitFailed(TransactionError):
    """Records remained after the flush, or a delivery report was a failure: this transaction must not be committed.

    Nothing of it is committed.
    """

    reason = "PreCommitFailed"
    default_remedy = "check the sink topic's brokers and its max.message.bytes; the job writes the range again"


class TransactionLost(TransactionError):
    """The brokers aborted a transaction of the last checkpoint, and ``sink.onTransactionLost`` is Fail.

    Nothing of it is visible, and nothing was written since: a later replay is exactly once, too.
    """

    reason = "TransactionLost"
    fatal = True
    condition = STATE_VALID
    default_remedy = (
        "find what delayed the commit (was the job down for longer than spec.sink.transactions.timeoutSeconds?). Then"
        " read and write these records again: kubectl patch ksj NAME -n NAMESPACE --type merge -p"
        ' \'{"spec":{"sink":{"onTransactionLost":"Replay"}}}\'; set it back to Fail when the job runs'
    )


class StateUncertain(TransactionError):
    """Neither a resume nor a replay is exactly once.

    Either the end of a transaction cannot be proven, or a checkpoint that shuffles or cuts partitions is committed in
    part and lost in part.
    """

    reason = "StateUncertain"
    fatal = True
    condition = STATE_VALID
    default_remedy = (
        "compare the sink topic with its source; then delete the job and create it again with a fitting"
        " source.startup.mode"
    )


class TransactionHanging(StateUncertain):
    """A partition lacks the marker of a transaction whose outcome no coordinator knows any more (ADR 68).

    Another program, or a release before, has used the id. The message names id, partition and offset. Either marker may
    be the wrong marker: an abort loses committed records, and a commit repeats aborted records.
    """

    reason = "TransactionHanging"
    default_remedy = (
        "`python3 -m sparkapp txn hanging --namespace NAMESPACE --job NAME` lists what hangs. Compare the records from"
        " the named offset with the rest of the sink: aborted records are there a second time. Then write the marker:"
        " `python3 -m sparkapp txn end ID --producer-id N --outcome commit|abort --namespace NAMESPACE --job"
        " NAME --yes`"
    )


class GroupOffsetsBehind(StateUncertain):
    """The group has an offset of this job that is older than the document: offsets of the brokers were set back.

    The job has ``checkpoint.commitIntervalMillis`` and crashed, so its group says where its output ends.
    """

    reason = "GroupOffsetsBehind"


class GroupOffsetsMoved(StateUncertain):
    """Somebody else has set offsets of the group, so where the job's commits ended is not known.

    The job has ``checkpoint.commitIntervalMillis`` and crashed.
    """

    reason = "GroupOffsetsMoved"


class GroupOffsetsMissing(StateUncertain):
    """The group has no offset where the job has committed one: it was deleted, or has expired.

    The job has ``checkpoint.commitIntervalMillis`` and crashed.
    """

    reason = "GroupOffsetsMissing"
