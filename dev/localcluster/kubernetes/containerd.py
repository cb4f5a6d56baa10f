"""The container runtime: Debian's containerd with its own socket, folders and settings.

The machine may run another containerd as a service, which is not changed.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO

from localcluster.errors import SetupError
from localcluster.machine import mounts, network
from localcluster.machine.commands import output_of, succeeds
from localcluster.machine.processes import Daemons, Identity, end
from localcluster.machine.waiting import wait_for
from localcluster.settings import Settings

NAME = "containerd"
PAUSE_IMAGE = "localhost/kafkaspark/pause:1"
_KUBERNETES_NAMESPACE = "k8s.io"
_CNI_PROGRAMS = "/usr/lib/cni"


class Containerd:
    """The cluster's containerd, controlled through ``ctr``."""

    def __init__(self, settings: Settings, daemons: Daemons) -> None:
        """Names the folders; starts nothing."""
        self._daemons = daemons
        self._root = settings.state / "containerd"
        self._run = settings.run / "containerd"
        self._cni = settings.state / "cni"
        self._configuration = settings.state / "containerd.toml"
        self.socket = self._run / "containerd.sock"

    @property
    def endpoint(self) -> str:
        """The socket, in the format of kubelet's configuration."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Starts containerd if it does not run, and waits until it answers.

        :raises SetupError: it did not start.
        """
        network.write_cni_configuration(self._cni / "conf", self._cni / "addresses")
        self._run.mkdir(parents=True, exist_ok=True)
        self._configuration.write_text(self._configuration_text())
        identity = self._daemons.start(NAME, ["containerd", "--config", self._configuration])
        wait_for(
            "containerd answers",
            lambda: succeeds([*self._ctr(), "version"]),
            seconds=240,
            process=identity,
            log=self._daemons.log(NAME),
        )

    def is_running(self) -> bool:
        """Whether the cluster's containerd runs."""
        return self._daemons.running(NAME) is not None

    def images(self) -> dict[str, str]:
        """The names of the images it has, each with the digest of its manifest."""
        listed = output_of([*self._ctr(), "images", "list"]).splitlines()[1:]
        return {columns[0]: columns[2] for columns in (line.split() for line in listed)}

    def blobs(self) -> set[str]:
        """The digests of the layers, configurations and manifests it already has."""
        return set(output_of([*self._ctr(), "content", "list", "--quiet"]).split())

    def load_image(self, reference: str, write_archive: Callable[[IO[bytes]], None]) -> None:
        """Imports the image archive that ``write_archive`` writes. Layers that containerd has may be missing in it.

        The previous image of that name keeps a second name during the import. Otherwise containerd may delete the
        layers that both images share, after the name has moved and before the new image holds them.

        :raises SetupError: containerd refused the image.
        """
        previous = f"{reference}-previous"
        kept = succeeds([*self._ctr(), "images", "tag", "--force", reference, previous])
        try:
            self._import(write_archive)
        finally:
            if kept:
                succeeds([*self._ctr(), "images", "remove", previous])

    def _import(self, write_archive: Callable[[IO[bytes]], None]) -> None:
        importing = subprocess.Popen(
            [*self._ctr(), "images", "import", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert importing.stdin is not None
        assert importing.stderr is not None
        try:
            write_archive(importing.stdin)
            importing.stdin.close()
        except BrokenPipeError:
            pass  # its error message, below, has the cause
        stderr = importing.stderr.read().decode(errors="replace")
        if importing.wait() != 0:
            raise SetupError(f"containerd refused the image: {stderr.strip()}", log=self._daemons.log(NAME))

    def stop(self) -> None:
        """Ends every container, then containerd. Kubelet, which starts containers, has to be stopped before."""
        if self.is_running():
            ctr = self._ctr()
            for task in output_of([*ctr, "tasks", "list", "--quiet"]).split():
                succeeds([*ctr, "tasks", "delete", "--force", task])
            for container in output_of([*ctr, "containers", "list", "--quiet"]).split():
                succeeds([*ctr, "containers", "delete", container])
        self._daemons.stop(NAME)
        self._end_orphans()
        mounts.unmount_below(self._run, self._root)

    def _end_orphans(self) -> None:
        # A killed containerd leaves shims behind, with their containers. The command line of every shim has the
        # address of our socket.
        for shim in shims_of(self.socket):
            children = [Identity.of(child) for child in _children(shim.pid)]
            end(shim, grace_seconds=2)
            for child in children:
                if child is not None:
                    end(child, grace_seconds=0.5)

    def _ctr(self) -> list[str]:
        return ["ctr", "--address", str(self.socket), "--namespace", _KUBERNETES_NAMESPACE]

    def _configuration_text(self) -> str:
        # Strings of JSON are also strings of TOML.
        return f"""\
version = 2
root = {json.dumps(str(self._root))}
state = {json.dumps(str(self._run))}
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs"]
[grpc]
  address = {json.dumps(str(self.socket))}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE, as in many sandboxes, runc may not lower the score that kubelet asks for.
  restrict_oom_score_adj = true
  # Below our own folder, so that `down` finds all of them.
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_CNI_PROGRAMS}"
    conf_dir = {json.dumps(str(self._cni / "conf"))}
"""


def shims_of(socket: Path, proc: Path = Path("/proc")) -> list[Identity]:
    """The running shims of the containerd that listens on ``socket``."""
    found = []
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            argv = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if Path(argv[0]).name.startswith("containerd-shim") and str(socket) in argv:
            identity = Identity.of(int(folder.name))
            if identity is not None:
                found.append(identity)
    return found


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
