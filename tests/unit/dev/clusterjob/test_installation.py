"""The operator of the local cluster has both images of this working tree."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from clusterjob import installation


def test_a_job_without_an_image_runs_the_working_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    class Cluster:
        def __init__(self, *_: object) -> None: ...

        def apply(self, _: object) -> None: ...

        def upgrade_install(self, _release: str, _chart: object, values: dict[str, object]) -> None:
            given.update(values)

    for name in ("Kubectl", "Helm"):
        monkeypatch.setattr(installation, name, Cluster)
    monkeypatch.setattr(installation.state, "held", lambda _: nullcontext())
    monkeypatch.setattr(installation, "read_keys", lambda _: {})
    environment: Any = None
    installation.install(environment)
    for value, name in (("image", "operator"), ("job.image", "sparkapp")):
        image = f"{given[f'{value}.repository']}:{given[f'{value}.tag']}"
        assert image == installation.IMAGE_OF[name] == f"localhost/kafkaspark/{name}:dev"
