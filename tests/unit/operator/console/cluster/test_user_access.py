"""Commands for a cluster: a kubeconfig that is no kubeconfig, an API server that is none, and rights that lack."""

from __future__ import annotations

import json
import threading
from argparse import Namespace
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import kube_config

from kafkaspark.__main__ import main
from sparkapp.__main__ import _stores
from sparkapp.cli.job_checkpoints import ClusterCheckpoints, FoundJob
from sparkapp.model.errors import CheckpointError
from tests.support.kubernetes.state_fixture import job

COMMANDS = [
    ["status", "o"],
    ["logs", "o"],
    ["state", "o"],
    ["state", "read", "o"],
    ["snapshot", "o"],
    ["restore", "o", "--checkpoint", "1"],
    ["checkpoint", "list", "--job", "o"],
    ["txn", "list", "--job", "o"],
    ["txn", "list", "--job", "o", "--in-cluster", "print"],
    ["topic", "list", "--job", "o"],
]
COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
JOB = {
    "metadata": {"name": "o", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
    "spec": {"kafka": {"bootstrapServers": "b:1"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}},
}


@pytest.fixture(autouse=True)
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the client reads where nobody names another."""
    file = tmp_path / "kubeconfig"
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    return file


@pytest.mark.parametrize("text", ["a: [", "hello", "", "- 1", "\x00", "kind: Config\ncontexts: 5", None])
@pytest.mark.parametrize("command", [*COMMANDS, ["ui", "--port", "0"]], ids=" ".join)
def test_a_damaged_kubeconfig_is_a_refusal(
    command: list[str], text: str | None, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is None:
        kubeconfig.mkdir()
    else:
        kubeconfig.write_text(text, encoding="utf-8")
    said = refused(command, capsys)
    assert said.startswith("no cluster is configured: ")
    assert str(kubeconfig) in said, said
    assert "\nFix: set KUBECONFIG, or look at: kubectl config get-contexts\n" in said


@COMMAND
@pytest.mark.usefixtures("server")
def test_a_context_that_is_not_there_is_named(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = refused([*command, "--context", "other"], capsys)
    assert said.startswith("no cluster is configured: ")
    assert "other" in said


def test_a_driver_without_a_cluster_may_start_again(kubeconfig: Path) -> None:
    """Its failure is that of the checkpoint's store, and no refusal of a command, which is final."""
    kubeconfig.write_text("a: [", encoding="utf-8")
    with pytest.raises(CheckpointError, match="no cluster is configured: ") as failed:
        _stores(job("uid", attempt=1), Namespace(state=None))
    assert not failed.value.fatal


class Server(ThreadingHTTPServer):
    """What answers at the address of the kubeconfig."""

    answer: tuple[int, bytes] = (200, b"<html>log in</html>")
    job: dict[str, Any] | None = None


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        status, body = self.server.answer
        if self.server.job is not None and self.path.endswith("/kafkasparkjobs/o"):
            status, body = 200, json.dumps(self.server.job).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if body.startswith(b"<") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server(kubeconfig: Path) -> Iterator[Server]:
    made = Server(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    context = {"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{made.server_port}"}}
    body = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [context], "clusters": [cluster],
        "users": [{"name": "u", "user": {}}],
    }  # fmt: skip
    kubeconfig.write_text(yaml.safe_dump(body), encoding="utf-8")
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def refusing(status: int, reason: str) -> tuple[int, bytes]:
    body = {"kind": "Status", "message": f'kafkasparkjobs "o" {reason}', "reason": reason, "code": status}
    return status, json.dumps(body).encode()


def refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a refused command says. The exit status of ``status`` is its own."""
    assert main(command) == (2 if command[0] == "status" else 1)
    return capsys.readouterr().err


@COMMAND
@pytest.mark.parametrize("body", [b"<html>log in</html>", b"[]", b"5", b""])
def test_an_answer_that_is_no_object_is_a_refusal(
    command: list[str], body: bytes, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = (200, body)
    said = refused(command, capsys)
    assert "the API server's answer is no JSON object" in said
    assert "\nFix: check the kubeconfig: kubectl cluster-info\n" in said


def test_a_list_without_items_is_a_refusal(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.answer, server.job = (200, b"{}"), JOB
    assert "the API server's answer is no list" in refused(["status", "o"], capsys)


@COMMAND
@pytest.mark.parametrize(
    ("status", "reason", "remedy"),
    [
        (404, "NotFound", "list the jobs: kubectl get ksj --all-namespaces"),
        (401, "Unauthorized", "check the kubeconfig: kubectl cluster-info"),
    ],
)
def test_a_job_or_a_person_that_is_not_known_has_a_command(
    command: list[str], server: Server, capsys: pytest.CaptureFixture[str], *, status: int, reason: str, remedy: str
) -> None:
    server.answer = refusing(status, reason)
    assert f"\nFix: {remedy}\n" in refused(command, capsys)


@COMMAND
def test_who_may_not_read_a_job_asks_for_the_role_view(
    command: list[str], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = refusing(403, "Forbidden")
    said = refused(command, capsys)
    assert "the ClusterRole view of Kubernetes" in said
    assert "--clusterrole view --user USER -n shop" in said
    assert "can-i patch" not in said


@pytest.mark.parametrize("name", ["state", "checkpoint list --job", "restore --checkpoint 1", "txn list --job"])
def test_who_may_not_read_the_state_is_told_what_to_ask(
    name: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remedy was that of the driver: whether its service account may patch."""
    server.answer, server.job = refusing(403, "Forbidden"), JOB
    said = refused([*name.split(), "o"], capsys)
    assert "kubectl auth can-i get configmap/o-state -n shop\n" in said
    assert "--clusterrole view --user USER -n shop" in said
    assert "driver" not in said


@pytest.mark.parametrize("command", [["snapshot", "export", "s"], ["restore", "o", "--snapshot", "s"]], ids=" ".join)
def test_a_snapshot_that_is_not_there_has_the_command_that_lists_snapshots(
    command: list[str], server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = FoundJob(uid="u", text="", texts={})
    monkeypatch.setattr(ClusterCheckpoints, "find", lambda _: found)
    monkeypatch.setattr(FoundJob, "current", lambda _: None)
    server.answer = refusing(404, "NotFound")
    assert "\nFix: list the snapshots: kubectl get kss --all-namespaces\n" in refused(command, capsys)
