"""Debian packages that the tool needs: installed when their program is missing."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.machine.commands import run
from localcluster.progress import Progress
from localcluster.settings import Settings

# Folders of administrators' programs, which are often not on the PATH of a root shell started by sudo or su.
_MORE_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_apt = threading.Lock()  # apt allows a single process, and steps run in parallel


@dataclass(frozen=True)
class Need:
    """A program or file, and the Debian package that has it."""

    package: str
    program: str

    def is_met(self) -> bool:
        """Whether the program is on ``PATH``, or the file is there."""
        return Path(self.program).exists() if self.program.startswith("/") else shutil.which(self.program) is not None


OPENSSL = Need("openssl", "openssl")
IP = Need("iproute2", "ip")
CLUSTER = (
    Need("containerd", "containerd"),
    Need("runc", "runc"),
    Need("containernetworking-plugins", "/usr/lib/cni/bridge"),
    Need("iptables", "iptables"),
    Need("conntrack", "conntrack"),
    Need("ipset", "ipset"),
    Need("mount", "umount"),
    IP,
    OPENSSL,
)
JAVA = Need("openjdk-17-jre-headless", "java")
KAFKA = (JAVA, Need("maven", "mvn"))
ALLOCATOR = Need("libjemalloc2", "/usr/share/doc/libjemalloc2")
"""The library that the sparkapp image preloads, for benches without the image."""
IMAGES = (Need("buildah", "buildah"), Need("mmdebstrap", "mmdebstrap"), Need("skopeo", "skopeo"))


def missing(needs: Iterable[Need]) -> list[str]:
    """The packages among ``needs`` whose program is not on this machine."""
    widen_path()
    return sorted({need.package for need in needs if not need.is_met()})


def ensure(needs: Iterable[Need], settings: Settings, progress: Progress) -> None:
    """Installs the missing packages of ``needs``.

    :raises SetupError: a package is missing and cannot be installed: no root, no Debian, or apt failed.
    """
    wanted = list(needs)
    with _apt:
        packages = missing(wanted)
        if not packages:
            return
        by_hand = f"install the packages as root: apt-get install {' '.join(packages)}"
        if shutil.which("apt-get") is None:
            raise SetupError(
                f"programs of these packages are missing, and apt-get is not on this machine: {', '.join(packages)}",
                hint=by_hand,
            )
        if os.geteuid() != 0:
            raise SetupError(f"packages are missing, and this user is not root: {', '.join(packages)}", hint=by_hand)
        log = settings.logs / "apt.log"
        with progress.step(f"install Debian packages: {' '.join(packages)}"):
            try:
                _install(packages, log, _environment())
            except SetupError:
                # The machine's package lists may be old, or empty.
                run(["apt-get", "update"], log=log, environment=_environment(), hint=by_hand)
                _install(packages, log, _environment(), hint=by_hand)
        still = missing(wanted)
        if still:
            raise SetupError(f"programs of installed packages were not found: {', '.join(still)}", log=log)


def _install(packages: list[str], log: Path, environment: Mapping[str, str], hint: str = "") -> None:
    run(
        ["apt-get", "install", "--yes", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", *packages],
        log=log,
        environment=environment,
        hint=hint,
    )


def _environment() -> dict[str, str]:
    # RUNLEVEL=1 keeps the packages' services stopped: the tool runs its own containerd.
    return {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "NEEDRESTART_SUSPEND": "1"}


def widen_path() -> None:
    """Adds the folders of administrators' programs to ``PATH``. The local cluster calls it before it looks for one."""
    present = os.environ.get("PATH", "").split(os.pathsep)
    added = [folder for folder in _MORE_PROGRAM_FOLDERS if folder not in present]
    if added:
        os.environ["PATH"] = os.pathsep.join([*present, *added])
