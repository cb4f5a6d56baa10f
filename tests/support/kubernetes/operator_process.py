"""The operator as a process of its own, as it runs in its pod."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.machine.ports import free_ports
from tests.support.kubernetes.api_client import REPOSITORY, await_that

DRIVER_POLICY = "kafkaspark-system-kafkaspark-operator-drivers"
"""That of the chart as the tests render it."""


class OperatorProcess:
    """Runs ``python -m kafkasparkjob_operator`` against one API server and one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path, settings: Mapping[str, str] | None = None) -> None:
        (self.port,) = free_ports(1)
        given = {
            "namespace": namespace, "watch_namespaces": namespace, "http_port": str(self.port), "numbers_seconds": "1",
            "identity": f"operator-{self.port}", "driver_policy": DRIVER_POLICY, **(settings or {}),
        }  # fmt: skip
        environment = {f"KAFKASPARK_OPERATOR_{name.upper()}": value for name, value in given.items()}
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "error",
                    "-W",
                    "ignore::DeprecationWarning",
                    "-W",
                    "ignore::ResourceWarning",
                    "-m",
                    "kafkasparkjob_operator",
                ],
                env={
                    "PATH": os.environ["PATH"],
                    "KUBECONFIG": str(kubeconfig),
                    "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}",
                    **environment,
                },
                stdout=file,
                stderr=file,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def read(self, path: str) -> str:
        """A page of its HTTP server; empty where there is none yet, or an error."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as response:
                return str(response.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def of_process(self) -> dict[str, str]:
        """Command line and environment of the process."""
        folder = Path(f"/proc/{self._process.pid}")
        return {name: (folder / name).read_text(errors="replace") for name in ("cmdline", "environ")}

    def cpu_seconds(self) -> float:
        """CPU time that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def await_leading(self) -> None:
        await_that("the operator leads", lambda: "kafkaspark_operator_leader 1.0" in self.read("/metrics"))

    def kill(self) -> None:
        """As a crash of its node would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)

    def stop(self) -> int:
        """As Kubernetes stops a pod; the exit status."""
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait(20)


@dataclass(frozen=True)
class Place:
    """A namespace, and an identity with the rights that the chart gives the operator there."""

    namespace: str
    kubeconfig: Path


@dataclass(frozen=True)
class Running:
    """An operator that many tests share, each with a job of its own name."""

    place: Place
    operator: OperatorProcess
