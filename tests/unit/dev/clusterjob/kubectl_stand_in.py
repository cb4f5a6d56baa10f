"""A stand-in for kubectl that prints what it would, and then stays as a watch does."""

from __future__ import annotations

from pathlib import Path

from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl


def kubectl_that_prints(folder: Path, *documents: str) -> Kubectl:
    """Whatever is asked of it, the answer is these documents."""
    program = folder / "kubectl"
    program.write_text("#!/bin/sh\ncat <<'E'\n" + "".join(f"{one}\n" for one in documents) + "E\nexec sleep 60\n")
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
