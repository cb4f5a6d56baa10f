"""Earlier checkpoints: how many are retained, and the checkpoint that a job restores."""

from __future__ import annotations

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.encoding.schema import Rule, at, held_by, part
from sparkapp.model.job.forms import OBJECT


@part
class Retention:
    """``spec.checkpoint.retention``."""

    interval_seconds: int = at(
        "Minimum time between retained checkpoints, in seconds. An orderly stop retains its last checkpoint, too.",
        default=60,
        low=1,
        high=86400,
    )
    count: int = at("Number of checkpoints to retain. 0 disables retention.", default=10, low=0, high=50)


_NUMBER = Rule(
    "self >= 1",
    "restore.checkpoint must be a checkpoint's number, 1 or more: `python3 -m sparkapp checkpoint list` prints the"
    " retained checkpoints",
)
_NEVER_LESS = Rule(
    "self >= oldSelf",
    "restore.nonce cannot decrease: each value restores once; set a higher value to restore again",
)


@part
class Restore:
    """``spec.restore``.

    :param checkpoint: 0 for none. :param snapshot: empty for none.
    """

    checkpoint: int = at(
        "Number of the checkpoint. `python3 -m sparkapp checkpoint list` prints the retained checkpoints.",
        default=0,
        is_long=True,
        low=1,
        form=held_by(_NUMBER),
    )
    snapshot: str = at(
        "Name of a KafkaSparkSnapshot in the namespace of the job, instead of checkpoint. It may be of another job.",
        default="",
        form=OBJECT,
    )
    nonce: int = at(
        "Request to restore. A higher value drains the job and starts it once at the checkpoint. Cannot decrease.",
        default=0,
        low=0,
        is_long=True,
        form=held_by(_NEVER_LESS),
    )

    @property
    def names_target(self) -> bool:
        """Whether a higher nonce goes back to a checkpoint. Without a target it is a restart."""
        return bool(self.checkpoint or self.snapshot)


def is_first_start(document: CheckpointDocument | None) -> bool:
    """True where no attempt has fixed starting offsets yet, or none since a stateless start.

    :param document: None where the state is empty.
    """
    if document is None:
        return True
    begun = 0 if document.stateless is None else document.stateless.checkpoint_id
    return document.checkpoint_id in {0, begun} and not document.splits


def stateless_due(document: CheckpointDocument, asked_by: int) -> bool:
    """Whether a start leaves the checkpoint behind: it is asked to, and the document has not served that request.

    :param asked_by: :attr:`sparkapp.model.job.spec.Job.stateless` of the attempt.
    """
    return asked_by > (0 if document.stateless is None else document.stateless.asked_by)


def restore_due(document: CheckpointDocument, restore: Restore) -> bool:
    """Whether the nonce is higher than the last nonce that the document served."""
    return restore.nonce > document.redeploy_nonce


def due_snapshot(start: str, restore: Restore, document: CheckpointDocument | None, *, stateless: int = 0) -> str:
    """The snapshot that an attempt begins at; empty for none.

    Called by the operator, which puts its checkpoint into the attempt's ConfigMap, and by the driver's recovery.

    :param start: ``spec.startFrom.snapshot``; empty for none.
    :param document: None where the state is empty.
    :param stateless: as of :func:`stateless_due`.
    """
    if document is None or is_first_start(document):
        return start
    if restore_due(document, restore) and (restore.names_target or not stateless_due(document, stateless)):
        return restore.snapshot
    return start if stateless_due(document, stateless) else ""
