"""Checkpoints in ConfigMaps: the document of the job, and its retained checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from sparkapp.checkpoint.kubernetes.config_map import ConfigMap
from sparkapp.checkpoint.store import Stored
from sparkapp.clients.deadline import Deadline
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import pins_of
from sparkapp.model.checkpoint.state_config_map import check_made_for, document_text
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointMissing,
    CheckpointStoreUnavailable,
)

LOG = logging.getLogger(__name__)


class ConfigMapStore:
    """The checkpoint document under one key of the job's state ConfigMap.

    The version is the ConfigMap's ``resourceVersion``, which the patch has as its precondition. So the API server
    itself refuses a superseded writer. Labels and other keys change the version, too: where the document is still that
    of the expected version, the write is repeated.

    :param uid: of the resource. A ConfigMap of another resource of the name is neither read nor written.
    :param deadline: seconds of retries while the API server does not answer. Longer than an API server's restart, far
        shorter than the transactions' time-out.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, uid: str, deadline: float = 60.0) -> None:
        self._place, self._read_place = (
            ConfigMap(api, namespace=namespace, job=job, uid=uid, name=names.state_config_map(job)) for _ in range(2)
        )
        self._uid = uid
        """A separate instance for reads: a read in another thread must not change ``unanswered`` of a write."""
        self._deadline = deadline
        self._seen: dict[str, str | None] = {}
        """The document by version: the last write's, and every version that was read since."""

    def read(self) -> Stored:
        return self._read(Deadline.after(self._deadline))

    def _read(self, deadline: Deadline) -> Stored:
        body = self._read_place.read(deadline)
        made_for = (body.metadata.annotations or {}).get(names.ANNOTATION_JOB_UID, "")
        check_made_for(self._place.name, made_for, body.data, job_uid=self._uid)
        found = Stored(document_text(self._place.name, body.data, body.binary_data), body.metadata.resource_version)
        self._seen[found.version] = found.text
        return found

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        end = Deadline.after(self._deadline if deadline is None else deadline.bound(self._deadline))
        known = expected in self._seen
        before = self._seen.get(expected)
        while True:
            patch = {"metadata": {"resourceVersion": expected}, "data": {names.CHECKPOINT_KEY: text}}
            try:
                version = str(self._place.patch(patch, end).metadata.resource_version)
            except CheckpointStoreUnavailable:
                raise
            except CheckpointError as refusal:
                conflict = isinstance(refusal, CheckpointConflict)
                if not (self._place.unanswered or conflict):
                    raise
                looking = end if deadline is not None else Deadline.after(self._deadline)
                found = self._after_all(refusal, looking, unanswered=self._place.unanswered)
                if found.text != text:
                    if conflict and known and found.text == before and found.version != expected and not end.expired:
                        LOG.info("ConfigMap %s was changed outside the document; writing again", self._place.name)
                        expected = found.version
                        continue
                    if found.version != expected:
                        msg = f"ConfigMap {self._place.name} was changed by another writer"
                        raise CheckpointConflict(msg) from refusal
                    raise
                version = found.version
            self._seen = {version: text}
            return version

    def _after_all(self, refusal: CheckpointError, deadline: Deadline, *, unanswered: bool) -> Stored:
        """The stored document after a refused write: the write's own text where its answer was lost.

        Only the stored text proves that. A caller that takes a lost answer for a failed write would abort the
        transactions that the document makes final.

        :raises CheckpointError: the refusal, or that the document cannot be read.
        """
        try:
            return self._read(deadline)
        except CheckpointMissing:
            raise
        except CheckpointError as error:
            if not unanswered:
                raise refusal from error
            msg = (
                f"{refusal.message}; an earlier request may have taken effect, which cannot be checked: {error.message}"
            )
            raise CheckpointStoreUnavailable(msg, remedy=refusal.remedy) from error


class ConfigMapRetainedStore:
    """Retained checkpoints, each under a key of the job's checkpoints ConfigMap.

    :param uid: of the resource, as for :class:`ConfigMapStore`.
    :param deadline: seconds of retries while the API server does not answer.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, uid: str, deadline: float = 60.0) -> None:
        self._place = ConfigMap(api, namespace=namespace, job=job, uid=uid, name=names.checkpoints_config_map(job))
        self._deadline = deadline

    def read(self) -> dict[str, str]:
        try:
            body = self._place.read(Deadline.after(self._deadline))
        except CheckpointMissing:
            return {}
        return dict(body.data or {})

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        self._place.merge({**dict.fromkeys(drop), **put}, Deadline.after(self._deadline))

    def pinned(self) -> Collection[int]:
        body = self._place.read(Deadline.after(self._deadline))
        return {pin.checkpoint_id for pin in pins_of(body.metadata.annotations).values()}
