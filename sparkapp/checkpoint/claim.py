"""Whether this attempt still owns the job: asked right before every effect on Kafka that the document does not guard.

The document's compare-and-swap stops a superseded driver at its next write. What a driver does on Kafka between two
writes is stopped by nothing: a process that stood still does it when another attempt has long taken over. So it reads
the claim first. The read is the API server's latest word (a GET without a resource version), and what remains is the
time from its answer until the brokers have the request: a process that stands still exactly there.
"""

from __future__ import annotations

from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.checkpoint_codec import decode
from sparkapp.model.errors import CheckpointConflict, CheckpointMissing, CheckpointRefused


class Claim:
    """One attempt's claim on the document; made by the driver, used from any thread.

    :param store: of the document that recovery claims for this attempt.
    :param job_uid: of the resource that owns the state.
    :param attempt: whose claim it is.
    """

    def __init__(self, store: CheckpointStore, *, job_uid: str, attempt: int) -> None:
        self._store = store
        self._job_uid = job_uid
        self._attempt = attempt

    def require(self) -> None:
        """Returns if the document is still this attempt's, as a fresh read tells.

        :raises CheckpointConflict: another attempt has claimed it, or somebody emptied it.
        :raises CheckpointForeign: the job was recreated. :raises CheckpointMissing: there is no document.
        :raises CheckpointError: it cannot be read, so nothing is known.
        """
        text = self._store.read().text
        if text is None:
            msg = f"the checkpoint that attempt {self._attempt} has claimed is empty"
            raise CheckpointConflict(msg)
        owner = decode(text, job_uid=self._job_uid).attempt
        if owner != self._attempt:
            msg = f"attempt {owner} has claimed the checkpoint, this is attempt {self._attempt}"
            raise CheckpointConflict(msg)

    def require_no_successor(self) -> None:
        """:meth:`require` for sweeps, which also end what a deleted job has open.

        Deleting a job deletes its document and the driver's right to read it, in any order. No attempt of the job
        can start after that, so neither stops a sweep.

        :raises CheckpointError: as :meth:`require`, except these two.
        """
        try:
            self.require()
        except (CheckpointMissing, CheckpointRefused):
            return
