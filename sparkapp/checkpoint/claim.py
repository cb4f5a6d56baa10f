"""The claim of an attempt on the job: read right before every effect on Kafka that the document does not guard.

The document's compare-and-swap stops a superseded driver at its next write. Nothing stops its requests to Kafka between
two writes: a paused process sends them when another attempt has long taken over. So the driver reads the claim first,
by a GET without a resource version, which the API server answers with its latest version. The remaining risk is a pause
exactly between the answer and the brokers' receipt of the request.
"""

from __future__ import annotations

from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.errors import CheckpointConflict, CheckpointMissing, CheckpointRefused


def has_drained(store: CheckpointStore, *, job_uid: str, attempt: int) -> bool:
    """Whether an earlier attempt has stopped in order, and left nothing open; called by a standby driver.

    Not at the end of a bounded job, which the operator judges.

    :raises CheckpointError: the document cannot be read, or is another job's.
    """
    text = store.read().text
    document = None if text is None else decode(text, job_uid=job_uid)
    return document is not None and document.drained and not document.finished and document.attempt < attempt


class Claim:
    """The claim of one attempt on the document; made by the driver, used from any thread.

    :param store: of the document that recovery claims for this attempt.
    :param job_uid: of the resource that owns the state.
    :param attempt: whose claim it is.
    :ivar job_uid: the same.
    """

    def __init__(self, store: CheckpointStore, *, job_uid: str, attempt: int) -> None:
        self._store = store
        self.job_uid = job_uid
        self._attempt = attempt

    def require(self) -> None:
        """Reads the document and returns if it still has this attempt's claim.

        :raises CheckpointConflict: another attempt claimed it, or somebody emptied it.
        :raises CheckpointForeign: the job was recreated. :raises CheckpointMissing: the document does not exist.
        :raises CheckpointError: the document cannot be read, so the claim is unknown.
        """
        text = self._store.read().text
        if text is None:
            msg = f"the checkpoint that attempt {self._attempt} claimed is empty"
            raise CheckpointConflict(msg)
        owner = decode(text, job_uid=self.job_uid).attempt
        if owner != self._attempt:
            msg = f"attempt {owner} has claimed the checkpoint, this is attempt {self._attempt}"
            raise CheckpointConflict(msg)

    def require_no_successor(self) -> None:
        """:meth:`require` for sweeps, which also end the open transactions of a deleted job.

        Deleting a job deletes its document and the driver's right to read it, in any order. No attempt of the job
        can start after that, so neither stops a sweep.

        :raises CheckpointError: as :meth:`require`, except these two.
        """
        try:
            self.require()
        except (CheckpointMissing, CheckpointRefused):
            return
