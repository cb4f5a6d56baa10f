"""``kafkaspark validate FILE``: what the operator says to a manifest, without cluster and broker."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from kafkaspark.local.project import judged
from kafkaspark.manifests import add_options, identity_of, resources
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.engine_rules import chosen_engine

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
    add_options(command)
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    """A line for each KafkaSparkJob. Other kinds of the files are left out."""
    verdicts = []
    try:
        for file in options.files:
            for body in resources(file):
                verdict = {"file": file, "job": str(identity_of(body, options.namespace).key)}
                verdicts.append({**verdict, **_judge(body, options.namespace)})
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not verdicts:
        sys.stderr.write(f"no {names.KIND} in {', '.join(options.files)}\n")
        return 2
    if options.output == "json":
        print(json.dumps(verdicts, indent=2))
    else:
        for verdict in verdicts:
            print(f"{verdict['file']}: {verdict['job']}: {_as_text(verdict)}")
    return 0 if all(verdict["valid"] for verdict in verdicts) else 1


def _judge(body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Whether the operator accepts the job, and its engine with the cause, or the refusal."""
    try:
        _, job = judged(body, namespace)
    except ConfigurationError as error:
        return {"valid": False, "message": error.message}
    engine, reason = chosen_engine(job.spec)
    return {"valid": True, "engine": engine.value, "engineReason": reason}


def _as_text(verdict: Mapping[str, Any]) -> str:
    if not verdict["valid"]:
        return f"refused: {verdict['message']}"
    return f"valid; engine {verdict['engine']}: {verdict['engineReason']}"
