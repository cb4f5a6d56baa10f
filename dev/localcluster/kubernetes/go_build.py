"""Builds the Go programs of the cluster once for each state of their sources, and keeps them in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.machine.commands import run
from localcluster.progress import Step
from localcluster.settings import HELM_VERSION, KUBERNETES_VERSION, REPOSITORY, Settings

HYPERKUBE_NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kube-router",
    "kubelet",
    "kubectl",
    "helm",
)
# The compiler collects no garbage while it has this much memory. Settings of the environment take precedence.
_COMPILER_MEMORY = {name: os.environ.get(name, value) for name, value in {"GOGC": "off", "GOMEMLIMIT": "2GiB"}.items()}
# The cluster spends its time in memory management, TLS, HTTP and serialisation. All other packages are compiled without
# optimisation, which takes two fifths less time.
_OPTIMISED = (
    "std",
    "golang.org/x/...",
    "google.golang.org/...",
    "k8s.io/apimachinery/...",
    "sigs.k8s.io/...",
    "github.com/fxamacker/...",
    "github.com/json-iterator/...",
)
_NO_GO = "install Go 1.21 or newer and put it on PATH; it downloads the release that the sources need"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.removeprefix("v").split(".")


@dataclass(frozen=True)
class GoProgram:
    """A Go module of this repository, and its linker variables."""

    name: str
    sources: Path
    variables: tuple[tuple[str, str], ...] = ()

    def flags(self) -> list[str]:
        """Flags of ``go build``. Without debug information it takes a tenth less time and half of the size."""
        sets = [f"-X {variable}={value}" for variable, value in self.variables]
        compiled = ["-gcflags=all=-dwarf=false -N -l", *(f"-gcflags={package}=-dwarf=false" for package in _OPTIMISED)]
        return ["-trimpath", *compiled, f"-ldflags={' '.join(['-s', '-w', *sets])}"]


HYPERKUBE = GoProgram(
    name="hyperkube",
    sources=REPOSITORY / "dev" / "hyperkube",
    variables=(
        ("k8s.io/component-base/version.gitVersion", KUBERNETES_VERSION),
        ("k8s.io/component-base/version.gitMajor", _MAJOR),
        ("k8s.io/component-base/version.gitMinor", _MINOR),
        ("helm.sh/helm/v4/internal/version.version", HELM_VERSION),
    ),
)
PAUSE = GoProgram(name="pause", sources=REPOSITORY / "images" / "pause")


def source_key(program: GoProgram) -> str:
    """A hash of a program's sources and flags."""
    content = hashlib.sha256(json.dumps(program.flags()).encode())
    for source in sorted(program.sources.iterdir()):
        if source.suffix in {".go", ".mod", ".sum"}:
            content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()[:16]


def build(program: GoProgram, settings: Settings, step: Step) -> Path:
    """The built program. It is built if the cache does not have it; the first build takes minutes.

    :raises SetupError: Go is missing, or the build failed.
    """
    built = cached(program, settings)
    if built.exists():
        return built
    if shutil.which("go") is None:
        raise SetupError("the program go is not on this machine", hint=_NO_GO)
    built.parent.mkdir(parents=True, exist_ok=True)
    unfinished = built.with_suffix(".unfinished")
    packages = compiled = 0

    def count(_line: str) -> None:
        nonlocal compiled
        compiled += 1
        step.detail = f"package {min(compiled, packages)} of {packages}" if packages else f"package {compiled}"

    def go(command: str, *arguments: str | Path) -> None:
        run(
            ["go", command, *arguments],
            cwd=program.sources,
            environment={**_COMPILER_MEMORY, "CGO_ENABLED": "0", "GOWORK": "off"},
            log=settings.logs / f"{command}-{program.name}.log",
            hint="check that the Go module proxy is reachable and 3 GB of disk are free, then run it again",
            on_line=count if command == "build" else None,
        )

    if (program.sources / "go.sum").exists():
        # The download takes minutes of network. Meanwhile the standard library is compiled, which needs no module.
        with ThreadPoolExecutor(1, thread_name_prefix="go-mod-download") as pool:
            fetching = pool.submit(go, "mod", "download")
            go("build", "-v", *program.flags(), "std")
            with contextlib.suppress(SetupError):
                fetching.result()  # the build downloads missing modules, or fails with the cause
    packages = _count_packages(program)
    go("build", "-v", *program.flags(), "-o", unfinished, ".")
    unfinished.replace(built)
    return built


def cached(program: GoProgram, settings: Settings) -> Path:
    """The path of the program in the cache, for the present state of its sources."""
    return settings.cache / "bin" / f"{program.name}-{source_key(program)}" / program.name


def link_names(binary: Path, folder: Path, names: Sequence[str] = HYPERKUBE_NAMES) -> None:
    """Creates a link to ``binary`` in ``folder`` for each of ``names``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        link = folder / name
        if link.is_symlink() and link.readlink() == binary:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(binary)


def _count_packages(program: GoProgram) -> int:
    """Number of packages to compile, for the progress lines; 0 if Go cannot list them."""
    listing = subprocess.run(
        ["go", "list", "-deps", "."], cwd=program.sources, capture_output=True, text=True, check=False
    )
    return len(listing.stdout.splitlines())
