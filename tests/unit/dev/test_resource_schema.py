"""The generated files are what the dataclasses say, and the definition has what `kubectl explain` needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from resourceschema.corpus import cases_of
from resourceschema.defaults import text_of_defaults
from resourceschema.definition import definition_of
from resourceschema.files import DEFAULTS, REFERENCE, generated
from resourceschema.kinds import JOB, Column, Kind, Version
from resourceschema.openapi import object_schema
from sparkapp.model.encoding.schema import Described, ObjectDefault, ObjectRule, Rule, at, held_by, part, text_of

FILES = generated()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == FILES[path], "run `make generate`"


def test_every_field_has_a_description() -> None:
    rows = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith(("| `", "| **`"))]
    assert len(rows) > 100
    assert [row for row in rows if row.endswith("|  |")] == []


@part
class Keeping:
    """Half of an object; another dataclass has the other half."""

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "limits": Described("Limits."),
        "claim": Described("Claim."),
        "spelled": Described("Spelled.", ObjectDefault.SPELLED),
    }

    count: int = at("Count.", default=3, path="limits.count", low=1, high=9)
    name: str = at("Name.", default="", path="claim.name", required=True, form=text_of(1, 5))
    pace: int = at("Pace.", default=2, path="spelled.pace")
    none: int = at("None.", default=0, low=1)
    by_mode: int = at("By mode.", default=7, is_shown=False)


@part
class Needed:
    topic: str = at("Topic.", form=held_by(Rule("self != ''", "not empty")))


def test_an_object_has_the_defaults_bounds_and_needs_of_its_dataclasses() -> None:
    rule = ObjectRule("self.pace > 0", "no pace", ("spelled",))
    schema = object_schema((Keeping, Needed), "Both.", rules=(rule,))
    found = schema["properties"]
    assert schema["required"] == ["topic"]
    assert found["limits"]["default"] == {}
    assert found["limits"]["properties"]["count"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "description": "Count.", "default": 3,
    }  # fmt: skip
    assert "default" not in found["claim"], "an object that needs a field has no default"
    assert found["claim"]["required"] == ["name"]
    assert (found["spelled"]["default"], found["spelled"]["x-kubernetes-validations"]) == (
        {"pace": 2}, [{"rule": "self.pace > 0", "message": "no pace"}],
    )  # fmt: skip
    assert "default" not in found["none"], "0 is no value of this field"
    assert "default" not in found["byMode"]


def test_a_kind_may_have_a_stored_version_and_an_older_served_version() -> None:
    def version(name: str, kind: type, *, stored: bool) -> Version:
        return Version(
            name=name, text="A snapshot.", spec_text="Spec.", spec=(kind,), status_text="Status.", status=(),
            columns=(Column("Age", ".metadata.creationTimestamp", "date"),), stored=stored,
        )  # fmt: skip

    versions = (version("v1", Needed, stored=True), version("v1beta1", Keeping, stored=False))
    kind = Kind(name="KafkaSparkSnapshot", plural="kafkasparksnapshots", short_names=(), head="", versions=versions)
    found = definition_of(kind)["spec"]["versions"]
    assert [(each["name"], each["storage"], each["served"]) for each in found] == [
        ("v1", True, True), ("v1beta1", False, True),
    ]  # fmt: skip
    assert "scale" not in found[0]["subresources"]


def test_exactly_one_version_of_the_job_is_stored() -> None:
    assert [version.stored for version in JOB.versions].count(True) == 1


def test_a_case_for_each_bound_and_choice_has_what_its_objects_need() -> None:
    limits = {"type": "object", "required": ["kind"], "properties": {
        "kind": {"type": "string", "enum": ["A", "B"]}, "count": {"type": "integer", "minimum": 1, "maximum": 3},
    }}  # fmt: skip
    spec = {"type": "object", "required": ["list"], "properties": {"list": {"type": "array", "items": limits}}}
    cases = {case.name: case for case in cases_of(spec, {"spec": {}})}
    assert list(cases) == [
        "spec.list[0].kind: A", "spec.list[0].kind: B", "spec.list[0].kind: NoChoice", "spec.list[0].count: 1",
        "spec.list[0].count: 0", "spec.list[0].count: 3", "spec.list[0].count: 4",
    ]  # fmt: skip
    beyond = cases["spec.list[0].count: 4"]
    assert beyond.patch == {"spec": {"list": [{"kind": "A", "count": 4}]}}
    assert beyond.message == "spec.list[0].count in body should be less than or equal to 3"
    assert cases["spec.list[0].count: 3"].message == ""


def test_a_default_that_has_changed_is_not_written_and_a_new_default_is() -> None:
    fixed = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    fixed["Sink"]["producers_pool_size"] = 99
    del fixed["Sink"]["partitioner"]
    written = json.loads(text_of_defaults(json.dumps(fixed)))
    assert written["Sink"]["producers_pool_size"] == 99
    assert written["Sink"]["partitioner"] == "Key"
