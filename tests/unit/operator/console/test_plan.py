"""``kafkaspark plan`` shows the engine, the names and the pods of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaspark.__main__ import main
from tests.support.kubernetes.operator_fixture import KEY, job_body

SQL = {"sql": {"query": "SELECT upper(value) AS value FROM source"}}


def plans(capsys: pytest.CaptureFixture[str], folder: Path, *bodies: dict[str, Any]) -> tuple[int, Any, str]:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump_all(bodies))
    status = main(["plan", "--output", "json", str(file)])
    printed = capsys.readouterr()
    return status, json.loads(printed.out or "null"), printed.err


def test_a_plan_has_what_the_job_uses_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = job_body(engine="Auto", transform=SQL, parallelism=3, executor={"cores": 2})
    status, (plan,), _ = plans(capsys, tmp_path, body)
    assert status == 0
    assert plan["job"] == str(KEY)
    assert (plan["engine"], plan["transform"], plan["subtasks"]) == ("MicroBatch", "SQL", 3)
    assert "Continuous cannot run a job with transform.sql with upper()" in plan["engineReason"]
    assert plan["group"] == plan["transactionalIdPrefix"] == f"{KEY.namespace}.{KEY.name}"
    assert plan["executors"].startswith("2 of 2 tasks, ")
    assert not plan.keys() & {"codeConfigMap", "stateVolumeClaim", "deadLetters"}


def test_a_job_without_transactions_has_no_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, (plan,), _ = plans(capsys, tmp_path, job_body(sink={"topic": "out", "deliveryGuarantee": "AtLeastOnce"}))
    assert not plan.keys() & {"transactionalIdPrefix", "offsetsTransactionalId"}
    assert (plan["deliveryGuarantee"], plan["writes"]) == ("AtLeastOnce", "out")


def test_a_plan_names_two_clusters_and_no_offsets_in_transactions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = job_body(sink={"topic": "out", "kafka": {"bootstrapServers": "b:1"}})
    _, (plan,), _ = plans(capsys, tmp_path, body)
    assert (plan["sourceCluster"], plan["sinkCluster"]) == (body["spec"]["kafka"]["bootstrapServers"], "b:1")
    assert "offsetsTransactionalId" not in plan
    _, (plan,), _ = plans(capsys, tmp_path, job_body())
    assert not plan.keys() & {"sourceCluster", "sinkCluster"}


def test_a_refused_job_has_no_plan_and_others_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found, said = plans(capsys, tmp_path, job_body(parallelism=0), job_body())
    assert (status, len(found)) == (1, 1)
    assert f"job.yaml: {KEY}: refused: spec.parallelism" in said


def test_the_text_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_body()))
    assert main(["plan", str(file)]) == 0
    assert "\nengine                  MicroBatch\n" in f"\n{capsys.readouterr().out}"


def test_a_file_without_a_job_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: Pod")
    assert main(["plan", str(file)]) == 2
    assert "no KafkaSparkJob in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "at the offsets of its group: nothing is repeated or skipped"),
        ({"source": {"topics": ["in"], "startup": {"mode": "Earliest"}}}, "what they still hold is read and written"),
        ({"source": {"topics": ["in"], "startup": {"mode": "Latest"}}}, "between the last checkpoint and the start"),
        ({"startFrom": {"snapshot": "kept"}}, "at snapshot kept"),
    ],
)
def test_a_plan_says_what_a_stateless_upgrade_does_with_the_records(
    fields: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, (plan,), _ = plans(capsys, tmp_path, job_body(upgrade={"mode": "Stateless"}, **fields))
    assert plan["nextRevision"].startswith("begins without the checkpoint (upgrade.mode Stateless), ")
    assert said in plan["nextRevision"]
    _, (plan,), _ = plans(capsys, tmp_path, job_body(**fields))
    assert "nextRevision" not in plan
