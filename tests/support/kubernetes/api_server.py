"""A real API server of this test run's own: etcd, kube-apiserver and the garbage collector, on free ports.

There is no scheduler and no kubelet: pods stay as they are created, and a test plays the kubelet by writing their
status. That makes every story repeatable, and nothing else on the machine can interfere.
"""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from localcluster.kubernetes.go_build import HYPERKUBE, cached, link_names
from localcluster.kubernetes.pki import Authority, write_kubeconfig
from localcluster.machine.ports import free_ports
from localcluster.settings import Settings

START_SECONDS = 240


def programs(folder: Path) -> Path:
    """``folder`` with links to ``etcd``, ``kube-apiserver`` …, as the sources of this checkout give them.

    Skips the test where Kubernetes was never built, as on a machine with kind. Fails it in CI, and where Kubernetes was
    built from other sources only: a change of ``dev/hyperkube`` must not switch tests off.
    """
    settings = Settings.from_environment()
    binary = cached(HYPERKUBE, settings)
    if binary.exists():
        link_names(binary, folder)
        return folder
    if any(binary.parent.parent.glob(f"{HYPERKUBE.name}-*/{HYPERKUBE.name}")):
        pytest.fail("the API server's program is older than dev/hyperkube. Fix: make cluster-down cluster-up")
    if os.environ.get("CI"):
        pytest.fail("the API server's program is missing. Fix: make cluster-up")
    pytest.skip("make cluster-up builds the API server's program")


@contextlib.contextmanager
def api_server(folder: Path, bin_folder: Path) -> Iterator[Path]:
    """Runs the three processes; gives the administrator's kubeconfig."""
    authority = Authority(folder / "pki", folder / "openssl.log")
    server = authority.issue("server", "/CN=kube-apiserver", ["DNS:kubernetes", "IP:127.0.0.1", "IP:10.96.0.1"])
    admin = authority.issue("admin", "/O=system:masters/CN=admin")
    accounts = authority.signing_key("service-accounts")
    client, peer, port = free_ports(3)
    kubeconfig = folder / "kubeconfig"
    write_kubeconfig(kubeconfig, f"https://127.0.0.1:{port}", authority.pair, admin)
    with contextlib.ExitStack() as stack:
        _start(
            stack, folder,
            [
                bin_folder / "etcd", f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error",
                f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}", f"--initial-cluster=default=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            ],
        )  # fmt: skip
        _start(
            stack, folder,
            [
                bin_folder / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{client}", f"--secure-port={port}",
                "--bind-address=127.0.0.1", f"--cert-dir={folder / 'pki'}", f"--tls-cert-file={server.certificate}",
                f"--tls-private-key-file={server.key}", f"--client-ca-file={authority.pair.certificate}",
                f"--service-account-key-file={accounts.certificate}",
                f"--service-account-signing-key-file={accounts.key}",
                "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
                "--authorization-mode=RBAC", "--endpoint-reconciler-type=none", "--profiling=false",
                "--allow-privileged=true", f"--audit-policy-file={_audit_policy(folder)}",
                f"--audit-log-path={folder / 'audit.log'}",
                # Nothing here would take the taint off a namespace's first ServiceAccount.
                "--disable-admission-plugins=ServiceAccount",
            ],
        )  # fmt: skip
        _await_ready(port, authority.pair.certificate, admin.certificate, admin.key, folder)
        _start(
            stack, folder,
            [
                bin_folder / "kube-controller-manager", f"--kubeconfig={kubeconfig}", "--leader-elect=false",
                "--controllers=garbage-collector-controller,namespace-controller", "--secure-port=0",
                "--profiling=false",
            ],
        )  # fmt: skip
        yield kubeconfig


def _audit_policy(folder: Path) -> Path:
    """Logs user, verb and resource of each request but the administrator's and the components'."""
    rules = [
        {"level": "None", "userGroups": ["system:masters"]},
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Metadata", "omitStages": ["RequestReceived"]},
    ]
    path = folder / "audit-policy.json"
    path.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}), encoding="utf-8")
    return path


def _start(stack: contextlib.ExitStack, folder: Path, command: Sequence[Path | str]) -> None:
    log = stack.enter_context((folder / f"{Path(command[0]).name}.log").open("wb"))
    process = subprocess.Popen([str(each) for each in command], stdout=log, stderr=log, start_new_session=True)

    def stop() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

    stack.callback(stop)


def _await_ready(port: int, authority: Path, certificate: Path, key: Path, folder: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    context.load_cert_chain(certificate, key)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", context=context, timeout=2).status == 200:
                return
        time.sleep(0.1)
    msg = f"the API server is not ready after {START_SECONDS} s; its logs are in {folder}"
    raise AssertionError(msg)
