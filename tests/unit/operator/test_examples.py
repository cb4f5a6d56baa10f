"""Every example is a job by the definition's schema; tests/integration asks the API server itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kafkasparkjob_operator.resources.driver_pod import TERMINATION_GRACE_SECONDS
from kafkasparkjob_operator.status.status import JobState
from kafkasparkjob_operator.workload import (
    JobSettings,
    desired_from_resource,
)
from kafkasparkjob_operator.workload.environment import FREE_NAMES, RESERVED_NAMES, RESERVED_PREFIXES
from sparkapp.model import names

REPOSITORY = Path(__file__).parents[3]
DEFINITION = yaml.safe_load((REPOSITORY / "crds/kafkasparkjobs.yaml").read_text(encoding="utf-8"))
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SNAPSHOT = yaml.safe_load((REPOSITORY / "crds/kafkasparksnapshots.yaml").read_text(encoding="utf-8"))
SNAPSHOT_SCHEMA = SNAPSHOT["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
EXAMPLES = sorted(path for path in REPOSITORY.glob("examples/**/*.yaml"))


def strict(schema: Any) -> Any:
    """The schema with every object closed: a field that is not there is a typing error."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(value) for name, value in schema.items()}
    if "properties" in schema and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(REPOSITORY / "examples")))
def test_example(path: Path) -> None:
    every = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    jobs = [each for each in every if each["kind"] == names.KIND]
    for snapshot in (each for each in every if each["kind"] == names.SNAPSHOT_KIND):
        Draft202012Validator(strict(SNAPSHOT_SCHEMA["properties"]["spec"])).validate(snapshot["spec"])
    assert jobs
    for job in jobs:
        Draft202012Validator(strict(SCHEMA["properties"]["spec"])).validate(job["spec"])
        name = job["metadata"]["name"]
        desired_from_resource(
            job["spec"], namespace="default", name=name, settings=JobSettings(default_image="sparkapp")
        )


def test_every_field_is_explained() -> None:
    def walk(schema: dict[str, Any], where: str) -> None:
        if where.count(".") and schema.get("type") and ".items" not in where:
            assert schema.get("description"), where
        for name, inner in schema.get("properties", {}).items():
            walk(inner, f"{where}.{name}")
        if isinstance(schema.get("items"), dict):
            walk(schema["items"], f"{where}.items")

    for part in ("spec", "status"):
        walk(SCHEMA["properties"][part], part)


def test_the_definition_and_the_code_reserve_the_same_variables() -> None:
    rules = [rule for rule in _rules(SCHEMA) if "'KAFKASPARK_'" in rule["rule"]]
    assert len(rules) == 2, "variables of driver and executor"
    for rule in rules:
        assert set(re.findall(r"startsWith\('(\w+)'\)", rule["rule"])) == set(RESERVED_PREFIXES)
        assert set(re.findall(r"name == '(\w+)'", rule["rule"])) == set(RESERVED_NAMES)
        assert set(re.findall(r"name != '(\w+)'", rule["rule"])) == set(FREE_NAMES)
        assert all(name in rule["message"] for name in (*RESERVED_PREFIXES, *RESERVED_NAMES))


def _rules(schema: Any) -> Iterator[dict[str, str]]:
    if isinstance(schema, dict):
        yield from schema.get("x-kubernetes-validations", ())
        for inner in schema.values():
            yield from _rules(inner)


def test_the_definition_names_the_values_that_the_code_uses() -> None:
    assert DEFINITION["spec"]["group"] == names.GROUP
    assert DEFINITION["spec"]["names"]["plural"] == names.PLURAL
    assert SCHEMA["x-kubernetes-validations"][0]["rule"] == "self.metadata.name.size() <= 45"
    described = SCHEMA["properties"]["status"]["properties"]["state"]["description"]
    assert all(state in described for state in JobState)
    assert TERMINATION_GRACE_SECONDS >= 60
