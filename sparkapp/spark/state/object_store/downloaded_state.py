"""The query state of a checkpoint on a disk, from an object store: Spark's sources then read it without its client."""

from __future__ import annotations

from pathlib import Path

from sparkapp.model.errors import QueryStateMissing
from sparkapp.spark.state import query_log, state_store_files
from sparkapp.spark.state.object_store.retained_folder import find
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.object_store.versions import version_of_attempt


def download(store: ObjectStore, checkpoint_id: int, engine: str, folder: Path) -> None:
    """Writes the version of a checkpoint where a volume would have it; called by ``kafkaspark state``.

    :param store: the folder of the job. :param engine: the engine's text of the checkpoint's document or entry.
    :param folder: gets what the job's folder on a volume would have; read by :mod:`sparkapp.spark.state.state_reader`.
    :raises QueryStateMissing: the store does not have it whole.
    :raises StateStoreUnusable: the store did not answer.
    """
    state = query_log.decode_engine(engine)
    target = state_store_files.folder_of_state(folder, state) / "state"
    try:
        if state.retained is None:
            version = version_of_attempt(store, state.attempt, checkpoint_id - state.base, state.state_partitions)
        else:
            version = find(store, checkpoint_id, engine)
        target.mkdir(parents=True, exist_ok=True)
        version.write_to(target)
    except FileNotFoundError as error:
        msg = f"the state of checkpoint {checkpoint_id} cannot be read: {error}"
        raise QueryStateMissing(msg, remedy="read again: the job may have moved on") from error
