"""Spark's metadata of an operator of ``transformWithState``, which name files by their whole paths.

``state/<operator>/_metadata/v2/<batch>`` has the paths of the schemas in ``state/<operator>/_stateSchema``. A copy of
the state in another folder would name the schemas of the folder that it comes from. That folder is removed, so the
operator could not start. Metadata of other operators name no paths.
"""

from __future__ import annotations

import json
from pathlib import Path

_METADATA = ("_metadata", "v2")
_SCHEMAS = "/_stateSchema/"
_STORES, _PATHS = "stateStoreInfo", "stateSchemaFilePaths"


def batch_of(file: Path) -> int | None:
    """The batch of such a file; None for any other file.

    :param file: below the folder of an operator.
    """
    return int(file.name) if file.parent.parts == _METADATA and file.name.isdigit() else None


def is_checksum(file: Path) -> bool:
    """Whether it is the checksum of such a file, which another text does not have."""
    return file.parent.parts == _METADATA and file.name.endswith(".crc")


def link_for_reading(source: Path, target: Path) -> None:
    """Makes a folder by which Spark reads state that is not changed, wherever its volume is mounted.

    :param source: the folder ``state``. :param target: does not exist yet.
    """
    for operator in source.iterdir():
        metadata, there = operator.joinpath(*_METADATA), target / operator.name
        there.parent.mkdir(parents=True, exist_ok=True)
        if not metadata.is_dir():
            there.symlink_to(operator)
            continue
        there.joinpath(*_METADATA).mkdir(parents=True)
        for entry in operator.iterdir():
            if entry.name != _METADATA[0]:
                (there / entry.name).symlink_to(entry)
        for file in metadata.iterdir():
            if batch_of(Path(*_METADATA, file.name)) is not None:
                text = moved(file.read_text(encoding="utf-8"), f"file:{operator}")
                there.joinpath(*_METADATA, file.name).write_text(text, encoding="utf-8")


def moved(text: str, operator: str) -> str:
    """The text of such a file for another place.

    :param operator: address of the operator's folder there, as Spark writes it.
    """
    version, _, body = text.partition("\n")
    metadata = json.loads(body)
    for store in metadata.get(_STORES, ()):
        paths = store.get(_PATHS)
        if paths:
            store[_PATHS] = [f"{operator}{_SCHEMAS}{path.partition(_SCHEMAS)[2]}" for path in paths]
    return f"{version}\n{json.dumps(metadata, separators=(',', ':'))}"
