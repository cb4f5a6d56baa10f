"""A file that cannot be read is named with a remedy, and the exit status is 2, whichever command reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kafkaspark.__main__ import main
from tests.support.kubernetes.operator_fixture import job_body

COMMANDS = [
    "validate --no-plan FILE", "plan FILE", "package FILE", "package JOB --requirements FILE",
    "dev FILE --input JOB --once", "dev JOB --input FILE --once",
    "snapshot import FILE", "checkpoint list --state FILE", "checkpoint verify --state FILE", "state o --state FILE",
    "state read o --state FILE --folder .", "topic list --config FILE", "txn list --state FILE --bootstrap b:1",
    "txn list --resource FILE",
]  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> str:
    """A job with modules of its own."""
    (tmp_path / "rules.py").write_text("", encoding="utf-8")
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_body(transform={"python": {"function": "rules:apply"}})), encoding="utf-8")
    return str(file)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kubernetes.config import kube_config

    file = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    body = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))


@pytest.mark.parametrize("kind", ["missing", "folder", "bytes"])
@pytest.mark.parametrize("command", COMMANDS)
def test_it_is_named_with_a_remedy(
    command: str, kind: str, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "asked-for"
    if kind == "folder":
        file.mkdir()
    elif kind == "bytes":
        file.write_bytes(b"\xff\xfe\x00\x80")
    assert main([{"FILE": str(file), "JOB": job}.get(word, word) for word in command.split()]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert "\nFix: " in said


@pytest.mark.parametrize(
    "text", ["a: [", "a: &a [*a", "a: 2024-13-45", "kind: List\nitems: 5", "kind: List\nitems: [1]"]
)
@pytest.mark.parametrize("command", ["validate --no-plan", "plan", "package", "dev --once --input JOB"])
def test_a_file_that_holds_no_objects_is_named(
    command: str, text: str, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(text, encoding="utf-8")
    assert main([*(job if word == "JOB" else word for word in command.split()), str(file)]) == 2
    said = capsys.readouterr().err
    assert f"{file}" in said
    assert "\nFix: " in said


@pytest.mark.parametrize("command", ["validate --no-plan", "plan"])
def test_the_other_files_are_judged(command: str, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that cannot be read took the verdicts before it away."""
    missing = str(tmp_path / "missing.yaml")
    assert main([*command.split(), job, missing, job]) == 2
    printed = capsys.readouterr()
    assert printed.out.count("team/orders") == 2
    assert f"cannot read {missing}: " in printed.err


@pytest.mark.parametrize("command", ["validate --no-plan", "plan", "package", "dev --once --input JOB"])
def test_a_file_without_a_job_is_named(
    command: str, job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("kind: Pod", encoding="utf-8")
    assert main([*(job if word == "JOB" else word for word in command.split()), str(file)]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert "\nFix: " in said


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["init", str(tmp_path / "file" / "orders")]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "file") in said
    assert "\nFix: " in said
