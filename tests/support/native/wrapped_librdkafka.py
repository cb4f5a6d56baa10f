"""librdkafka with some of its functions replaced: a library of a test's own in front of the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def wrapped(folder: Path, source: str) -> Path:
    """Compiles C functions that the extension finds before librdkafka's own.

    The extension looks its functions up by the library's handle, which covers the library's dependencies too.

    :param folder: where the library is made.
    :param source: C; ``real("name")`` is librdkafka's own function.
    :returns: a path for ``_kafka_arrow.load()``.
    """
    from sparkapp.dataplane.native.librdkafka import library

    real = library()
    prelude = '#include <dlfcn.h>\n#include "rdkafka.h"\n#define real(name) dlsym(RTLD_NEXT, name)\n'
    (folder / "wrapped.c").write_text(f"#define _GNU_SOURCE\n{prelude}{source}")
    library = folder / "wrapped.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{ROOT / 'sparkapp/dataplane/native/ext/client'}",
         "-o", library, folder / "wrapped.c", "-Wl,--no-as-needed", real, f"-Wl,-rpath,{real.parent}", "-ldl"],
        check=True,
    )  # fmt: skip
    return library


def run_with(library: Path, program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process whose extension has loaded the library: ``_kafka_arrow`` is imported there."""
    head = f"from sparkapp.dataplane.native import _kafka_arrow\n_kafka_arrow.load({str(library)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", head + program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
