"""``kafkaspark validate FILE``: what the operator says to a manifest, without cluster and broker."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from kafkasparkjob_operator.identity import API_VERSION, JobIdentity
from kafkasparkjob_operator.resources.acceptance import accepted_job, refusal_of
from kafkasparkjob_operator.workload import NO_SETTINGS
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.engine_rules import chosen_engine

_SETTINGS = replace(NO_SETTINGS, default_image="job.image")
"""Of an operator with a default image, and without lists of allowed names: only the cluster has them."""
_EXAMPLES = """\
examples:
  kafkaspark validate job.yaml
  kafkaspark validate --namespace shop jobs/*.yaml
  helm template chart | kafkaspark validate -
"""


def add_commands(commands: Any) -> None:
    """Registers ``validate``; called by ``kafkaspark.__main__`` once, as the commands of ``sparkapp`` are.

    :param commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    what = "judge manifests as the operator does, without cluster and broker"
    command = commands.add_parser(
        "validate", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON; - is the standard input")
    command.add_argument("--namespace", "-n", default="default", help="of resources that name none")
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    """A line for each KafkaSparkJob. Other kinds of the files are left out."""
    refused = found = 0
    try:
        for file in options.files:
            for body in _resources(file):
                found += 1
                job = _identity(body, options.namespace)
                refusal, engine = _judge(body, job)
                refused += bool(refusal)
                print(f"{file}: {job.key}: {'refused: ' + refusal if refusal else 'valid; ' + engine}")
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not found:
        sys.stderr.write(f"no {names.KIND} in {', '.join(options.files)}\n")
        return 2
    return 1 if refused else 0


def _judge(body: Mapping[str, Any], job: JobIdentity) -> tuple[str, str]:
    """The refusal, empty where there is none, and the engine with its cause."""
    if body.get("apiVersion") != API_VERSION:
        return f"apiVersion {body.get('apiVersion')!r} is not known; set apiVersion: {API_VERSION}", ""
    try:
        desired = accepted_job(body.get("spec") or {}, job=job, settings=_SETTINGS)
    except ConfigurationError as error:
        return refusal_of(error, job), ""
    engine, cause = chosen_engine(desired.spec)
    return "", f"engine {engine.value}" + (f": {cause}" if cause else "")


def _resources(file: str) -> Iterator[Mapping[str, Any]]:
    """The KafkaSparkJobs of a file, also those of a ``List``.

    :raises ValueError: the file is neither YAML nor JSON.
    """
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        msg = f"{file} is not YAML: {' '.join(str(error).split())}"
        raise ValueError(msg) from error
    for document in documents:
        bodies = document.get("items") or () if _kind(document) == "List" else (document,)
        yield from (body for body in bodies if _kind(body) == names.KIND)


def _kind(body: object) -> object:
    return body.get("kind") if isinstance(body, Mapping) else None


def _identity(body: Mapping[str, Any], namespace: str) -> JobIdentity:
    meta = body.get("metadata") or {}
    return JobIdentity(str(meta.get("namespace") or namespace), str(meta.get("name") or ""), str(meta.get("uid") or ""))
