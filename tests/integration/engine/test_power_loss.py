"""The node of the volume loses power: what the disk has is the state that the document names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.sections.transform import OutputMode, Transform
from tests.integration.engine.conftest import LocalJobs
from tests.support.kafka import visibility
from tests.support.patience import until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system"),
]

_MODULE = """
from pyspark.sql import functions as f

def totals(source):
    words = source.select(f.col("value").cast("string").alias("word")).groupBy("word").count()
    return words.select("word", f.concat_ws(" ", "word", "count").alias("value"))
"""
_MEBIBYTES = 256
_ROUNDS = 40


class Disk:
    """A file system of its own. Nothing but a program's order writes to its disk for minutes.

    :param folder: where it is mounted.
    """

    def __init__(self, image: Path, folder: Path) -> None:
        self._image = image
        self.folder = folder
        with image.open("wb") as file:
            file.truncate(_MEBIBYTES << 20)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        folder.mkdir()
        self._mount()

    def _mount(self) -> None:
        # The journal is written each ten minutes, and not each five seconds.
        options = "loop,commit=600"
        subprocess.run(["mount", "-o", options, str(self._image), str(self.folder)], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)

    def lose_power(self) -> None:
        """What the disk has at this moment is all that is left."""
        left = self._image.with_suffix(".left")
        shutil.copyfile(self._image, left)
        self.unmount()
        left.replace(self._image)
        self._mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """The volume of the job's state."""
    disk = Disk(tmp_path / "disk.image", tmp_path / "query")
    yield disk
    disk.unmount()


def test_state_that_a_document_names_is_on_the_disk(
    local_job: LocalJobs, disk: Disk, broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "words.py").write_text(_MODULE)
    transform = Transform(function="words:totals", output_mode=OutputMode.UPDATE)
    job = local_job(transform=transform, code=tmp_path / "code", stateful=True, max_offsets=8)
    producer = Producer({"bootstrap.servers": broker})
    for number in range(_ROUNDS):
        producer.produce(job.spec.source.topics[0], value=f"w{number % 4}")
    assert producer.flush(30) == 0
    for attempt in (1, 2):
        job.start(fault=f"after-write@attempt={attempt},checkpoint={2 * attempt}")
        assert job.await_end() == -signal.SIGKILL, job.log()
        disk.lose_power()
    job.start()
    wanted = {f"w{number} {_ROUNDS // 4}" for number in range(4)}

    def written() -> list[str]:
        return [(value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic)]

    until(lambda: wanted <= set(written()) or time.sleep(0.5))
    assert job.drain() == 0, job.log()
    found = written()
    assert len(found) == len(set(found)), "a count was written twice"
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
