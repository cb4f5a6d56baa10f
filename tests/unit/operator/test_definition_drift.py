"""The code reads the fields of ``spec`` that the CustomResourceDefinition has, as it says.

The test records what the operator reads of many specs: names, types, defaults, enums and minimums. A field in only one
of the two is an error, in either direction.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kafkasparkjob_operator.workload import JobSettings, desired_from_resource
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.record_format import Format
from sparkapp.model.names import MAX_OBJECT_NAME
from tests.support.fakes.kubernetes import merged

REPOSITORY = Path(__file__).parents[3]
CORPUS = REPOSITORY / "tests/integration/kubeapi/corpus"
DEFINITION = yaml.safe_load((REPOSITORY / "crds/kafkasparkjobs.yaml").read_text(encoding="utf-8"))
SPEC = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]

PASSED_ON = re.compile(r"spec\.(driver|executor)\.env\[\]\.(value|valueFrom)\b")
"""The operator copies these to the pod as they are."""
READ_BY_HAND = {"spec.source.partitions[].partitions"}
BY_MODE = {"spec.source.startup.onMissingOffset", "spec.checkpoint.intervalSeconds"}
"""Another field decides the default."""
TYPES = {
    "string": "string", "choice": "string", "integer": "integer", "boolean": "boolean", "strings": "array",
    "objects": "array", "mapping": "object", "string_map": "object", "quantity": "int-or-string",
}  # fmt: skip


class Read(NamedTuple):
    """One call of an accessor of :class:`Fields`."""

    accessor: str
    default: Any
    choices: frozenset[str] | None
    low: int | None


@pytest.fixture(scope="module")
def reads() -> dict[str, set[Read]]:
    """What the operator reads of every valid spec of the corpus, by the field's path."""
    found: dict[str, set[Read]] = defaultdict(set)
    with pytest.MonkeyPatch.context() as patch:
        for accessor in TYPES:
            patch.setattr(Fields, accessor, recorded(accessor, found))
        base = yaml.safe_load((CORPUS / "base.yaml").read_text(encoding="utf-8"))
        for case in yaml.safe_load((CORPUS / "valid.yaml").read_text(encoding="utf-8")):
            manifest = merged(base, case["patch"])
            name = manifest["metadata"]["name"]
            desired_from_resource(
                manifest["spec"], namespace="default", name=name, settings=JobSettings(default_image="sparkapp")
            )
    return found


def recorded(accessor: str, found: dict[str, set[Read]]) -> Any:
    original = getattr(Fields, accessor)

    def call(self: Fields, name: str, *positional: Any, **keywords: Any) -> Any:
        choices = frozenset(positional[0]) if accessor == "choice" else None
        default = keywords.get("default", next(iter(positional[choices is not None :]), None))
        path = re.sub(r"\[\d+\]", "[]", f"{self.path}.{name}")
        found[path].add(Read(accessor, default, choices, keywords.get("low")))
        return original(self, name, *positional, **keywords)

    return call


def fields_of(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every field that has a value of its own: path, schema, and whether the object that has it requires it."""
    for name, field in schema["properties"].items():
        inner = f"{path}.{name}"
        if "properties" in field:
            yield from fields_of(field, inner)
            continue
        yield inner, field, name in schema.get("required", ())
        if "properties" in field.get("items", {}):
            yield from fields_of(field["items"], f"{inner}[]")


FIELDS = [one for one in fields_of(SPEC, "spec") if not PASSED_ON.match(one[0]) and one[0] not in READ_BY_HAND]


@pytest.mark.parametrize(("path", "schema", "required"), FIELDS, ids=[path for path, _, _ in FIELDS])
def test_the_code_reads_the_field_as_the_definition_says(
    reads: dict[str, set[Read]], path: str, schema: dict[str, Any], required: bool
) -> None:
    assert reads[path], "no code reads it, or no spec of the corpus valid.yaml reaches it"
    assert {TYPES[read.accessor] for read in reads[path]} == {schema.get("type", "int-or-string")}
    assert {read.choices for read in reads[path]} == {frozenset(schema["enum"]) if "enum" in schema else None}
    if schema.get("type") == "integer":
        assert {read.low for read in reads[path]} == {minimum(schema)}
    defaults = {read.default for read in reads[path]}
    if "default" in schema:
        assert defaults == {schema["default"]}
    elif path not in BY_MODE:
        assert defaults <= {None, "", 0}
    assert not required or None in defaults


OBJECTS = [
    (path, field)
    for path, field, _ in fields_of(SPEC, "spec")
    if path.endswith((".secretName", ".claimName", "configMapRef.name", "KeyRef.name", "imagePullSecrets[].name"))
]
"""The fields with the name of a Secret, a ConfigMap or a claim."""


@pytest.mark.parametrize(("path", "schema"), OBJECTS, ids=[path for path, _ in OBJECTS])
def test_definition_and_code_refuse_what_cannot_be_the_name_of_an_object(path: str, schema: dict[str, Any]) -> None:
    assert len(OBJECTS) == 18
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


@cache
def corpus(name: str) -> Any:
    """Read once, and changed by nobody."""
    return yaml.safe_load((CORPUS / f"{name}.yaml").read_text(encoding="utf-8"))


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
    desired_from_resource(spec, namespace="default", name="job", settings=JobSettings(default_image="sparkapp"))


def minimum(schema: dict[str, Any]) -> int | None:
    """By the schema, or by a rule like ``self >= 1``, whose message is better than the API server's own."""
    if "minimum" in schema:
        return int(schema["minimum"])
    rules = (re.fullmatch(r"self >= (-?\d+)", rule["rule"]) for rule in schema.get("x-kubernetes-validations", ()))
    return next((int(match[1]) for match in rules if match), None)


def test_the_definition_has_every_field_that_the_code_reads(reads: dict[str, set[Read]]) -> None:
    assert set(reads) <= {path for path, _, _ in fields_of(SPEC, "spec")}


def invalid_by_the_engine() -> list[Any]:
    """The cases that a rule about the engine or its pace refuses."""
    cases = yaml.safe_load((CORPUS / "invalid.yaml").read_text(encoding="utf-8"))
    starts = ("engine: ", "checkpoint.commitIntervalMillis ", "source.watermarks ")
    return [pytest.param(case["patch"], id=case["name"]) for case in cases if case["message"].startswith(starts)]


@pytest.mark.parametrize("patch", invalid_by_the_engine())
def test_what_the_definition_refuses_by_the_engine_the_code_refuses_too(patch: dict[str, Any]) -> None:
    manifest = merged(yaml.safe_load((CORPUS / "base.yaml").read_text(encoding="utf-8")), patch)
    with pytest.raises(ConfigurationError):
        desired_from_resource(
            manifest["spec"], namespace="default", name="job", settings=JobSettings(default_image="sparkapp")
        )


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
