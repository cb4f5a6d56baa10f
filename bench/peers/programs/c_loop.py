"""Builds the loop in C against the librdkafka of confluent_kafka's wheel, which the engine uses, too."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from sparkapp.dataplane.native.librdkafka import library
from tests.support.native.rdkafka_header import rdkafka_header

_SOURCE = Path(__file__).with_name("c_loop.c")


def build(cache: Path) -> Path:
    """The program, compiled where the cache has none of this source and library.

    :raises RuntimeError: librdkafka's header is not to be had.
    :raises subprocess.CalledProcessError: it does not compile; the compiler's messages are on standard error.
    """
    shared = library()
    key = hashlib.sha256(_SOURCE.read_bytes() + str(shared).encode()).hexdigest()[:12]
    program = cache / f"c-loop-{key}"
    if program.exists():
        return program
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        shutil.copy(rdkafka_header(), folder / "librdkafka.h")
        subprocess.run(
            ["cc", "-O2", "-Wall", "-Wextra", "-isystem", folder, "-std=gnu11", "-o",
             folder / "c-loop", _SOURCE, shared, f"-Wl,-rpath,{shared.parent}", "-lpthread"],
            check=True,
        )  # fmt: skip
        (folder / "c-loop").replace(program)
    return program
