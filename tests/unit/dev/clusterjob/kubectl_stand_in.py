"""A stand-in for kubectl that prints what it would, and then stays as a watch does."""

from __future__ import annotations

from pathlib import Path

from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl


def kubectl_that_prints(folder: Path, *documents: str) -> Kubectl:
    """Whatever is asked of it, the answer is these documents."""
    return _kubectl(folder, f"{_prints(*documents)}exec sleep 60\n")


def kubectl_that_lags(folder: Path, *, watched: str, now: str) -> Kubectl:
    """Its watches have seen a document, and the API server holds a newer answer."""
    watch = f'case "$*" in *--watch*)\n{_prints(watched)}exec sleep 60\nesac\n'
    return _kubectl(folder, watch + _prints(now))


def _prints(*documents: str) -> str:
    return "cat <<'E'\n" + "".join(f"{each}\n" for each in documents) + "E\n"


def _kubectl(folder: Path, script: str) -> Kubectl:
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    return Kubectl(
        ClusterEnvironment(
            kubeconfig=folder,
            kubectl=str(program),
            helm="",
            bootstrap="",
            bootstrap_pods="",
            logs=folder,
            network_policies=False,
        )
    )
