"""A store with the S3 protocol for a test, with its objects in memory.

::

    with ObjectStoreServer(tmp_path) as store:
        S3Storage(bucket=BUCKET, endpoint=store.endpoint, path_style_access=True)

It is gofakes3 behind real HTTP. SeaweedFS was not tried to the end: its modules are 2.5 GB, and took nine minutes to
fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from localcluster.kubernetes.go_build import GoProgram, build
from localcluster.machine.http_server import HttpServer
from localcluster.machine.ports import free_ports
from localcluster.progress import Progress
from localcluster.settings import REPOSITORY, Settings

BUCKET = "state"
PROGRAM = GoProgram(
    name="objectstore", sources=REPOSITORY / "dev" / "localcluster" / "objectstore" / "server", variables=()
)


class ObjectStoreServer(HttpServer):
    """A server on a free port; it starts and ends with the block. It takes any access key.

    :param directory: of its log. :param host: the address of this machine; that of the node for clients in pods.
    :raises SetupError: it cannot be built, or does not start.
    """

    title = "the object store"
    log_name = "object-store.log"
    ready_path = "/"
    start_seconds = 60.0

    def __init__(self, directory: Path, *, host: str = "127.0.0.1") -> None:
        settings, progress = Settings.from_environment(), Progress()
        with progress.step("build an object store") as step:
            self._program = build(PROGRAM, settings, step)
        super().__init__(directory, free_ports(1)[0], host=host)

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://{self.host}:{self.port}"

    def _command(self) -> Sequence[str | Path]:
        return [self._program, "-address", f"{self.host}:{self.port}", "-bucket", BUCKET]
