"""The count from a partition's log: what markers decide, and what has none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from tests.support.kafka.partition_log import Ended, PartitionLog, group_offsets, offset_key, read_log

_CONTROL = DefaultRecordBatch.CONTROL_MASK
_ATTRIBUTES_AT = 21
_ABORT, _COMMIT = 0, 1


def batch(at: int, *values: bytes | None, producer: int = -1, key: bytes | None = None) -> bytes:
    """A batch as a broker has it on its disk.

    :param producer: of a transaction; -1: it is in none.
    """
    in_transaction = producer >= 0
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=in_transaction, producer_id=producer,
        producer_epoch=0 if in_transaction else -1, base_sequence=0 if in_transaction else -1, batch_size=1 << 20,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(number, 0, key, value, [])
    text = bytearray(builder.build())
    struct.pack_into(">q", text, 0, at)
    return bytes(text)


def marker(at: int, producer: int, kind: int) -> bytes:
    text = bytearray(batch(at, b"\0" * 6, producer=producer, key=struct.pack(">hh", 0, kind)))
    (attributes,) = struct.unpack_from(">h", text, _ATTRIBUTES_AT)
    struct.pack_into(">h", text, _ATTRIBUTES_AT, attributes | _CONTROL)
    return bytes(text)


def replayed(*batches: bytes) -> PartitionLog:
    log = PartitionLog()
    for each in batches:
        log.replay(each)
    return log


def visible(log: PartitionLog) -> list[bytes | None]:
    return [each.value for each in log.visible]


def test_a_commit_marker_makes_records_visible_and_an_abort_marker_does_not() -> None:
    log = replayed(
        batch(0, b"a", b"b", producer=7), batch(2, b"c", producer=8), marker(3, 7, _COMMIT), marker(4, 8, _ABORT),
    )  # fmt: skip
    assert visible(log) == [b"a", b"b"]
    assert log.ended == [Ended(7, 0, committed=True), Ended(8, 2, committed=False)]
    assert log.open == {}
    assert log.stable is None


def test_what_has_no_marker_is_open_and_hides_what_is_behind_it() -> None:
    log = replayed(batch(0, b"a"), batch(1, b"b", producer=7), batch(2, b"c", producer=8), marker(3, 8, _COMMIT))
    assert log.open == {7: 1}
    assert log.stable == 1
    assert visible(log) == [b"a"]
    assert [each.value for each in log.committed] == [b"a", b"c"]


@pytest.mark.parametrize(("kind", "seen"), [(_COMMIT, [b"old", b"new"]), (_ABORT, [])])
def test_the_next_marker_of_a_producer_decides_its_older_records_too(kind: int, seen: list[bytes]) -> None:
    log = replayed(batch(0, b"old", producer=7), batch(1, b"new", producer=7), marker(2, 7, kind))
    assert visible(log) == seen
    assert log.ended == [Ended(7, 0, committed=kind == _COMMIT)]


def test_a_marker_without_records_ends_nothing() -> None:
    log = replayed(marker(0, 7, _COMMIT), batch(1, b"a", producer=7), marker(2, 7, _ABORT))
    assert log.ended == [Ended(7, 1, committed=False)]
    assert visible(log) == []


def test_segments_are_read_in_their_order_up_to_a_batch_that_is_not_complete(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000001.log").write_bytes(marker(1, 7, _COMMIT) + batch(2, b"b")[:-1])
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, b"a", producer=7))
    assert visible(read_log(tmp_path)) == [b"a"]


def key_of(version: int, group: bytes, topic: bytes, partition: int) -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name for name in (group, topic))
    return struct.pack(">h", version) + names + struct.pack(">i", partition)


def value_of(offset: int) -> bytes:
    return struct.pack(">hq", 3, offset) + b"the rest"


def test_offsets_of_a_group_are_those_of_the_last_marker() -> None:
    each = key_of(1, b"group", b"in", 2)
    log = replayed(
        batch(0, value_of(5), key=each), batch(1, value_of(9), key=each, producer=7),
        batch(2, value_of(8), key=each, producer=8), marker(3, 8, _COMMIT), marker(4, 7, _COMMIT),
    )  # fmt: skip
    assert group_offsets([log]) == {("group", "in", 2): 9}
    log.replay(batch(5, None, key=each))
    assert group_offsets([log]) == {}


def test_a_key_of_a_group_itself_is_no_offset() -> None:
    assert offset_key(struct.pack(">hh", 2, 5) + b"group") is None
    assert offset_key(key_of(0, b"g", b"t", 1)) == ("g", "t", 1)
