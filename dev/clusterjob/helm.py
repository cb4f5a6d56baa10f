"""helm with types, always against the cluster of its environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import CommandFailed


class Helm:
    """Releases of a namespace."""

    def __init__(self, environment: ClusterEnvironment, namespace: str) -> None:
        self._environment = environment
        self._namespace = namespace

    def upgrade_install(
        self, release: str, chart: Path, values: Mapping[str, object] | None = None, *, seconds: int = 600
    ) -> None:
        """Installs a chart or upgrades its release, and waits until the deployed objects are ready.

        :raises CommandFailed: the chart does not render, the API server refuses it, or the time is up.
        """
        settings = [
            f"--set-string={key}={value}" if isinstance(value, str) else f"--set={key}={json.dumps(value)}"
            for key, value in (values or {}).items()
        ]
        self._run(
            "upgrade", "--install", release, str(chart), "--create-namespace", "--wait", f"--timeout={seconds}s",
            *settings, seconds=seconds + 30,
        )  # fmt: skip

    def _run(self, *arguments: str, seconds: float) -> str:
        command = [
            self._environment.helm, f"--kubeconfig={self._environment.kubeconfig}", f"--namespace={self._namespace}",
            *arguments,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False,
                env=self._environment.process_environment(),
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise CommandFailed(["helm", *arguments], f"did not end within {seconds:.0f} s") from late
        if done.returncode != 0:
            raise CommandFailed(["helm", *arguments], done.stderr.strip())
        return done.stdout
