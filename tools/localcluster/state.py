"""The state folder: made, marked as ours, held by one command at a time, and thrown away."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from localcluster import mounts
from localcluster.errors import SetupError
from localcluster.settings import Settings

_MARK = ".kafkaspark-state"
_DOOMED = ".deleted-"


@contextmanager
def held(settings: Settings) -> Iterator[None]:
    """Makes the folder if need be and keeps other commands out of it meanwhile.

    :raises SetupError: the folder cannot be made, or is somebody else's.
    """
    path = settings.run / "lock"
    while True:
        _make(settings)
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # While this waited, somebody may have deleted the folder: then the lock is another file now.
            if path.exists() and os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                yield
                return


def purge(settings: Settings) -> None:
    """Deletes the folder with everything in it, once nothing runs any more; called by who holds it.

    :raises SetupError: the folder has no mark of this tool, so deleting it would be an accident.
    """
    if not settings.state.exists():
        return
    if not _is_ours(settings):
        raise SetupError(
            f"{settings.state} was not made by this tool and is not deleted",
            hint="point KAFKASPARK_STATE at the cluster's folder, or delete it by hand",
        )
    mounts.unmount_below(settings.state, settings.run)
    # Out of the way at once: deleting takes a while, and the next command need not wait for it.
    settings.state.rename(settings.state.with_name(f"{settings.state.name}{_DOOMED}{os.getpid()}"))
    for doomed in settings.state.parent.glob(f"{settings.state.name}{_DOOMED}*"):
        shutil.rmtree(doomed, ignore_errors=True)


def write_env_file(settings: Settings, values: Mapping[str, str]) -> None:
    """Tells the demo and the tests how to reach what runs, as ``KEY=VALUE`` lines."""
    unfinished = settings.env_file.with_suffix(".tmp")
    unfinished.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    unfinished.replace(settings.env_file)


def read_env_file(settings: Settings) -> dict[str, str]:
    """What :func:`write_env_file` wrote last; nothing where nothing runs."""
    if not settings.env_file.exists():
        return {}
    pairs = (line.partition("=") for line in settings.env_file.read_text().splitlines())
    return {key: value for key, _, value in pairs if key}


def _is_ours(settings: Settings) -> bool:
    # The name speaks for itself where the mark was deleted by hand, with some of the rest.
    return settings.state.name == "kafkaspark" or (settings.state / _MARK).exists()


def _make(settings: Settings) -> None:
    try:
        if not settings.state.exists():
            settings.state.mkdir(parents=True, mode=0o755)
        elif not _is_ours(settings) and any(settings.state.iterdir()):
            raise SetupError(
                f"{settings.state} has files that this tool did not make",
                hint="point KAFKASPARK_STATE at a folder of its own",
            )
        (settings.state / _MARK).touch()
        settings.logs.mkdir(exist_ok=True)
        settings.run.mkdir(parents=True, exist_ok=True)
        settings.cache.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise SetupError(
            f"cannot use {settings.state}: {refused}",
            hint="run as root, or point KAFKASPARK_STATE and KAFKASPARK_CACHE at folders you may write to",
        ) from refused
