"""Restart, in the protocol's order, before anything is produced.

1. Read and validate the document, which must be of these Kafka clusters. 2. Claim it for this attempt by
compare-and-swap. Both are repeated where an earlier driver writes in between. 3. Settle each committable: commit it, or
prove that it was committed or lost. 4. Abort every other open transaction of the prefixes. 5. Decide where the splits
resume: at the document's offsets, or at the earlier checkpoint that ``spec.restore`` names, or nowhere yet (ADR 97).
Where subtasks committed by themselves the group's offsets decide (ADR 56).
The next attempt may repeat each step if this attempt dies in between.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkapp.checkpoint.recovery.claimed_document import claim_document
from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.engine_texts import EngineTexts
from sparkapp.checkpoint.recovery.local_starts import resumed
from sparkapp.checkpoint.recovery.restore import Restored, begin_at, go_back
from sparkapp.checkpoint.recovery.rolled_back import GroupMarks
from sparkapp.checkpoint.recovery.stateless import Left, leave_behind, noted
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, Mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import StateUncertain, TransactionLost
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.sections.retention import is_first_start, restore_due, stateless_due
from sparkapp.model.job.sections.sink import OnTransactionLost
from sparkapp.model.job.spec import Job
from sparkapp.sink.committer import Settled
from sparkapp.sink.ending.transaction_control import TransactionControl

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The state that this attempt resumes from.

    :param document: claimed by this attempt, with nothing left to settle.
    :param version: of the store, for the next write.
    :param first_start: no attempt has fixed starting offsets yet: the offsets initializer decides.
    :param lost: source ranges whose transactions the broker had aborted; they are read and written again.
    :param committed: transactions that recovery found committed or committed itself.
    :param aborted: lingering transactions that were aborted.
    :param restored: the earlier checkpoint that this attempt restored, if any.
    :param left: what a stateless start has left behind, if this attempt is one.
    :param edited: evidence that somebody changed the document, as text for an event; empty without evidence. An edit
        is respected: a person who edits offsets, or restores an older document, intends it.
    """

    document: CheckpointDocument
    version: str
    first_start: bool
    lost: tuple[KafkaPartitionSplit, ...]
    committed: int
    aborted: int
    restored: Restored | None = None
    left: Left | None = None
    edited: str = ""


def recover(
    job: Job,
    *,
    store: CheckpointStore,
    control: TransactionControl,
    now: str,
    retained: RetainedStore,
    engine: EngineTexts,
    clusters: ClusterIds,
    marks: GroupMarks,
) -> Recovery:
    """Runs the order above; called by the driver once, before the engine starts.

    :param now: RFC 3339 time for the document.
    :param retained: earlier checkpoints, for a restore, and to detect changes of the document.
    :param clusters: Kafka's ids of the clusters that ``marks`` and ``control`` ask.
    :param marks: of the job's group.
    :raises ClusterChanged: the document or the spec is of another cluster; nothing was changed.
    :raises StateRolledBack: the job has committed more than the document knows; nothing was changed.
    :raises CheckpointError: the document cannot be read, or is another job's; nothing was changed.
    :raises CheckpointMissing: there is no document, although checkpoints of this job are retained.
    :raises CheckpointConflict: a newer attempt owns the state, or another writer was faster each time.
    :raises StateUncertain: a transaction of the document is neither proven committed nor lost, or a checkpoint without
        ranges is part committed and part lost.
        Or the group of a document of the local pace does not say where the job's commits ended.
    :raises TransactionLost: a transaction is proven lost, and the job is to fail then.
    :raises CheckpointNotRetained: the checkpoint to restore is not retained. The committables are settled; nothing else
        was changed.
    :raises CheckpointUnusable: likewise: it cannot be read.
    :raises RestoreRefused: likewise: operators keep state, and that of the checkpoint is not retained.
    """
    claimed = claim_document(
        job, store=store, now=now, retained=retained, engine=engine, clusters=clusters, marks=marks
    )  # fmt: skip
    claim, version, latest = claimed.document, claimed.version, claimed.latest
    settled = control.settle(claim)
    try:
        splits, lost = splits_after(claim, settled)
        if job.spec.sink.on_transaction_lost is OnTransactionLost.FAIL:
            _refuse_replay(claim, settled, lost)
        kept = engine.undone(claim) if lost_as_a_whole(claim, settled) else claim
    except (StateUncertain, TransactionLost):
        # Open transactions would block read_committed readers until their time-out.
        control.abort_lingering(claim)
        raise
    committed = sum(1 for transaction in settled if transaction.outcome is CommitOutcome.COMMITTED)
    lost_committables = [
        transaction.committable for transaction in settled if transaction.outcome is CommitOutcome.LOST
    ]
    document = replace(
        kept, splits=splits, committables=(), created_at=now,
        counters=claim.counters.plus(
            records_out=-sum(committable.records for committable in lost_committables),
            dead_lettered=-sum(committable.dead_letters for committable in lost_committables),
            records_in=-sum(split.size for split in lost),
            aborted=len(lost_committables),
            committed=-len(lost_committables),
        ),
    )  # fmt: skip
    if settled:
        # At once: brokers forget ids and offsets after a week, and the next steps may fail for as long. After a crash
        # before this write, the next attempt settles the same committables with the same answers.
        version = store.write(encode(document), expected=version)
    aborted = control.abort_lingering(document)
    document = replace(document, previous_prefixes=(), counters=document.counters.plus(aborted=aborted))
    asked = restore_due(document, job.spec.restore) or stateless_due(document, job.stateless)
    recorded, left = document, None
    if document.local is not None and not job.settles_only:
        document = resumed(document, document.local, marks.final(claim), job, forced=_gives_up(document, job))
    if stateless_due(document, job.stateless):
        document, left = _stateless(document, job, latest)
        lost = () if left is not None else lost
    document, restored = _served(
        document, job, retained=retained, engine=engine, latest=latest, recorded=recorded, snapshot=claimed.snapshot
    )
    if aborted or asked or restored is not None:
        version = store.write(encode(document), expected=version)
    for split in lost:
        LOG.warning("transaction lost: %s [%d, %d) is read and written again", split.partition, split.start, split.stop)
    return Recovery(
        document=document, version=version, first_start=is_first_start(document),
        lost=lost, committed=committed, aborted=aborted, restored=restored, left=left, edited=claimed.edited,
    )  # fmt: skip


def _goes_back(document: CheckpointDocument, job: Job) -> bool:
    return restore_due(document, job.spec.restore) and job.spec.restore.names_target


def _gives_up(document: CheckpointDocument, job: Job) -> bool:
    """Whether the job is not to resume, so that it does not matter where the group says that its commits ended."""
    return _goes_back(document, job) or stateless_due(document, job.stateless)


def _stateless(document: CheckpointDocument, job: Job, latest: Mark | None) -> tuple[CheckpointDocument, Left | None]:
    """The document of a stateless start. One write holds that and the request: a crash neither loses nor repeats it.

    Nothing is left behind by a first start, nor where ``spec.restore`` names the checkpoint to begin at.
    """
    if _goes_back(document, job) or is_first_start(document):
        return replace(document, stateless=noted(job, document)), None
    return leave_behind(document, job, after=_number(latest))


def _served(
    document: CheckpointDocument,
    job: Job,
    *,
    retained: RetainedStore,
    engine: EngineTexts,
    latest: Mark | None,
    recorded: CheckpointDocument,
    snapshot: RetainedCheckpoint | None,
) -> tuple[CheckpointDocument, Restored | None]:
    """The document after ``spec.restore`` with a new nonce, and after ``spec.startFrom`` of a first start.

    One write holds the offsets and the nonce: a crash neither loses the restore nor repeats it.
    """
    restore = job.spec.restore
    is_first = is_first_start(document)
    if restore_due(document, restore):
        if restore.checkpoint or (restore.snapshot and not is_first):
            return go_back(
                document, restore, store=retained, engine=engine, after=_number(latest), recorded=recorded,
                snapshot=snapshot,
            )  # fmt: skip
        document = replace(document, redeploy_nonce=restore.nonce)
    if is_first and snapshot is not None:
        return begin_at(document, job.spec.start_snapshot, snapshot, engine=engine, recorded=recorded)
    return document, None


def _number(latest: Mark | None) -> int:
    return 0 if latest is None else latest.checkpoint_id


def splits_after(
    document: CheckpointDocument, settled: Sequence[Settled]
) -> tuple[tuple[KafkaPartitionSplit, ...], tuple[KafkaPartitionSplit, ...]]:
    """The splits to resume from, and the lost ranges, which must be read again. Pure.

    Where each subtask wrote what it read, exactly the lost ranges go back to their start. Where the pipeline shuffles,
    a transaction holds records of every split. Where a partition was cut among subtasks, its ranges are unknown. In
    both cases the whole checkpoint goes back if all of it is proven lost.

    :raises StateUncertain: neither commit nor loss of a transaction could be proven (case C07: an id may expire long
        after its commit). Or a checkpoint without ranges is committed in part and lost in part.
    """
    uncertain = [transaction for transaction in settled if transaction.outcome is CommitOutcome.UNCERTAIN]
    if uncertain:
        shown = ", ".join(
            f"{transaction.committable.transactional_id} ({transaction.answer.name})" for transaction in uncertain
        )
        msg = f"checkpoint {document.checkpoint_id}: neither committed nor lost could be proven for {shown}"
        raise StateUncertain(msg)
    gone = [transaction for transaction in settled if transaction.outcome is CommitOutcome.LOST]
    if not gone:
        return document.splits, ()
    if not document.aligned and len(gone) < len(settled):
        ids = ", ".join(
            f"{transaction.committable.transactional_id} ({transaction.answer.name})" for transaction in gone
        )
        msg = f"checkpoint {document.checkpoint_id} is part committed; lost: {ids}"
        raise StateUncertain(msg)
    lost = {
        split.partition: split
        for split in (
            document.splits
            if not document.aligned
            else (s for transaction in gone for s in transaction.committable.ranges)
        )
        if split.size
    }
    splits = tuple(
        KafkaPartitionSplit(split.partition, split.start, split.start) if split.partition in lost else split
        for split in document.splits
    )
    return splits, tuple(lost[partition] for partition in sorted(lost))


def lost_as_a_whole(document: CheckpointDocument, settled: Sequence[Settled]) -> bool:
    """Whether the checkpoint is to be computed again, and not only what some of its subtasks read. Pure."""
    return not document.aligned and any(transaction.outcome is CommitOutcome.LOST for transaction in settled)


def _refuse_replay(
    document: CheckpointDocument, settled: Sequence[Settled], lost: Sequence[KafkaPartitionSplit]
) -> None:
    """:raises TransactionLost: until the policy allows a replay: the document still names the transactions."""
    gone = [transaction for transaction in settled if transaction.outcome is CommitOutcome.LOST]
    if not gone:
        return
    ids = ", ".join(f"{transaction.committable.transactional_id} ({transaction.answer.name})" for transaction in gone)
    ranges = listed(f"{split.partition} [{split.start}, {split.stop})" for split in lost)
    msg = (
        f"checkpoint {document.checkpoint_id}: the brokers have aborted {ids}, with"
        f" {sum(transaction.committable.records for transaction in gone)} record(s) made of {ranges}"
    )
    raise TransactionLost(msg)
