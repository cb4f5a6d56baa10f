"""Restart, in the protocol's order, before anything is produced.

1. Read and validate the document, which has to be of this Kafka cluster. 2. Claim it for this attempt by
compare-and-swap. 3. Settle each committable: commit it, or learn that it was committed, or that it was lost. 4. Abort
every other open transaction of the prefixes. 5. Say where the splits go on: there, or where an earlier checkpoint stood
that ``spec.restoreFrom`` names.
Each step may be repeated by the next attempt if this one dies in between.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sparkapp.checkpoint.cluster_identity import on_cluster, refuse_other_than_named
from sparkapp.checkpoint.edits import refuse_lost_state, signs_of_edit
from sparkapp.checkpoint.restore import Restored, go_back, restore_due
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.rolled_back import GroupMarks, refuse_older_state
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.checkpoint_codec import decode, encode
from sparkapp.model.errors import CheckpointConflict, StateUncertain, TransactionLost
from sparkapp.model.job import Job, LostTransactionPolicy
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.sink.committer import Outcome, Settled

LOG = logging.getLogger(__name__)

_SHOWN = 5
"""Lost ranges in a message."""


class EngineTexts(Protocol):
    """What only the engine can do with its part of a document; :mod:`sparkapp.spark.query_log` in jobs."""

    def rewound(self, engine: str) -> str:
        """Forgets what belonged to records after an earlier checkpoint.

        :raises CheckpointCorrupt: not a text of this engine.
        """
        ...

    def undone(self, document: CheckpointDocument) -> CheckpointDocument:
        """As if the document's checkpoint, which is lost as a whole, had not been computed yet.

        :raises StateUncertain: the document does not say how.
        """
        ...


class TransactionControl(Protocol):
    """What recovery needs of the sink's control plane."""

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        """Fences the drivers of earlier attempts, then commits each committable of the document, or proves what became
        of it with its witness group."""
        ...

    def abort_lingering(self, document: CheckpointDocument) -> int:
        """Aborts every open transaction of the document's prefixes; returns how many."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The state that this attempt goes on from.

    :param document: claimed by this attempt, nothing in it left to settle.
    :param version: of the store, for the next write.
    :param first_start: no attempt has fixed starting offsets yet: the offsets initializer decides.
    :param lost: source ranges whose transactions the broker had aborted; they are read and written again.
    :param committed: transactions that recovery found committed or committed itself.
    :param aborted: lingering transactions that were aborted.
    :param restored: the earlier checkpoint that the job went back to, if this attempt did so.
    :param edited: what shows that the document is not as the job wrote it, in words, or empty. It counts as it is:
        whoever edits offsets, or puts an older document back, means it.
    """

    document: CheckpointDocument
    version: str
    first_start: bool
    lost: tuple[KafkaPartitionSplit, ...]
    committed: int
    aborted: int
    restored: Restored | None = None
    edited: str = ""


def recover(
    job: Job,
    *,
    store: CheckpointStore,
    control: TransactionControl,
    now: str,
    retained: RetainedStore,
    engine: EngineTexts,
    cluster_id: str,
    marks: GroupMarks,
) -> Recovery:
    """Runs the order above; called by the driver once, before the engine starts.

    :param now: RFC 3339 time for the document.
    :param retained: earlier checkpoints, to restore one of them, and to notice what became of the document.
    :param cluster_id: Kafka's id of the cluster that ``control`` talks to, empty where it is not known.
    :param marks: of the job's group, on that cluster.
    :raises ClusterChanged: the document is of another one; nothing was changed.
    :raises StateRolledBack: the job has committed more than the document knows; nothing was changed.
    :raises CheckpointCorrupt: and its neighbours: the document cannot be trusted; nothing was changed.
    :raises CheckpointMissing: there is no document, although checkpoints of this job are kept.
    :raises CheckpointConflict: a newer attempt owns the state.
    :raises StateUncertain: a transaction of the document is neither proven committed nor lost, or a checkpoint without
        ranges is part committed and part lost.
    :raises TransactionLost: a transaction is proven lost, and the job is to fail then.
    :raises CheckpointNotRetained: and CheckpointUnusable, RestoreRefused: the job cannot go back as it is asked to; all
        is settled, and nothing else was changed.
    """
    found = store.read()
    prefix = job.spec.sink.transactional_id_prefix
    edited = ""
    if found.text is None:
        refuse_lost_state(job, retained)
        refuse_other_than_named(job, cluster_id)
        latest = refuse_older_state(None, marks, job)
        claim = CheckpointDocument(
            job_uid=job.uid, attempt=job.attempt, checkpoint_id=0, created_at=now,
            parallelism=job.spec.parallelism, prefix=prefix, cluster_id=cluster_id,
            redeploy_nonce=job.spec.restore.nonce,
        )  # fmt: skip
    else:
        former = decode(found.text, job_uid=job.uid)
        if former.attempt >= job.attempt:
            msg = f"attempt {former.attempt} has claimed the checkpoint, this is attempt {job.attempt}"
            raise CheckpointConflict(msg)
        former = on_cluster(former, job, cluster_id)
        latest = refuse_older_state(former, marks, job)
        engine.rewound(former.engine)  # refuses a text that is not the engine's
        edited = signs_of_edit(former, retained)
        # Parallelism stays the writer's: the committables' ranges are derived with it.
        claim = replace(
            former, attempt=job.attempt, drained=False, prefix=prefix,
            former_prefixes=_without(prefix, former.prefixes),
        )  # fmt: skip
    version = store.write(encode(claim), expected=found.version)
    settled = control.settle(claim)
    try:
        splits, lost = splits_after(claim, settled)
        if job.spec.sink.lost_transaction_policy is LostTransactionPolicy.FAIL:
            _refuse_replay(claim, settled, lost)
        kept = engine.undone(claim) if lost_as_a_whole(claim, settled) else claim
    except (StateUncertain, TransactionLost):
        # A job that stops here must not hold readers up until its transactions' time-out.
        control.abort_lingering(claim)
        raise
    committed = sum(1 for one in settled if one.outcome is Outcome.COMMITTED)
    document = replace(
        kept, splits=splits, committables=(), created_at=now,
        counters=claim.counters.plus(
            records_out=-sum(one.committable.records for one in settled if one.outcome is Outcome.LOST),
            dead_lettered=-sum(one.committable.dead_letters for one in settled if one.outcome is Outcome.LOST),
            records_in=-sum(split.size for split in lost),
            aborted=sum(1 for one in settled if one.outcome is Outcome.LOST),
            committed=-sum(1 for one in settled if one.outcome is Outcome.LOST),
        ),
    )  # fmt: skip
    if settled:
        # At once: brokers forget ids and offsets after a week, and what follows may fail for as long. A crash before
        # this write leaves the same to settle once more, with the same answers; after it, nothing.
        version = store.write(encode(document), expected=version)
    aborted = control.abort_lingering(claim)
    document = replace(document, former_prefixes=(), counters=document.counters.plus(aborted=aborted))
    restored = None
    served = not restore_due(document, job.spec.restore)
    if not served and job.spec.restore.checkpoint:
        # One write holds the offsets and the nonce: a crash neither loses the restore nor repeats it.
        document, restored = go_back(
            document, job.spec.restore, store=retained, engine=engine.rewound,
            after=0 if latest is None else latest.checkpoint_id,
        )  # fmt: skip
    elif not served:
        document = replace(document, redeploy_nonce=job.spec.restore.nonce)
    if aborted or not served:
        version = store.write(encode(document), expected=version)
    for split in lost:
        LOG.warning("transaction lost: %s [%d, %d) is read and written again", split.partition, split.start, split.stop)
    return Recovery(
        document=document, version=version, first_start=claim.checkpoint_id == 0 and not claim.splits,
        lost=lost, committed=committed, aborted=aborted, restored=restored, edited=edited,
    )  # fmt: skip


def splits_after(
    document: CheckpointDocument, settled: Sequence[Settled]
) -> tuple[tuple[KafkaPartitionSplit, ...], tuple[KafkaPartitionSplit, ...]]:
    """The splits to go on from, and the ranges that were lost and must be read again. Pure.

    Where each subtask wrote what it read, exactly the lost ranges go back to their start. Where the pipeline shuffles,
    a transaction holds records of every split, and where a partition was cut among subtasks its ranges are not known:
    the whole checkpoint goes back if all of it is proven lost.

    :raises StateUncertain: neither commit nor loss of a transaction could be proven, whatever the coordinator has
        answered (case C07: an id may expire long after its commit); or a checkpoint without ranges is part committed
        and part lost.
    """
    uncertain = [one for one in settled if one.outcome is Outcome.UNCERTAIN]
    if uncertain:
        shown = ", ".join(f"{one.committable.transactional_id} ({one.answer.name})" for one in uncertain)
        msg = f"checkpoint {document.checkpoint_id}: neither committed nor lost could be proven for {shown}"
        raise StateUncertain(msg)
    gone = [one for one in settled if one.outcome is Outcome.LOST]
    if not gone:
        return document.splits, ()
    if not document.aligned and len(gone) < len(settled):
        ids = ", ".join(f"{one.committable.transactional_id} ({one.answer.name})" for one in gone)
        msg = f"checkpoint {document.checkpoint_id} is part committed; lost: {ids}"
        raise StateUncertain(msg)
    lost = {
        split.partition: split
        for split in (document.splits if not document.aligned else (s for one in gone for s in one.committable.ranges))
        if split.size
    }
    splits = tuple(
        KafkaPartitionSplit(split.partition, split.start, split.start) if split.partition in lost else split
        for split in document.splits
    )
    return splits, tuple(lost[partition] for partition in sorted(lost))


def lost_as_a_whole(document: CheckpointDocument, settled: Sequence[Settled]) -> bool:
    """Whether the checkpoint is to be computed again, and not only what some of its subtasks read. Pure."""
    return not document.aligned and any(one.outcome is Outcome.LOST for one in settled)


def _refuse_replay(
    document: CheckpointDocument, settled: Sequence[Settled], lost: Sequence[KafkaPartitionSplit]
) -> None:
    """The document goes on naming them, so every further attempt finds the same until it may replay."""
    gone = [one for one in settled if one.outcome is Outcome.LOST]
    if not gone:
        return
    ids = ", ".join(f"{one.committable.transactional_id} ({one.answer.name})" for one in gone)
    ranges = ", ".join(f"{split.partition} [{split.start}, {split.stop})" for split in lost[:_SHOWN])
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    msg = (
        f"checkpoint {document.checkpoint_id}: the brokers have aborted {ids}, with"
        f" {sum(one.committable.records for one in gone)} record(s) made of {ranges}{more}"
    )
    raise TransactionLost(msg)


def _without(prefix: str, former: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in former if one != prefix))
