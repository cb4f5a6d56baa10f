"""What two builds of an image differ in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from imagerelease.layers import Entry, entries
from localcluster.images.oci import Layout

_FACTS = ("kind", "mode", "owner", "date", "link", "sha256")


def differences(first: Layout, second: Layout) -> Iterator[str]:
    """A line for each path that differs, with both values; nothing where the images are equal bit by bit."""
    if first.digest == second.digest:
        return
    if first.config() != second.config():
        yield f"configuration: {first.config()} | {second.config()}"
    for number, (left, right) in enumerate(itertools.zip_longest(first.layers(), second.layers()), start=1):
        if left is None or right is None:
            yield f"layer {number}: only one image has it"
        elif left.name != right.name:
            yield from _of_layers(number, left, right)


def _of_layers(number: int, left: Path, right: Path) -> Iterator[str]:
    ours, theirs = ({entry.name: entry for entry in entries(layer)} for layer in (left, right))
    paths = sorted(ours.keys() | theirs.keys())
    lines = [line for path in paths for line in _of_entries(path, ours.get(path), theirs.get(path))]
    for line in lines or ["the order of the files, or a header"]:
        yield f"layer {number}: {line}"


def _of_entries(path: str, left: Entry | None, right: Entry | None) -> Iterator[str]:
    if left is None or right is None:
        yield f"/{path}: only in the {'second' if left is None else 'first'} build"
        return
    for fact, ours, theirs in zip(_FACTS, left.facts, right.facts, strict=True):
        if ours != theirs:
            yield f"/{path}: {fact} {ours} | {theirs}"
