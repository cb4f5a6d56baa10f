"""The objects of a file of manifests, as the commands of ``kafkaspark`` read them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from kafkasparkjob_operator.identity import JobIdentity
from sparkapp.model import names

STANDARD_INPUT = "-"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a command that reads manifests: ``files``, ``namespace`` and ``output``."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; - is the standard input")
    parser.add_argument("--namespace", "-n", default="default", help="of resources that name none")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form of the answer")


def resources(file: str) -> Iterator[Mapping[str, Any]]:
    """The KafkaSparkJobs of a file, also those of a ``List``.

    :param file: its path, or ``-`` for the standard input.
    :raises ValueError: the file is neither YAML nor JSON.
    """
    return (body for body in objects(file) if body.get("kind") == names.KIND)


def objects(file: str) -> Iterator[Mapping[str, Any]]:
    """Every object of a file, also those of a ``List``.

    :raises ValueError: the file is neither YAML nor JSON.
    """
    text = sys.stdin.read() if file == STANDARD_INPUT else Path(file).read_text(encoding="utf-8")
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        msg = f"{file} is not YAML: {' '.join(str(error).split())}"
        raise ValueError(msg) from error
    for document in documents:
        bodies = document.get("items") or () if isinstance(document, Mapping) and _is_list(document) else (document,)
        yield from (body for body in bodies if isinstance(body, Mapping))


def identity_of(body: Mapping[str, Any], namespace: str) -> JobIdentity:
    """Namespace, name and UID of a resource.

    :param namespace: of a resource that names none.
    """
    meta = body.get("metadata") or {}
    return JobIdentity(str(meta.get("namespace") or namespace), str(meta.get("name") or ""), str(meta.get("uid") or ""))


def _is_list(document: Mapping[str, Any]) -> bool:
    return document.get("kind") == "List"
