"""The tests of the extension once more, over a build that the sanitizers of addresses and undefined behaviour watch.

The thread sanitizer runs a program of its own (tests/support/native/partition_queues_under_threads.c). It covers the
extension's locks: partition queues, wake-ups and client errors. Python and librdkafka are not built with it, because it
would report their locks as absent.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.native import sanitizer

TESTS = ("tests/unit/sparkapp/dataplane/test_extension.py", "tests/integration/dataplane/test_columns.py",
         "tests/integration/dataplane/test_produce.py", "tests/integration/dataplane/test_bounded_read.py",
         "tests/integration/dataplane/test_written_partitions.py",
         "tests/unit/sparkapp/formats/encoders/test_avro_encoder.py",
         "tests/unit/sparkapp/formats/encoders/test_json_encoder.py",
         "tests/unit/sparkapp/formats/encoders/test_json_schema_encoder.py",
         "tests/unit/sparkapp/formats/encoders/test_protobuf_encoder.py")  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sanitizer.build(tmp_path_factory.mktemp("sanitized"))


def test_addresses_and_undefined_behaviour(built: Path, broker: str) -> None:
    paths = f"pythonpath={built} operator dev ."
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        paths,
        "--timeout=300",
        "-k",
        "not plain",
        *TESTS,
    ]
    done = sanitizer.run(built, arguments, seconds=890, KAFKASPARK_BOOTSTRAP=broker)
    assert done.returncode == 0, done.stdout[-8000:]


def test_the_build_under_test_is_watched(built: Path) -> None:
    program = (
        "import sparkapp.dataplane.native._kafka_arrow as ours\n"
        f"assert ours.__file__.startswith({str(built)!r}), ours.__file__\n"
        "import ctypes\n"
        "ctypes.CDLL(ours.__file__).buffer_free(ctypes.c_void_p(8))\n"
    )
    done = sanitizer.run(built, ["-c", program], seconds=100)
    assert done.returncode != 0
    assert "buffer_free" in done.stdout
    assert "Sanitizer" in done.stdout or "runtime error" in done.stdout


def test_the_locks_of_partition_queues_and_client_errors(tmp_path: Path) -> None:
    done = sanitizer.partition_queues_under_threads(tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("80000\n", "", 0)


def test_a_lock_that_is_left_out_is_a_race(tmp_path: Path) -> None:
    sources = tmp_path / "ext"
    shutil.copytree(sanitizer.ROOT / "sparkapp/dataplane/native/ext", sources)
    queues = (sources / "consumer" / "partition_queue.c").read_text()
    lock, read, unlock = (
        f"    {line};\n"
        for line in (
            "pthread_mutex_lock(&wake->lock)",
            "uint64_t count = wake->arrivals",
            "pthread_mutex_unlock(&wake->lock)",
        )
    )
    assert lock + read + unlock in queues
    (sources / "consumer" / "partition_queue.c").write_text(queues.replace(lock + read + unlock, read))
    assert "data race" in sanitizer.partition_queues_under_threads(tmp_path, sources=sources).stderr
