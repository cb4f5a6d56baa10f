"""The Go programs of the cluster: built once for each state of their sources, kept in the cache."""

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

from localcluster.commands import run
from localcluster.errors import SetupError
from localcluster.progress import Step
from localcluster.settings import HELM_VERSION, KUBERNETES_VERSION, REPOSITORY, Settings

HYPERKUBE_NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubelet",
    "kubectl",
    "helm",
)
# The compiler collects no garbage as long as it has this much memory; a person's own settings go first.
_COMPILER_MEMORY = {name: os.environ.get(name, value) for name, value in {"GOGC": "off", "GOMEMLIMIT": "2GiB"}.items()}
# What the cluster's time goes to: memory, TLS, HTTP, and objects into bytes and back. The rest is compiled without
# optimisation, which takes two fifths of the time less.
_OPTIMISED = (
    "std",
    "golang.org/x/...",
    "google.golang.org/...",
    "k8s.io/apimachinery/...",
    "sigs.k8s.io/...",
    "github.com/fxamacker/...",
    "github.com/json-iterator/...",
)
_NO_GO = "install Go 1.21 or newer and put it on PATH; it fetches the release that the sources ask for by itself"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.removeprefix("v").split(".")


@dataclass(frozen=True)
class GoProgram:
    """A Go module of this repository and how it is linked."""

    name: str
    sources: Path
    variables: tuple[tuple[str, str], ...] = ()

    def flags(self) -> list[str]:
        """Flags of ``go build``: no debug information, a tenth of the time and half of the size; little optimised."""
        sets = [f"-X {variable}={value}" for variable, value in self.variables]
        compiled = ["-gcflags=all=-dwarf=false -N -l", *(f"-gcflags={one}=-dwarf=false" for one in _OPTIMISED)]
        return ["-trimpath", *compiled, f"-ldflags={' '.join(['-s', '-w', *sets])}"]


HYPERKUBE = GoProgram(
    name="hyperkube",
    sources=REPOSITORY / "tools" / "hyperkube",
    variables=(
        ("k8s.io/component-base/version.gitVersion", KUBERNETES_VERSION),
        ("k8s.io/component-base/version.gitMajor", _MAJOR),
        ("k8s.io/component-base/version.gitMinor", _MINOR),
        ("helm.sh/helm/v4/internal/version.version", HELM_VERSION),
    ),
)
PAUSE = GoProgram(name="pause", sources=REPOSITORY / "images" / "pause")


def source_key(program: GoProgram) -> str:
    """Names one state of a program's sources and flags."""
    content = hashlib.sha256(json.dumps(program.flags()).encode())
    for source in sorted(program.sources.iterdir()):
        if source.suffix in {".go", ".mod", ".sum"}:
            content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()[:16]


def build(program: GoProgram, settings: Settings, step: Step) -> Path:
    """The built program: the one in the cache, or a new one; minutes for the first build of the cluster.

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
            hint="the build needs the Go module proxy and about 3 GB of disk; run the same command again to go on",
            on_line=count if command == "build" else None,
        )

    if (program.sources / "go.sum").exists():
        # Minutes of network, many modules at a time; and meanwhile what needs none of them.
        with ThreadPoolExecutor(1, thread_name_prefix="go-mod-download") as beside:
            fetching = beside.submit(go, "mod", "download")
            go("build", "-v", *program.flags(), "std")
            with contextlib.suppress(SetupError):
                fetching.result()  # what is missing the build fetches, or says why it cannot
    packages = _count_packages(program)
    go("build", "-v", *program.flags(), "-o", unfinished, ".")
    unfinished.replace(built)
    return built


def cached(program: GoProgram, settings: Settings) -> Path:
    """Where the program is or will be for the present state of its sources."""
    return settings.cache / "bin" / f"{program.name}-{source_key(program)}" / program.name


def link_names(binary: Path, folder: Path, names: Sequence[str] = HYPERKUBE_NAMES) -> None:
    """Makes ``folder`` hold one link to ``binary`` for each of ``names``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        link = folder / name
        if link.is_symlink() and link.readlink() == binary:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(binary)


def _count_packages(program: GoProgram) -> int:
    """How many packages there are to compile, for the progress lines; 0 where Go cannot tell."""
    listing = subprocess.run(
        ["go", "list", "-deps", "."], cwd=program.sources, capture_output=True, text=True, check=False
    )
    return len(listing.stdout.splitlines())
