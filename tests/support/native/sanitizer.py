"""The C extension built with sanitizers: Python run over it, and its threads' part without Python."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SOURCES = ROOT / "sparkapp" / "dataplane" / "native"
_INCLUDES = tuple(f"-I{part}" for part in sorted((_SOURCES / "ext").iterdir()))
_EVERY = ("-g", "-O1", "-fno-omit-frame-pointer", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
          "-Wno-unused-parameter", *_INCLUDES, f"-I{sysconfig.get_path('include')}")  # fmt: skip
_OF_PYTHON = ("PyList_New", "PyUnicode_DecodeUTF8", "Py_BuildValue", "_Py_BuildValue_SizeT", "_Py_Dealloc")
_WITHOUT_PYTHON = (
    "consumer/partition_queue", "arrow/columns", "arrow/buffer", "arrow/export", "arrow/utf8", "client/client_errors",
)  # fmt: skip


def build(folder: Path) -> Path:
    """Compiles the extension with the checks of addresses and of undefined behaviour, which end the process.

    :param folder: a package ``sparkapp`` is made in it, of links to the sources.
    :returns: the folder to put first on Python's path.
    """
    native = folder / _SOURCES.relative_to(ROOT)
    native.mkdir(parents=True)
    for package in (ROOT / "sparkapp", _SOURCES.parent, _SOURCES):
        for each in package.iterdir():
            if each.suffix != ".so" and each.name not in {"dataplane", "native", "__pycache__"}:
                (folder / package.relative_to(ROOT) / each.name).symlink_to(each)
    sources = [_SOURCES / "_kafka_arrow.c", *sorted((_SOURCES / "ext").glob("*/*.c"))]
    extension = native / f"_kafka_arrow{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(
        ["cc", *_EVERY, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC", *sources,
         "-o", extension, "-ldl", "-lpthread"],
        check=True,
    )  # fmt: skip
    return folder


def run(built: Path, arguments: Sequence[str], *, seconds: float, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs Python over the build; its output holds the sanitizers' report.

    :param more: environment variables.
    """
    asked = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    environment = {
        **os.environ,
        # Python and its libraries keep memory to their end.
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "LD_PRELOAD": asked.stdout.strip(),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": f"{built}:{ROOT / 'operator'}:{ROOT / 'dev'}:{ROOT}",
        "KAFKASPARK_NATIVE": "required",
        **more,
    }
    return subprocess.run(
        [sys.executable, "-P", *arguments], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
    )  # fmt: skip


def partition_queues_under_threads(
    folder: Path, *, sources: Path = _SOURCES / "ext"
) -> subprocess.CompletedProcess[str]:
    """Builds ``partition_queues_under_threads.c`` with the thread sanitizer and runs it.

    :param sources: the extension's C files.
    """
    program = folder / "partition_queues_under_threads"
    subprocess.run(
        ["cc", *_EVERY, "-fsanitize=thread", Path(__file__).with_name("partition_queues_under_threads.c"),
         *(sources / f"{name}.c" for name in _WITHOUT_PYTHON),
         *(f"-Wl,--defsym,{name}=0" for name in _OF_PYTHON), "-lpthread", "-o", program],
        check=True,
    )  # fmt: skip
    return subprocess.run([program], capture_output=True, text=True, timeout=100, check=False)
