"""The chart of a previous release, made from the present one, so that it cannot become stale."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

VERSION = "0.1.0"
FIELDS = (("source", "discoveryIntervalSeconds"), ("metrics",), ("restartPolicy",))
"""Fields of ``spec`` with a default, which the previous definition does not have."""


def previous_chart(chart: Path, folder: Path) -> Path:
    """A copy of the chart in the folder, of another version: without policies, :data:`FIELDS` and snapshots."""
    previous = Path(shutil.copytree(chart, folder / "previous"))  # links become files
    about = previous / "Chart.yaml"
    release = yaml.safe_load(about.read_text(encoding="utf-8"))
    about.write_text(yaml.safe_dump({**release, "version": VERSION, "appVersion": VERSION}), encoding="utf-8")
    for policy in (previous / "templates").glob("*-policy.yaml"):
        policy.unlink()
    definitions = previous / "templates/crds.yaml"
    text = definitions.read_text(encoding="utf-8").replace(' "kafkasparksnapshots"', "")
    definitions.write_text(text, encoding="utf-8")
    (previous / "files/kafkasparksnapshots.yaml").unlink()
    file = previous / "files/kafkasparkjobs.yaml"
    definition = yaml.safe_load(file.read_text(encoding="utf-8"))
    for path in FIELDS:
        _remove(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], path)
    # The chart replaces the name's line, as it is in the file.
    file.write_text(yaml.safe_dump(definition, sort_keys=False, width=120), encoding="utf-8")
    return previous


def _remove(schema: dict[str, Any], path: tuple[str, ...]) -> None:
    *parents, last = path
    for parent in parents:
        schema = schema["properties"][parent]
    del schema["properties"][last]
