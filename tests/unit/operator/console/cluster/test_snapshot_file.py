"""``kafkaspark snapshot export`` and ``import``: a file that another cluster takes, and that may be hostile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaspark.__main__ import main
from kafkaspark.cluster.snapshot_file import MAX_FILE_BYTES, read_manifest
from kafkaspark.cluster.user_cluster import UserCluster
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import decode_snapshot, encode_retained
from sparkapp.model.errors import CommandRefused
from sparkapp.model.partition import TopicPartition

CHECKPOINT = RetainedCheckpoint(
    checkpoint_id=12, attempt=2, job_uid="job-uid", created_at="2026-11-21T12:00:00Z", cluster_id="kafka-1",
    offsets={TopicPartition("orders", 0): 40, TopicPartition("orders", 1): 60},
)  # fmt: skip
TEXT = encode_retained(CHECKPOINT)


class Cluster:
    """The API server of a person, with one snapshot."""

    namespace = "shop"

    def __init__(self) -> None:
        self.text, self.uid, self.state = TEXT, "map-uid", "Ready"
        self.created: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str) -> dict[str, Any]:
        if "/configmaps/" in path:
            return {"metadata": {"uid": self.uid}, "data": {names.SNAPSHOT_KEY: self.text}}
        status = {"state": self.state, "jobUID": "job-uid", "configMap": {"name": "kept", "uid": "map-uid"}}
        return {"spec": {"jobRef": {"name": "orders"}}, "status": status}

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.created.append((path, body))
        return {**body, "metadata": {**body["metadata"], "namespace": path.split("/")[5]}}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(UserCluster, "of_context", lambda _: made)
    return made


def test_a_file_of_one_cluster_is_a_snapshot_of_another(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "before.yaml"
    assert main(["snapshot", "export", "before", "--output", str(file)]) == 0
    manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert (manifest["kind"], manifest["metadata"]) == (names.SNAPSHOT_KIND, {"name": "before"})
    assert decode_snapshot(manifest["spec"]["checkpoint"]) == CHECKPOINT
    assert main(["snapshot", "import", str(file), "--namespace", "shop-2", "--timeout", "0"]) == 0
    ((path, body),) = cluster.created
    assert "/namespaces/shop-2/" in path
    assert body == manifest
    assert main(["snapshot", "import", str(file), "--name", "again", "--timeout", "0"]) == 0
    assert cluster.created[1][1]["metadata"] == {"name": "again"}


def test_the_export_of_a_job_with_state_says_which_folder_to_copy(cluster: Cluster, capsys: Any) -> None:
    assert main(["snapshot", "export", "before"]) == 0
    assert capsys.readouterr().err == ""
    cluster.text = encode_retained(replace(CHECKPOINT, engine="of the engine"))
    assert main(["snapshot", "export", "before"]) == 0
    answer = capsys.readouterr()
    assert "Copy folder job-uid/retained/checkpoint-12 of its volume" in answer.err
    assert decode_snapshot(yaml.safe_load(answer.out)["spec"]["checkpoint"]).engine == "of the engine"


def test_a_file_that_exists_is_not_overwritten(cluster: Cluster, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "before.yaml"
    file.write_text("mine", encoding="utf-8")
    assert main(["snapshot", "export", "before", "--output", str(file)]) == 1
    assert file.read_text(encoding="utf-8") == "mine"
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("state", "Pending", "is not Ready"), ("uid", "another", "created again"),
        ("text", TEXT[:-5], "cannot be used"),
        ("text", TEXT.replace("job-uid", "other"), "belongs to the job"),
    ],
)  # fmt: skip
def test_what_cannot_be_restored_is_not_exported(
    cluster: Cluster, capsys: Any, field: str, value: str, said: str
) -> None:
    setattr(cluster, field, value)
    assert main(["snapshot", "export", "before"]) == 1
    answer = capsys.readouterr()
    assert answer.out == ""
    assert said in answer.err


def manifest(**spec: Any) -> str:
    body = {
        "kind": names.SNAPSHOT_KIND, "metadata": {"name": "x", "finalizers": ["a/b"]},
        "spec": {"jobRef": {"name": "orders"}, "checkpoint": TEXT, "trigger": "Periodic", **spec},
    }  # fmt: skip
    return yaml.safe_dump(body)


def test_only_names_and_checkpoint_of_a_file_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(manifest(), encoding="utf-8")
    body = read_manifest(file, name="")
    assert set(body["spec"]) == {"jobRef", "checkpoint"}
    assert body["metadata"] == {"name": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "kind: KafkaSparkSnapshot", "a: &a [*a]", "\x00", "!!python/object/apply:os.system [exit]",
        manifest(checkpoint="{}"), manifest(checkpoint=[1]), manifest(jobRef="orders"),
        manifest().replace(names.SNAPSHOT_KIND, "Secret"), "#" * (MAX_FILE_BYTES + 1),
    ],
    ids=["empty", "list", "bare", "loop", "zero", "code", "no checkpoint", "no text", "no job", "kind", "size"],
)  # fmt: skip
def test_a_hostile_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(CommandRefused) as refused:
        read_manifest(file, name="")
    assert str(file) in refused.value.message


def test_a_word_too_many_is_refused(cluster: Cluster, capsys: Any) -> None:
    assert main(["snapshot", "orders", "another"]) == 1
    assert main(["snapshot", "orders", "--output", "file.yaml"]) == 1
    answer = capsys.readouterr().err
    assert "neither export nor import" in answer
    assert "neither table nor json" in answer
    assert cluster.created == []
