"""Whether the records after a checkpoint still exist, asked of a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from sparkapp.__main__ import main
from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.checkpoint.store import FileStore
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from tests.support.jobs.committing_job import fill


def test_records_that_retention_took_are_found_and_not_gone_back_to(
    broker: str, make_topic: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    each, other = TopicPartition(make_topic(1, "in"), 0), TopicPartition(make_topic(1, "gone"), 0)
    fill(broker, each, 20)

    def document(number: int, offset: int) -> CheckpointDocument:
        return CheckpointDocument(
            job_uid="uid", attempt=1, checkpoint_id=number, created_at="2026-11-21T08:00:00Z", parallelism=1,
            prefix="p",
            splits=(KafkaPartitionSplit(each, offset, offset),),
        )  # fmt: skip

    state = tmp_path / "state"
    FileStore(state).write(encode(document(9, 20)), expected="0")
    kept = FolderRetainedStore.next_to(state)
    kept.change({retained_key(number): encode_retained(retained(document(number, number))) for number in (4, 6)}, [])
    here = ["--state", str(state), "--bootstrap", broker]
    assert main(["checkpoint", "verify", *here]) == 0

    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.delete_records([ClientPartition(*each, 6)]).values():
        future.result(30)
    capsys.readouterr()
    assert main(["checkpoint", "verify", *here]) == 1
    captured = capsys.readouterr()
    assert f"{each}: 2 record(s) from offset 4 on are gone, the log begins at 6" in captured.out
    assert "1 of 3 checkpoint(s)" in captured.err
    assert main(["checkpoint", "restore", "4", *here, "--yes"]) == 1
    assert "nothing was changed: records are gone" in capsys.readouterr().err
    assert main(["checkpoint", "restore", "6", *here, "--yes"]) == 0

    # A recreated topic, with fewer records than were read; and a topic that does not exist.
    splits = (KafkaPartitionSplit(other, 5, 5), KafkaPartitionSplit(TopicPartition("no-such-topic", 0), 5, 5))
    kept.change({retained_key(7): encode_retained(retained(replace(document(7, 7), splits=splits)))}, [])
    capsys.readouterr()
    assert main(["checkpoint", "verify", *here]) == 1
    out = capsys.readouterr().out
    assert f"{other}: the log ends at 0, before offset 5: the topic was recreated" in out
    assert "no-such-topic-0 no longer exists" in out
