"""Earlier checkpoints: how many are retained, and the checkpoint that a job restores."""

from __future__ import annotations

from sparkapp.model.encoding.schema import Rule, at, held_by, part


@part
class Retention:
    """``spec.checkpoint.retention``."""

    interval_seconds: int = at(
        "Minimum time between retained checkpoints, in seconds. An orderly stop always retains its last checkpoint.",
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

    :param checkpoint: 0 for none.
    """

    checkpoint: int = at(
        "Number of the checkpoint. `python3 -m sparkapp checkpoint list` prints the retained checkpoints.",
        default=0,
        is_long=True,
        low=1,
        form=held_by(_NUMBER),
    )
    nonce: int = at(
        "Request to restore. A higher value drains the job and starts it once at the checkpoint. Cannot decrease.",
        default=0,
        low=0,
        is_long=True,
        form=held_by(_NEVER_LESS),
    )
