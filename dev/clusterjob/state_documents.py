"""The job's checkpoint documents, with the moments at which their checkpoints became final."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from clusterjob.kubectl import Kubectl, Object
from clusterjob.watch import PATIENCE, Objects, Watch
from sparkapp.model import names


@dataclass(frozen=True, slots=True)
class Document:
    """A summary of a checkpoint document.

    :param at: when it was seen, by :func:`time.monotonic`.
    :param aborted: transactions that recoveries have aborted so far.
    """

    at: float
    attempt: int
    checkpoint: int
    records_in: int
    aborted: int


class StateDocuments:
    """Follows the state ConfigMap of a job; a context manager. It only reads: the driver alone writes."""

    def __init__(self, kubectl: Kubectl, job: str) -> None:
        self._name = names.state_config_map(job)
        self._watch = Watch(kubectl, "configmaps", f"--field-selector=metadata.name={self._name}")

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, error, trace)

    @property
    def latest(self) -> Document:
        """The newest document; all zero before the first document."""
        return self._latest(self._watch.objects)

    @property
    def history(self) -> list[Document]:
        """Every document so far, oldest first."""
        return [document for seen in self._watch.seen if (document := document_of(seen.object, seen.at)) is not None]

    def wait(self, checkpoint: int, *, attempt: int = 0, seconds: float = PATIENCE) -> Document:
        """Blocks until a checkpoint of at least this number, by at least this attempt, is final.

        :raises TimedOut: there is none in time.
        """

        def holds(objects: Objects) -> bool:
            found = self._latest(objects)
            return found.checkpoint >= checkpoint and found.attempt >= attempt

        by = f" of attempt {attempt}" if attempt else ""
        return self._latest(self._watch.wait(f"checkpoint {checkpoint}{by}", holds, seconds=seconds))

    def wait_new(self, at: float, *, attempt: int, checkpoint: int, seconds: float = PATIENCE) -> Document:
        """Blocks until a checkpoint above ``checkpoint``, of ``attempt`` or a later attempt, is seen after ``at``.

        An attempt claims the document before it does anything else. A claim is not a checkpoint.

        :raises TimedOut: there is none in time.
        """

        def holds(_: Objects) -> bool:
            return self._first_after(at, attempt, checkpoint) is not None

        self._watch.wait(f"a checkpoint after {checkpoint} by attempt {attempt}", holds, seconds=seconds)
        found = self._first_after(at, attempt, checkpoint)
        assert found is not None, "history only grows"
        return found

    def _first_after(self, at: float, attempt: int, checkpoint: int) -> Document | None:
        last = checkpoint
        for document in self.history:
            if document.attempt < attempt:
                last = max(last, document.checkpoint)
            elif document.at >= at and document.checkpoint > last:
                return document
        return None

    def _latest(self, objects: Objects) -> Document:
        found = objects.get(self._name)
        document = document_of(found, time.monotonic()) if found is not None else None
        return document if document is not None else Document(0.0, 0, 0, 0, 0)


def document_of(config_map: Object, at: float) -> Document | None:
    """The document of a state ConfigMap, or None where it has no readable document."""
    try:
        body: dict[str, Any] = json.loads(config_map.get("data", {})[names.CHECKPOINT_KEY])
        counters = body["counters"]
        return Document(
            at,
            int(body["attempt"]),
            int(body["checkpointId"]),
            int(counters["recordsIn"]),
            int(counters["transactionsAborted"]),
        )
    except (KeyError, ValueError, TypeError):
        return None
