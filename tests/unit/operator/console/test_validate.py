"""``kafkaspark validate`` says what the operator says, and needs no cluster."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaspark.__main__ import main
from kafkaspark.validate import Planner
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, job_body

EXAMPLES = Path(__file__).parents[4] / "examples"


def written(folder: Path, *bodies: dict[str, Any]) -> str:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": 0},
        {"parallelism": "many"},
        {"source": {"topics": ["orders"], "startup": {"mode": "Sometime"}}},
        {"sink": {"topic": "orders"}},
        {"onRecordError": "DeadLetter"},
        {"sparkConf": {"spark.master": "local"}},
        {"driver": {"memory": "1Mi"}},
        {"engine": "Continuous", "parallelism": 4, "executor": {"instances": 1, "cores": 1}},
    ],
    ids=lambda spec: next(iter(spec)),
)
async def test_a_refusal_is_that_of_the_operator(
    spec: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixture = OperatorFixture(**spec)
    await fixture.settle()
    found = fixture.kubernetes.condition(KEY, "ConfigValid")
    assert found["status"] == "False"
    file = written(tmp_path, job_body(**spec))
    assert main(["validate", file]) == 1
    # The job of a file need not be in a cluster.
    message = found["message"].removesuffix(f"; correct the field: kubectl edit ksj {KEY.name} -n {KEY.namespace}")
    assert capsys.readouterr().out == f"{file}: {KEY}: refused: {message}\n"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"paralelism": 2}, "spec.paralelism is not a field: did you mean parallelism?"),
        (
            {"source": {"topics": ["orders"], "startUp": {"mode": "Earliest"}}},
            "spec.source.startUp is not a field: did you mean startup?",
        ),
        ({"driver": {"heap": "1Gi"}}, "spec.driver.heap is not a field: spec.driver has "),
        (
            {"kafka": {"bootstrapServers": "b:1", "tls": {"trustedCertificates": [{"secret": "ca"}]}}},
            "spec.kafka.tls.trustedCertificates[0].secret is not a field: did you mean secretName?",
        ),
    ],
)
def test_a_field_that_no_job_has_is_refused(
    spec: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The API server leaves it out before the operator sees it. Seen: a typo was valid, and its default applied."""
    file = written(tmp_path, job_body(**spec))
    assert main(["validate", "--no-plan", file]) == 1
    assert f"{file}: {KEY}: refused: {message}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["validate", "--no-plan"], ["plan"]], ids=" ".join)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"name": "o" * 46}}, "metadata.name must have at most 45 characters: pods add attempt"),
        ({"metadata": {"name": "1orders"}}, "metadata.name must consist of lower case letters, digits and '-', and"),
        ({"metadata": {"name": "Orders"}}, "metadata.name must consist of lower case letters, digits and '-', and"),
        ({"metadata": {"name": "orders-"}}, "metadata.name must consist of lower case letters, digits and '-', and"),
        ({"metadata": {"nmae": "o"}}, "metadata.nmae is not a field: did you mean name?"),
        ({"metadata": {}}, "metadata.name is missing: it must be a string that is not empty"),
        ({"metadata": None}, "metadata.name is missing: it must be a string that is not empty"),
        ({"metadata": 5}, "metadata must be an object, not 5"),
        ({"metadata": {"name": ["o"]}}, "metadata.name must be a string that is not empty, not ['o']"),
        ({"metadata": {"name": "o", "namespace": {"a": "b"}}}, "metadata.namespace must be a string, not {'a': 'b'}"),
        ({"metadata": {"name": "o", "labels": {"a": 1}}}, "metadata.labels must be an object of strings"),
        ({"speck": {}}, "speck is not a field: did you mean spec?"),
        ({"data": {}}, "data is not a field: KafkaSparkJob has apiVersion, kind, metadata, spec, status"),
        ({"spec": 5}, "spec must be an object, not 5"),
        ({"spec": ["a"]}, "spec must be an object, not ['a']"),
        ({"spec": None}, "spec.kafka.bootstrapServers is missing"),
    ],
    ids=str,
)
def test_what_no_api_server_takes_is_refused(
    command: list[str], change: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names that the definition refuses were valid, and a wrong type was a traceback."""
    file = written(tmp_path, {**job_body(), **change})
    assert main([*command, file]) == 1
    printed = capsys.readouterr()
    assert f": refused: {message}" in printed.out + printed.err


def test_what_the_api_server_hands_out_is_valid(tmp_path: Path) -> None:
    meta = {
        "name": "o" * 45, "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1,
        "creationTimestamp": None, "labels": {"a": "b"}, "annotations": {"c": "d"}, "ownerReferences": [],
        "finalizers": ["f"], "managedFields": [],
    }  # fmt: skip
    assert main(["validate", "--no-plan", written(tmp_path, {**job_body(), "metadata": meta, "status": {"a": 1}})]) == 0


@pytest.mark.parametrize("other", [{"kind": "ConfigMap", "metadata": 5}, {"kind": "ConfigMap", "data": [1]}], ids=str)
def test_other_objects_of_a_wrong_form_are_no_traceback(
    other: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transform = {"arrow": {"function": "rules:apply", "configMapRef": {"name": "code"}}}
    main(["validate", written(tmp_path, {"metadata": {"name": "code"}, **other}, job_body(transform=transform))])
    assert "; not planned: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({}, "engine MicroBatch: the default of spec.engine"),
        ({"engine": "MicroBatch"}, "engine MicroBatch: set by spec.engine"),
        ({"engine": "Auto"}, "engine Continuous: spec.engine is Auto, and Continuous can run the job"),
    ],
    ids=str,
)
def test_an_engine_that_nobody_has_set_is_the_default(
    spec: dict[str, Any], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, job_body(**spec))
    assert main(["validate", "--no-plan", file]) == 0
    assert capsys.readouterr().out == f"{file}: {KEY}: valid; {reason}\n"
    assert main(["plan", file]) == 0
    assert reason.partition(": ")[2] in capsys.readouterr().out


def test_other_kinds_are_left_out_and_each_job_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {**job_body(), "apiVersion": "streaming.kafkaspark.io/v1alpha1"}
    file = written(tmp_path, {"kind": "ConfigMap"}, {"kind": "List", "items": [job_body()]}, bad)
    assert main(["validate", file]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{file}: {KEY}: valid; engine ")
    assert second.endswith("is not known; set apiVersion: streaming.kafkaspark.io/v1beta1")


def test_json_has_each_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, job_body(), job_body(parallelism=0))
    assert main(["validate", "--output", "json", file]) == 1
    good, bad = json.loads(capsys.readouterr().out)
    assert (good["file"], good["job"], good["valid"], good["engine"]) == (file, str(KEY), True, "MicroBatch")
    assert (bad["valid"], "spec.parallelism" in bad["message"]) == (False, True)


def test_a_warning_is_a_line_of_its_own_and_no_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"planned": True, "warnings": ["the join grows", "the aggregation grows"]}
    monkeypatch.setattr(Planner, "verdict", lambda *_, **__: found)
    file = written(tmp_path, job_body())
    assert main(["validate", file]) == 0
    first, *warnings = capsys.readouterr().out.splitlines()
    assert first.endswith("; the transform is planned")
    assert warnings == [f"{file}: {KEY}: warning: the {which} grows" for which in ("join", "aggregation")]


def test_the_examples_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(file) for file in sorted(EXAMPLES.glob("0*.yaml"))]
    assert main(["validate", "--no-plan", "--namespace", "shop", *files]) == 0
    assert capsys.readouterr().out.count(": shop/") == len(files)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "- is not YAML"),
        ("kind: KafkaSparkJobs", "no KafkaSparkJob in -: there is KafkaSparkJobs\n"),
        ("", "no KafkaSparkJob in -"),
    ],
)
def test_a_file_without_a_job_is_no_success(
    text: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["validate", "-"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["validate"]])
def test_help_has_examples(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "  kafkaspark validate job.yaml\n" in printed
    # The driver's command is not for people. It was the first of the list.
    assert "run the attempt" not in printed
