"""``ext/client/rdkafka.h`` declares librdkafka's functions and structures as librdkafka's own header does.

The compiler compares them: ``_Static_assert`` on every enumerator, on size and offset of every field, and on the type
of every function. Our declarations are renamed for it, since both are in one translation unit.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.native.rdkafka_header import rdkafka_header

OURS = Path("sparkapp/dataplane/native/ext/client/rdkafka.h")
_OPAQUE = re.compile(r"^typedef struct (\w+) \w+;$|^struct \w+;$", re.MULTILINE)
_STRUCT = re.compile(r"typedef struct (\w+) \{\n(.*?)\n\} (\w+);", re.DOTALL)
_FIELD = re.compile(r"^ {4}(?! )[^;{]*?\b(\w+);", re.MULTILINE)
_INT_FOR_ENUM = re.compile(r"^typedef int (rd_kafka_\w+);", re.MULTILINE)
_CALLBACK = re.compile(r"^typedef (?:void|int|int32_t|rd_kafka_resp_err_t) rd_kafka_\w+_cb\(.*\);$", re.MULTILINE)


def program(ours: str) -> str:
    """C that compiles only where ``ours`` agrees with librdkafka's header."""
    declarations, _, functions = ours.partition("/* X(result, name")
    functions = "/* X(result, name" + functions.partition("#define RDKAFKA_POINTER")[0]
    callbacks = _CALLBACK.findall(declarations)
    renamed = re.sub(r"\b(rd_kafka_\w+|RD_KAFKA_\w+)", r"our_\1", _CALLBACK.sub("", declarations))
    checks = [
        *(f'_Static_assert((long)our_{name} == (long){name}, "{name}");' for name in enumerators(declarations)),
        *(f'_Static_assert(sizeof(our_{name}) == sizeof({name}), "{name}");' for name in _INT_FOR_ENUM.findall(ours)),
    ]
    for _, body, name in _STRUCT.findall(declarations):
        checks.append(f'_Static_assert(sizeof(our_{name}) == sizeof({name}), "{name}");')
        for field in _FIELD.findall(re.sub(r"/\*.*?\*/", "", body)):
            checks += [
                f'_Static_assert(offsetof(our_{name}, {field}) == offsetof({name}, {field}), "{name}.{field}");',
                f"_Static_assert(sizeof(((our_{name} *)0)->{field}) == sizeof((({name} *)0)->{field}),"
                f' "{name}.{field}");',
            ]
    function = (
        "#define CHECK(result, name, parameters) _Static_assert(__builtin_types_compatible_p("
        'result(*) parameters, __typeof__(&rd_kafka_##name)), "rd_kafka_" #name);'
    )
    return "\n".join(
        ['#include "librdkafka.h"', renamed, "#endif", *callbacks, functions, *checks, function,
         "RDKAFKA_FUNCTIONS(CHECK)", ""]
    )  # fmt: skip


def enumerators(declarations: str) -> list[str]:
    bodies = re.findall(r"enum(?: \w+)? \{(.*?)\}", declarations, re.DOTALL)
    return [name for body in bodies for name in re.findall(r"\b(RD_KAFKA_\w+)", body)]


def compiled(folder: Path, ours: str) -> str:
    """What the compiler has against it; empty: nothing."""
    (folder / "librdkafka.h").write_bytes(rdkafka_header().read_bytes())
    (folder / "check.c").write_text(program(ours))
    done = subprocess.run(
        ["cc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Werror", f"-I{folder}", folder / "check.c"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr


def test_our_declarations_are_those_of_librdkafka(tmp_path: Path) -> None:
    ours = OURS.read_text()
    assert compiled(tmp_path, ours) == ""
    checks = program(ours)
    assert checks.count("offsetof(our_") == 32
    assert len(enumerators(ours)) > 20


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("RD_KAFKA_RESP_ERR__QUEUE_FULL = -184", "RD_KAFKA_RESP_ERR__QUEUE_FULL = -185", "RESP_ERR__QUEUE_FULL"),
        ("    int64_t offset;\n    void *_private", "    int32_t offset;\n    void *_private", "message_t.offset"),
        ("char _pad[64]", "char _pad[72]", "rd_kafka_vu_t"),
        ("X(int, outq_len, (rd_kafka_t *))", "X(long, outq_len, (rd_kafka_t *))", "rd_kafka_outq_len"),
        ("X(int, poll, (rd_kafka_t *, int))", "X(int, poll, (rd_kafka_t *, long))", "rd_kafka_poll"),
    ],
)  # fmt: skip
def test_a_declaration_that_is_wrong_does_not_compile(tmp_path: Path, right: str, wrong: str, complaint: str) -> None:
    ours = OURS.read_text()
    assert right in ours
    assert complaint in compiled(tmp_path, ours.replace(right, wrong))
