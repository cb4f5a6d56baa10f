"""The checkpoint that the demo counts as the first behind an incident."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterjob.environment import ClusterEnvironment
from clusterjob.state_documents import Document
from demo.story import FlightsStory
from localcluster.progress import Progress


@dataclass
class Job:
    """Checkpoint after checkpoint is final; the 7th before the incident.

    :ivar behind: what the demo asks for: a checkpoint behind this.
    """

    attempt: int = 1
    latest: int = 6
    behind: list[int] = field(default_factory=list)

    @property
    def state(self) -> Any:
        return SimpleNamespace(latest=document(self.latest))

    def wait_checkpoint(self, checkpoint: int) -> Document:
        self.latest = checkpoint
        return document(checkpoint)

    def wait_new_checkpoint(self, _: float, *, attempt: int, checkpoint: int) -> Document:
        assert attempt == self.attempt
        self.behind.append(checkpoint)
        return document(checkpoint + 1)


def document(checkpoint: int) -> Document:
    return Document(time.monotonic(), 1, checkpoint, 0, 0)


@pytest.mark.parametrize(("attempt", "behind"), [(1, 10), (2, 7)])
def test_what_was_written_before_an_incident_is_no_sign_of_its_end(tmp_path: Path, attempt: int, behind: int) -> None:
    """Seen: an executor was back after 3.1 s, and a checkpoint counted that was final before its last signal.

    Two checkpoints run at a time, so the two behind the latest may not need the executor. An attempt that was killed
    completes no further checkpoint.
    """
    environment = ClusterEnvironment(
        kubeconfig=tmp_path, kubectl="kubectl", helm="helm", bootstrap="127.0.0.1:1", bootstrap_pods="10.0.0.1:2",
        logs=tmp_path, network_policies=True,
    )  # fmt: skip
    made = Job()
    job: Any = made

    def act() -> str:
        made.latest = 8
        return "a signal, by way of kubectl"

    def back() -> str:
        made.attempt = attempt
        return "back"

    loader: Any = SimpleNamespace(sent=0)
    FlightsStory(environment, Progress(io.StringIO()))._incident("an incident", job, loader, act, back)
    assert made.behind == [behind]
