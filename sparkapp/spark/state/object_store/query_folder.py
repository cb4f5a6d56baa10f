"""The folder of an attempt's query in an object store (ADR 102).

As on a volume, each attempt has a folder of its own, so an attempt that was replaced changes nothing that a document
names. A store has no links: a start copies the files of the document's version, within the store. An object is whole
when it is listed, and a list has every object that was written before. So the driver lists the state between a batch
and its document.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import ClassVar

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError, QueryStateMissing, StateStoreUnusable
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spec import Job
from sparkapp.spark.state import query_log, state_store_files
from sparkapp.spark.state.listed_folder import ListedFolder
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.object_store.versions import ATTEMPT, attempt_folder, version_of_attempt

LOG = logging.getLogger(__name__)

_SHOWN = 3


@dataclass(slots=True)
class StoredQueryFolder:
    """See :class:`sparkapp.spark.state.query_log.QueryFolder`.

    :param whole: a version of state that has been checked; later versions are its changes. 0 for none.
    """

    unusable: ClassVar[type[KafkaSparkJobError]] = StateStoreUnusable
    store: ObjectStore
    name: str
    whole: int = field(default=0)

    @property
    def uri(self) -> str:
        return f"{self.store.uri}/{self.name}"

    @property
    def state(self) -> ListedFolder:
        """The query state that the store has now.

        :raises StateStoreUnusable: the store did not answer.
        """
        return self.store.listed(f"{self.name}/state")

    def rebuild(self, *, job_uid: str, checkpoint_id: int, engine: query_log.EngineState, sources: int) -> None:
        """:raises StateStoreUnusable: the log is incomplete; the next attempt has a folder of its own."""
        for log in query_log.LOGS:
            self.store.remove(f"{self.name}/{log}")
        files = query_log.log_files(job_uid=job_uid, checkpoint_id=checkpoint_id, engine=engine, sources=sources)
        for name, text in files.items():
            self.store.write(f"{self.name}/{name}", text.encode())

    def metadata(self, batch_id: int) -> str:
        """:raises StateStoreUnusable: the store did not give it."""
        name = f"{self.name}/offsets/{batch_id}"
        try:
            return query_log.metadata_in(self.store.read(name).decode())
        except FileNotFoundError as error:
            msg = f"{self.store.uri}/{name} is not there, though Spark has written it"
            raise StateStoreUnusable(msg) from error

    def settle(self, version: int, partitions: int) -> None:
        """Lists the state: an upload that failed without a word leaves a gap.

        :raises StateStoreUnusable: there is one, or the store did not answer.
        """
        gaps = list(state_store_files.missing(self.state, version, partitions, since=self.whole))
        if gaps:
            shown = listed(gaps, _SHOWN, separator="; ")
            msg = f"version {version} of query state is not whole in {self.uri}/state: {shown}"
            raise StateStoreUnusable(msg)
        self.whole = version


def prepared(job: Job, store: ObjectStore, document: CheckpointDocument) -> StoredQueryFolder:
    """The folder of the attempt, with the query state that the document names and no other.

    Called once, behind the claim and before Spark starts the query.

    :raises QueryStateMissing: the version is not there, or not whole.
    :raises StateStoreUnusable: the store did not answer, or the copy is not whole. The next attempt makes a folder of
        its own.
    """
    engine = query_log.restored_engine(document)
    version, own = document.checkpoint_id - engine.base, attempt_folder(job.attempt)
    source = attempt_folder(engine.attempt) if version else own
    if version:
        _require(store, source, version, engine.state_partitions)
    remove_settled(store, job.attempt, source)
    folder = StoredQueryFolder(store, own, version)
    if source != own or not version:
        store.remove(own)
        if version:
            try:
                needed = version_of_attempt(store, engine.attempt, version, engine.state_partitions)
            except FileNotFoundError as error:
                msg = f"a snapshot of query state went while {store.uri}/{source} was read: {error}"
                raise StateStoreUnusable(msg) from error
            needed.copy_to(store, own)
            LOG.info("copied %d objects of version %d of query state", len(needed.objects), version)
            folder = StoredQueryFolder(store, own)
            folder.settle(version, engine.state_partitions)
    return folder


def remove_settled(store: ObjectStore, attempt: int, kept: str) -> None:
    """Removes the folders of earlier attempts before a copy, as on a volume.

    :param kept: the folder that the document in its store names.
    """
    for name in store.folders():
        number = name.removeprefix(ATTEMPT)
        if name != number and number.isdigit() and int(number) < attempt and name != kept:
            store.remove(name)


def _require(store: ObjectStore, folder: str, version: int, partitions: int) -> None:
    """:raises QueryStateMissing: the store has listed the version, which is not whole."""
    state = store.listed(f"{folder}/state")
    if not state.is_dir():
        store.require_bucket()
    gaps = list(state_store_files.missing(state, version, partitions))
    if gaps:
        shown = listed(gaps, _SHOWN, separator="; ")
        msg = f"version {version} of the checkpoint's query state is not in {store.uri}/{folder}/state: {shown}"
        raise QueryStateMissing(msg)
