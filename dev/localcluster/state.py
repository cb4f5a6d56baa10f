"""The state folder: creates, marks, locks and deletes it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from localcluster.errors import SetupError
from localcluster.machine import mounts
from localcluster.settings import Settings

_MARK = ".kafkaspark-state"
_DELETED = ".deleted-"


@contextmanager
def held(settings: Settings) -> Iterator[None]:
    """Creates the folder if it does not exist, and locks it against other commands.

    :raises SetupError: the folder cannot be created, or holds files of another program.
    """
    path = settings.run / "lock"
    while True:
        _make(settings)
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another command may have deleted the folder meanwhile: then the lock is another file now.
            if path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                yield
                return


def purge(settings: Settings) -> None:
    """Deletes the folder with its content. The caller holds the lock, and has stopped the cluster.

    :raises SetupError: the folder does not have the mark of this tool.
    """
    if not settings.state.exists():
        return
    if not _is_ours(settings):
        raise SetupError(
            f"{settings.state} was not created by this tool and is not deleted",
            hint="set KAFKASPARK_STATE to the cluster's folder, or delete the folder by hand",
        )
    mounts.unmount_below(settings.state, settings.run)
    # Renamed first: the deletion takes seconds, and the next command does not have to wait for it.
    settings.state.rename(settings.state.with_name(f"{settings.state.name}{_DELETED}{os.getpid()}"))
    for deleted in settings.state.parent.glob(f"{settings.state.name}{_DELETED}*"):
        shutil.rmtree(deleted, ignore_errors=True)


def write_env_file(settings: Settings, values: Mapping[str, str]) -> None:
    """Writes the cluster's addresses for the demo and the tests, as ``KEY=VALUE`` lines."""
    unfinished = settings.env_file.with_suffix(".tmp")
    unfinished.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    unfinished.replace(settings.env_file)


def read_env_file(settings: Settings) -> dict[str, str]:
    """The values that :func:`write_env_file` wrote last; empty where nothing runs."""
    if not settings.env_file.exists():
        return {}
    pairs = (line.partition("=") for line in settings.env_file.read_text().splitlines())
    return {key: value for key, _, value in pairs if key}


def _is_ours(settings: Settings) -> bool:
    # The name suffices: a person may have deleted the mark with other files of the folder.
    return settings.state.name == "kafkaspark" or (settings.state / _MARK).exists()


def _make(settings: Settings) -> None:
    try:
        if not settings.state.exists():
            settings.state.mkdir(parents=True, mode=0o755)
        elif not _is_ours(settings) and any(settings.state.iterdir()):
            raise SetupError(
                f"{settings.state} has files that this tool did not create",
                hint="set KAFKASPARK_STATE to an empty folder",
            )
        (settings.state / _MARK).touch()
        settings.logs.mkdir(exist_ok=True)
        settings.run.mkdir(parents=True, exist_ok=True)
        settings.cache.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise SetupError(
            f"{settings.state} cannot be used: {refused}",
            hint="run as root, or set KAFKASPARK_STATE and KAFKASPARK_CACHE to folders with write access",
        ) from refused
