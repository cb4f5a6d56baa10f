"""A job goes back to retained state in an object store, or begins with that of another job (ADR 106).

The objects are copied into the folder of the attempt, before the document names it. So what is retained is only read,
and may be removed as soon as the document is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkapp.model import names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import CheckpointUnusable
from sparkapp.spark.state import query_log
from sparkapp.spark.state.adopted_state import refuse_without_job
from sparkapp.spark.state.object_store.query_folder import StoredQueryFolder, remove_settled
from sparkapp.spark.state.object_store.retained_folder import find
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.object_store.versions import attempt_folder


@dataclass(frozen=True, slots=True)
class StoredQueryState:
    """See :class:`sparkapp.checkpoint.recovery.engine_texts.EngineTexts`; made by the wiring.

    :param store: the folder of the job.
    """

    store: ObjectStore

    def rewound(self, engine: str) -> str:
        """See :func:`sparkapp.spark.state.query_log.rewound`."""
        return query_log.rewound(engine)

    def undone(self, document: CheckpointDocument) -> CheckpointDocument:
        """See :func:`sparkapp.spark.state.query_log.undone`."""
        return query_log.undone(document)

    def gone_back(self, engine: str, target: RetainedCheckpoint, *, number: int, attempt: int, recorded: str) -> str:
        """The engine's text for a checkpoint with the state of ``target``, which this copies for the attempt.

        :param number: of the new checkpoint.
        :param recorded: the text that the document has in its store. The state that it names stays.
        :raises CheckpointUnusable: the store does not have the state, or the text of ``target`` does not name it.
        :raises StateStoreUnusable: the copy is incomplete; the next attempt makes another.
        """
        text = query_log.restored(engine, target.engine, checkpoint_id=target.checkpoint_id, number=number)
        gone = query_log.decode_engine(text)
        if gone.retained is None:
            return text  # the current checkpoint: the folder of its attempt is copied as at any start
        try:
            self._copy(target, self.store, attempt, recorded)
        except FileNotFoundError as error:
            raise CheckpointUnusable(
                f"the state of checkpoint {target.checkpoint_id} cannot be used: {error}"
            ) from error
        return query_log.encode_engine(replace(gone, attempt=attempt, retained=None))

    def adopted(self, engine: str, target: RetainedCheckpoint, *, number: int, attempt: int, recorded: str) -> str:
        """The engine's text for a checkpoint with the state of another job's checkpoint, which this copies.

        :raises CheckpointUnusable: that state is not in the bucket, or not whole, or that of another checkpoint.
        :raises StateStoreUnusable: the copy is incomplete; the next attempt makes another.
        """
        text = query_log.adopted(
            engine, target.engine, checkpoint_id=target.checkpoint_id, number=number, attempt=attempt
        )
        refuse_without_job(target)
        try:
            self._copy(target, self.store.of_job(target.job_uid), attempt, recorded)
        except FileNotFoundError as error:
            whose = f"the state of checkpoint {target.checkpoint_id} of the job with UID {target.job_uid}"
            folder = f"{target.job_uid}/{names.RETAINED_STATE}"
            remedy = (
                "name the bucket and the prefix of that job in spec.checkpoint.state.storage.s3, or copy its folder"
                f" {folder} to the same place below {self.store.storage.shown}; then change spec.restartNonce"
            )
            raise CheckpointUnusable(f"{whose} cannot be used: {error}", remedy=remedy) from error
        return text

    def _copy(self, target: RetainedCheckpoint, source: ObjectStore, attempt: int, recorded: str) -> None:
        """
        :param recorded: the engine's text of the document in its store.
        :raises FileNotFoundError: the version is not there, or not whole.
        :raises StateStoreUnusable: the copy is not whole.
        """
        engine, own = query_log.decode_engine(target.engine), attempt_folder(attempt)
        version = find(source, target.checkpoint_id, target.engine)
        remove_settled(self.store, attempt, attempt_folder(query_log.decode_engine(recorded).attempt))
        self.store.remove(own)
        version.copy_to(self.store, own)
        StoredQueryFolder(self.store, own).settle(target.checkpoint_id - engine.base, engine.state_partitions)
