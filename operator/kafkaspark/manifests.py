"""The objects of a file of manifests, as the commands of ``kafkaspark`` read them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kafkasparkjob_operator.identity import JobIdentity
from sparkapp.cli.client_file import read_text
from sparkapp.cli.table import refuse
from sparkapp.model import names
from sparkapp.model.errors import InputUnreadable

STANDARD_INPUT = "-"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that reads manifests: ``files``, ``namespace`` and ``output``."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; - is the standard input")
    parser.add_argument("--namespace", "-n", default="default", help="of resources that name none")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the answer")


class Manifests:
    """The files of a command line. A file that cannot be read is refused, and the others are read.

    :ivar status: the exit status for the files: 0 where all of them have been read, and there is a job.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self.status = 0

    def __iter__(self) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """Each file with its objects."""
        kinds: dict[str, None] = {}
        for file in self._files:
            try:
                bodies = list(objects(file))
            except InputUnreadable as error:
                self.status = refuse(error)
                continue
            kinds |= dict.fromkeys(str(body.get("kind")) for body in bodies)
            yield file, bodies
        if names.KIND not in kinds and not self.status:
            self.status = refuse(no_job(", ".join(self._files), kinds))


def no_job(where: str, kinds: Mapping[str, None]) -> InputUnreadable:
    """The error for files without a job.

    :param kinds: that they have.
    """
    found = f": there is {', '.join(kinds)}" if kinds else ""
    return InputUnreadable(f"no {names.KIND} in {where}{found}", remedy="make a job: kafkaspark init NAME")


def resources(bodies: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The KafkaSparkJobs of the objects of a file."""
    return [body for body in bodies if body.get("kind") == names.KIND]


def objects(file: str) -> Iterator[Mapping[str, Any]]:
    """Every object of a file, also those of a ``List``.

    :param file: its path, or ``-`` for the standard input.
    :raises InputUnreadable: the file cannot be read, or holds no objects.
    """
    try:
        text = sys.stdin.read() if file == STANDARD_INPUT else read_text(Path(file))
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputUnreadable(f"{file} is not YAML: {' '.join(str(error).split())}", remedy=_CORRECT) from error
    for document in documents:
        if not isinstance(document, Mapping):
            continue
        if document.get("kind") != "List":
            yield document
            continue
        items = document.get("items") or []
        if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
            raise InputUnreadable(f"{file}: items of a List must be a list of objects", remedy=_CORRECT)
        yield from items


def name_of(body: Mapping[str, Any]) -> str:
    """The name of an object; empty where it has none, or metadata of another type."""
    return str(metadata_of(body).get("name") or "")


def metadata_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object; empty where they are no object. ``judged`` refuses a job with such metadata."""
    meta = body.get("metadata")
    return meta if isinstance(meta, Mapping) else {}


def identity_of(body: Mapping[str, Any], namespace: str) -> JobIdentity:
    """Namespace, name and UID of a resource.

    :param namespace: of a resource that names none.
    """
    meta = metadata_of(body)
    return JobIdentity(str(meta.get("namespace") or namespace), name_of(body), str(meta.get("uid") or ""))


_CORRECT = "correct the file, and try it: kubectl apply --dry-run=client --filename FILE"
