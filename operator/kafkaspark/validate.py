"""``kafkaspark validate FILE``: what operator and driver say to a manifest, without cluster and broker."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaspark.local.project import Project, engine_of, judged, project_of
from kafkaspark.manifests import STANDARD_INPUT, Manifests, add_options, identity_of, resources
from sparkapp.model.errors import (
    ConfigurationError,
    ExtensionMissing,
    KafkaAccessError,
    KafkaSparkJobError,
    SchemaError,
    SchemaMismatch,
)
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine

if TYPE_CHECKING:
    from kafkaspark.local.spark import LocalSpark

_EXAMPLES = """\
examples:
  kafkaspark validate job.yaml
  kafkaspark validate --namespace shop jobs/*.yaml
  helm template chart | kafkaspark validate --no-plan -

The code of a job is imported, and Spark plans its transform, where this environment has Spark. --no-plan takes seconds
less.
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
    command.add_argument("--no-plan", action="store_true", help="judge the manifest alone: import and plan no code")
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    """A line for each KafkaSparkJob, and for each warning about it. Other kinds of the files are left out."""
    verdicts: list[dict[str, Any]] = []
    manifests = Manifests(options.files)
    planner = None if options.no_plan else Planner()
    try:
        for file, bodies in manifests:
            for body in resources(bodies):
                verdict = {"file": file, "job": str(identity_of(body, options.namespace).key)}
                verdict |= _judge(body, options.namespace)
                if planner is not None and verdict["valid"]:
                    verdict |= planner.verdict(body, others=bodies, folder=_folder(file), namespace=options.namespace)
                verdicts.append(verdict)
    finally:
        if planner is not None:
            planner.close()
    if options.output == "json":
        print(json.dumps(verdicts, indent=2))
    else:
        for verdict in verdicts:
            begin = f"{verdict['file']}: {verdict['job']}: "
            print(f"{begin}{_as_text(verdict)}")
            for warning in verdict.get("warnings", ()):
                print(f"{begin}warning: {warning}")
    return manifests.status or (0 if all(verdict["valid"] for verdict in verdicts) else 1)


def _judge(body: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Whether the operator accepts the job, and its engine with the cause, or the refusal."""
    try:
        _, job = judged(body, namespace)
    except ConfigurationError as error:
        return {"valid": False, "message": error.message}
    engine, reason = engine_of(body, job)
    return {"valid": True, "engine": engine.value, "engineReason": reason}


def _as_text(verdict: Mapping[str, Any]) -> str:
    if not verdict["valid"]:
        return f"refused: {verdict['message']}"
    plan = ""
    if "planned" in verdict:
        plan = "; the transform is planned" if verdict["planned"] else f"; not planned: {verdict['notPlanned']}"
    return f"valid; engine {verdict['engine']}: {verdict['engineReason']}{plan}"


def _folder(file: str) -> Path:
    return Path.cwd() if file == STANDARD_INPUT else Path(file).parent


class NotPlannedError(Exception):
    """Why the transform of a valid job was not planned here."""


class Planner:
    """Imports and plans the code of one job after the other, in one Spark. It starts for the first that needs it."""

    def __init__(self) -> None:
        self._spark: LocalSpark | None = None

    def verdict(
        self, body: Mapping[str, Any], *, others: list[Mapping[str, Any]], folder: Path, namespace: str
    ) -> dict[str, Any]:
        """Whether the transform is planned, and why not; or the refusal. Nothing for a job without a transform.

        :param others: objects of the same file, and ``folder``: of its modules.
        """
        transform = body["spec"].get("transform") or {}
        if not any(transform.get(kind) for kind in ("python", "arrow", "sql")):
            return {}
        try:
            try:
                project = project_of(body, folder=folder, others=others, namespace=namespace, environ=os.environ)
            except ConfigurationError as error:
                raise NotPlannedError(error.message) from error
            warnings = self._check(project, has_image=bool(body["spec"].get("image")))
        except NotPlannedError as why:
            return {"planned": False, "notPlanned": str(why)}
        except KafkaSparkJobError as error:
            remedy = f"; {error.remedy}" if error.remedy != error.default_remedy else ""
            return {"valid": False, "message": f"{error.reason}: {error.message}{remedy}"}
        return {"planned": True, **({"warnings": list(warnings)} if warnings else {})}

    def _check(self, project: Project, *, has_image: bool) -> tuple[str, ...]:
        """The warnings about a transform that is planned.

        :raises NotPlannedError: this machine cannot tell. :raises KafkaSparkJobError: the job would fail.
        """
        if find_spec("pyspark") is None:
            msg = "this takes PySpark: pip install 'kafkaspark[local]'"
            raise NotPlannedError(msg)
        from kafkaspark.local.run import check_transform
        from kafkaspark.local.spark import check_java, open_spark

        if chosen_engine(project.job.spec)[0] is Engine.MICRO_BATCH:
            try:
                check_java()
            except ConfigurationError as error:
                raise NotPlannedError(error.message) from error
        self._spark = self._spark or open_spark()
        try:
            return check_transform(project, self._spark)
        except SchemaMismatch:
            raise
        except (SchemaError, KafkaAccessError, ExtensionMissing) as error:
            raise NotPlannedError(error.message) from error
        except KafkaSparkJobError as error:
            if isinstance(error.__cause__, ModuleNotFoundError) and has_image:
                msg = f"{error.message}; the image of the job may have it"
                raise NotPlannedError(msg) from error
            raise

    def close(self) -> None:
        """Ends Spark."""
        if self._spark is not None:
            self._spark.close()
