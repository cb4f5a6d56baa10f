"""The job's checkpoint documents as they are written: the exact moments at which checkpoints became final."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from demo.kubectl import Kubectl, Object
from demo.watch import Objects, Watch
from sparkapp.model import names


@dataclass(frozen=True, slots=True)
class Document:
    """What a reader from outside wants of a document; ``at`` is when it was seen, by :func:`time.monotonic`."""

    at: float
    attempt: int
    checkpoint: int
    records_in: int


class StateDocuments:
    """Follows the state ConfigMap of one job; a context manager. Reads only: the driver alone writes it."""

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
        """The newest one; all zero before the first."""
        return self._latest(self._watch.objects)

    @property
    def history(self) -> list[Document]:
        """Every one so far, oldest first."""
        return [document for seen in self._watch.seen if (document := document_of(seen.object, seen.at)) is not None]

    def wait(self, checkpoint: int, *, attempt: int = 0, seconds: float) -> Document:
        """Blocks until a checkpoint of at least this number, by at least this attempt, is final.

        :raises TimedOut: it does not become so.
        """

        def holds(objects: Objects) -> bool:
            found = self._latest(objects)
            return found.checkpoint >= checkpoint and found.attempt >= attempt

        by = f" of attempt {attempt}" if attempt else ""
        return self._latest(self._watch.wait(f"checkpoint {checkpoint}{by}", holds, seconds=seconds))

    def wait_new(self, at: float, *, attempt: int, checkpoint: int, seconds: float) -> Document:
        """Blocks until there is a new checkpoint after a moment: beyond ``checkpoint``, by ``attempt`` or a later one.

        An attempt claims the document under its own number before it has done anything; a claim is no checkpoint.

        :raises TimedOut: there is none.
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
        return document if document is not None else Document(0.0, 0, 0, 0)


def document_of(config_map: Object, at: float) -> Document | None:
    """The document of a state ConfigMap, or None where there is none that can be read."""
    try:
        body: dict[str, Any] = json.loads(config_map.get("data", {})[names.CHECKPOINT_KEY])
        return Document(at, int(body["attempt"]), int(body["checkpointId"]), int(body["counters"]["recordsIn"]))
    except (KeyError, ValueError, TypeError):
        return None
