"""The operator refuses what the definition refuses: values beyond their bounds, names, and rules of the engine.

Definition and reading follow from the same dataclasses. A field with a reader of its own could still differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.decisions.checks.snapshots import may_keep_state
from kafkasparkjob_operator.workload import DesiredJob, JobSettings, desired_from_resource
from kafkasparkjob_operator.workload.field_rules import OPERATOR_RULES
from kafkasparkjob_operator.workload.fields import OperatorSpec
from resourceschema.corpus import Case, cases_of
from sparkapp.model.encoding.resource import unknown_fields
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.names import MAX_OBJECT_NAME
from tests.support.fakes.kubernetes import merged

REPOSITORY = Path(__file__).parents[3]
CORPUS = REPOSITORY / "tests/integration/kubeapi/corpus"
BASE = (CORPUS / "base.yaml").read_text(encoding="utf-8")
DEFINITION = yaml.safe_load((REPOSITORY / "crds/kafkasparkjobs.yaml").read_text(encoding="utf-8"))
SPEC = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def fields_of(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that has a value of its own: path, and schema."""
    for name, field in schema["properties"].items():
        inner = f"{path}.{name}"
        if "properties" in field:
            yield from fields_of(field, inner)
            continue
        yield inner, field
        if "properties" in field.get("items", {}):
            yield from fields_of(field["items"], f"{inner}[]")


FIELDS = [path for path, _ in fields_of(SPEC, "spec")]
OBJECTS = [
    (path, field)
    for path, field in fields_of(SPEC, "spec")
    if path.endswith((".secretName", ".claimName", "configMapRef.name", "KeyRef.name", "imagePullSecrets[].name"))
]
"""The fields with the name of a Secret, a ConfigMap or a claim."""


@pytest.mark.parametrize("path", FIELDS)
def test_the_fields_of_the_definition_are_those_that_validate_knows(path: str) -> None:
    *parents, name = path.removeprefix("spec.").split(".")

    def unknown(last: str) -> list[str]:
        body: Any = {last: None}
        for parent in reversed(parents):
            body = {parent.removesuffix("[]"): [body] if parent.endswith("[]") else body}
        return list(unknown_fields((JobSpec, OperatorSpec), {"spec": body}, "KafkaSparkJob"))

    assert unknown(name) == []
    (message,) = unknown(f"{name}X")
    assert message.startswith(f"{path.replace('[]', '[0]')}X is not a field: ")


@pytest.mark.parametrize(("path", "schema"), OBJECTS, ids=[path for path, _ in OBJECTS])
def test_definition_and_code_refuse_what_cannot_be_the_name_of_an_object(path: str, schema: dict[str, Any]) -> None:
    assert len(OBJECTS) >= 18
    assert schema["maxLength"] == MAX_OBJECT_NAME
    for name in ("a", "orders-1.x", "a" * MAX_OBJECT_NAME):
        assert re.fullmatch(schema["pattern"], name)
        named(path, name)
    for name in ("..", "../x", "a/b", "x?watch=true", "Orders", "-a", "a-", "a..b", "a_b"):
        assert not re.fullmatch(schema["pattern"], name)
        with pytest.raises(ConfigurationError, match="cannot be the name of an object") as caught:
            named(path, name)
        assert all(part in caught.value.message for part in re.split(r"\[\]", path)), caught.value.message
        assert "kubectl edit ksj" in caught.value.remedy


BEYOND = [case for case in cases_of(SPEC, yaml.safe_load(BASE)) if case.message]


@pytest.mark.parametrize("case", BEYOND, ids=lambda case: case.name)
def test_the_code_refuses_what_is_beyond_its_bounds(case: Case) -> None:
    with pytest.raises(ConfigurationError):
        read(merged(corpus("base"), case.patch)["spec"])


@cache
def corpus(name: str) -> Any:
    """Read once, and changed by nobody."""
    return yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))


def read(spec: dict[str, Any]) -> DesiredJob:
    return desired_from_resource(spec, namespace="default", name="job", settings=JobSettings(default_image="sparkapp"))


def named(path: str, name: str) -> None:
    """Reads a valid spec of the corpus, or a spec with a variable, in which that field has the name."""
    base = corpus("base")
    patches = [case["patch"] for case in corpus("valid")]
    for role in ("driver", "executor"):
        sources = [{"secretKeyRef": {"name": "x", "key": "k"}}, {"configMapKeyRef": {"name": "x", "key": "k"}}]
        patches += [{"spec": {role: {"env": [{"name": "A", "valueFrom": source}]}}} for source in sources]
    *parents, last = path.removeprefix("spec.").split(".")
    for patch in patches:
        spec = deepcopy(merged(base, patch)["spec"])
        place: Any = spec
        for parent in parents:
            place = (place or {}).get(parent.removesuffix("[]"))
            place = place[0] if parent.endswith("[]") and place else place
        if place and last in place:
            place[last] = name
            break
    else:
        pytest.fail("no spec reaches it")
    read(spec)


def test_a_place_for_state_is_found_as_the_whole_spec_names_it() -> None:
    specs = [merged(corpus("base"), case["patch"])["spec"] for case in corpus("valid")]
    found = [may_keep_state(spec) for spec in specs]
    assert found == [read(spec).spec.may_keep_state for spec in specs]
    places = {name for spec, keeps in zip(specs, found, strict=True) if keeps for name in spec["checkpoint"]}
    assert {"stateVolume", "state"} <= places


@pytest.mark.parametrize("checkpoint", ["text", {"state": "text"}, {"stateVolume": None}, {"state": {"partitions": 2}}])
def test_what_names_no_place_for_state_has_none(checkpoint: Any) -> None:
    assert not may_keep_state({"transform": {"sql": '"stateVolume"'}, "checkpoint": checkpoint})


def invalid_by_the_engine() -> list[Any]:
    """The cases that a rule about the engine or its pace refuses."""
    cases = yaml.safe_load((CORPUS / "invalid.yaml").read_text(encoding="utf-8"))
    starts = ("engine: ", "checkpoint.commitIntervalMillis ", "source.watermarks ")
    return [pytest.param(case["patch"], id=case["name"]) for case in cases if case["message"].startswith(starts)]


@pytest.mark.parametrize("patch", invalid_by_the_engine())
def test_what_the_definition_refuses_by_the_engine_the_code_refuses_too(patch: dict[str, Any]) -> None:
    manifest = merged(yaml.safe_load((CORPUS / "base.yaml").read_text(encoding="utf-8")), patch)
    with pytest.raises(ConfigurationError):
        read(manifest["spec"])


OF_THE_OPERATOR = [rule.message for rule in OPERATOR_RULES]


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(case["patch"], id=case["name"])
        for case in corpus("invalid")
        if any(case["message"] in message for message in OF_THE_OPERATOR)
    ],
)
def test_the_code_refuses_what_rules_of_the_operators_fields_refuse(patch: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        read(merged(corpus("base"), patch)["spec"])


def formats_of_rule(field: dict[str, Any], start: str) -> set[str]:
    """The formats that a CEL rule quotes."""
    (rule,) = (found["rule"] for found in field["x-kubernetes-validations"] if found["rule"].startswith(start))
    return set(re.findall(r"'(\w+)'", rule))


def test_the_definitions_rules_of_formats_agree_with_their_traits() -> None:
    source = SPEC["properties"]["source"]
    registered = {kind.value for kind in Format if kind.traits.registered}
    with_schema = registered | {kind.value for kind in Format if kind.traits.needs_schema}
    assert formats_of_rule(source, "(self.format.key in ") == registered
    for side in ("key", "value"):
        assert formats_of_rule(source["properties"]["format"], f"self.{side} in ") == with_schema
