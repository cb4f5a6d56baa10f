"""The folder of an attempt's query."""

from __future__ import annotations

from pathlib import Path

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.job.spec import Job
from sparkapp.spark.state import query_log, state_store_files


def query_folder(job: Job, folder: Path, document: CheckpointDocument, *, stateful_allowed: bool) -> Path:
    """The folder of the attempt's query, with the files of its state store.

    Called after the transactions of previous attempts are settled, because readers wait for these, and before Spark
    starts the query.

    :raises QueryStateMissing: the volume does not hold the checkpoint's version.
    """
    if not stateful_allowed:
        return folder  # the engine refuses a transform that keeps state
    engine = query_log.restored_engine(document)
    return state_store_files.prepare(
        folder, attempt=job.attempt, writer=engine.attempt,
        version=document.checkpoint_id - engine.base, partitions=engine.state_partitions,
    )  # fmt: skip
