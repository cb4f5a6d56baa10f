"""librdkafka's own header, of an npm package that ships librdkafka's source; kept in the cache once it was fetched."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from localcluster.machine.packages import Need, ensure
from localcluster.progress import Progress
from localcluster.settings import Settings

PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
"""The newest package with the header: librdkafka 2.15.1. The wheel has 2.16.0 and no header."""
SHA256 = "5c9810e9b4bdaab555fb56d4110903dfe12cf0d98596e9abd6d7b30ec0e28bee"
_MEMBER = "package/deps/librdkafka/src/rdkafka.h"


def rdkafka_header() -> Path:
    """The header's file, fetched where it is not in the cache.

    :raises RuntimeError: it is not in the cache, and npm does not get it.
    :raises SetupError: npm is missing, and cannot be installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kafkaspark" / "headers"
    header = cache / f"rdkafka-{SHA256[:12]}.h"
    if not header.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _fetch(Path(folder)).replace(header)
    return header


def _fetch(folder: Path) -> Path:
    ensure([Need("npm", "npm")], Settings.from_environment(), Progress())
    try:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        output = getattr(error, "stderr", "") or error
        msg = f"librdkafka's header could not be fetched: {output}. Fix: npm pack {PACKAGE}"
        raise RuntimeError(msg) from error
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        member = archive.extractfile(_MEMBER)
        assert member is not None
        content = member.read()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        msg = f"{PACKAGE} has another rdkafka.h than before: {found}"
        raise RuntimeError(msg)
    fetched = folder / "rdkafka.h"
    fetched.write_bytes(content)
    return fetched
