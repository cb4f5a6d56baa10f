"""The operator of the local cluster has both images of this working tree, and installations take turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from clusterjob import installation

STEPS: list[str] = []


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, object]:
    """The chart's values of an installation; :data:`STEPS` has its steps."""
    given: dict[str, object] = {}
    STEPS.clear()

    class Cluster:
        def __init__(self, *_: object) -> None: ...

        def apply(self, body: Mapping[str, object]) -> None:
            STEPS.append(f"apply {body['kind']}")

        def upgrade_install(self, _release: str, _chart: object, values: dict[str, object]) -> None:
            STEPS.append("helm")
            given.update(values)

    @contextmanager
    def held(_: object) -> Iterator[None]:
        STEPS.append("locked")
        yield
        STEPS.append("unlocked")

    for name in ("Kubectl", "Helm"):
        monkeypatch.setattr(installation, name, Cluster)
    monkeypatch.setattr(installation.state, "held", held)
    monkeypatch.setattr(installation, "read_keys", lambda _: {})
    environment: Any = None
    installation.install(environment)
    return given


def test_a_job_without_an_image_runs_the_working_trees(values: Mapping[str, object]) -> None:
    for value, name in (("image", "operator"), ("job.image", "sparkapp")):
        image = f"{values[f'{value}.repository']}:{values[f'{value}.tag']}"
        assert image == installation.IMAGE_OF[name] == f"localhost/kafkaspark/{name}:dev"


@pytest.mark.usefixtures("values")
def test_all_that_an_installation_creates_is_created_in_its_turn() -> None:
    assert STEPS == ["locked", "apply Namespace", "helm", "unlocked"]
