"""Producing batches: every row arrives as it was, in order, or flush says so."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane.interface import SOURCE_SCHEMA, BatchProducer
from sparkapp.model.errors import KafkaUnreachable, PreCommitFailed, RecordRefused, TopicNotFound, TransformError
from sparkapp.model.errors.refusal import Cause
from tests.support.kafka import visibility
from tests.support.native.batch_path import BatchPath, split, table_of, values_of

HEADERS_TYPE = SOURCE_SCHEMA.field("headers").type


def produce_and_flush(producer: BatchProducer, batch: pa.RecordBatch, topic: str) -> int:
    producer.produce(batch, topic=topic)
    return producer.flush(30)


def write(path: BatchPath, topic: str, batch: pa.RecordBatch) -> int:
    return produce_and_flush(path.producer(), batch, topic)


def test_records_keep_their_order_in_each_partition(path: BatchPath, make_topic: Callable[..., str]) -> None:
    count = 100_000 if path.implementation == "native" else 20_000
    topic = make_topic(partitions=3)
    producer = path.producer(queue_buffering_max_messages="5000")  # much smaller than the batch
    for start in range(0, count, count // 4):
        stop = start + count // 4
        numbers = range(start, stop)
        producer.produce(
            pa.record_batch(
                {
                    "value": pa.array([str(number) for number in numbers]),
                    "partition": pa.array([number % 3 for number in numbers], pa.int32()),
                }
            ),
            topic=topic,
        )
    assert producer.flush(60) == count
    for partition in range(3):
        values = values_of(path.consumer().read([split(topic, 0, len(range(partition, count, 3)), partition)]))
        assert values == [str(number) for number in range(partition, count, 3)]


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.string_view(), pa.binary_view()]
)
def test_types_of_key_and_value(path: BatchPath, topic: str, kind: pa.DataType) -> None:
    texts = ["grüße", "", None, "x" * 1000, "✓"]
    column = pa.array([None if text is None else text.encode() for text in texts]).cast(kind)
    assert write(path, topic, pa.record_batch({"value": column, "key": column})) == 5
    table = table_of(path.consumer().read([split(topic, 0, 5)]))
    expected = [None if text is None else text.encode() for text in texts]
    assert table["value"].to_pylist() == expected
    assert table["key"].to_pylist() == expected


def test_dictionaries_and_tombstones(path: BatchPath, topic: str) -> None:
    batch = pa.record_batch({"value": pa.nulls(2), "key": pa.array(["a", "b"]).dictionary_encode()})
    assert write(path, topic, batch) == 2
    table = table_of(path.consumer().read([split(topic, 0, 2)]))
    assert (table["key"].to_pylist(), table["value"].to_pylist()) == ([b"a", b"b"], [None, None])


def test_topic_and_partition_of_each_row(path: BatchPath, make_topic: Callable[..., str]) -> None:
    default, other = make_topic(partitions=4), make_topic(partitions=4, name="other")
    batch = pa.record_batch(
        {
            "value": pa.array(["0", "1", "2", "3", "4"]),
            "topic": pa.array([None, other, default, other, None]),
            "partition": pa.array([3, 2, 1, 2, 3], pa.int64()),  # Spark's LONG is taken, too
        }
    )
    assert write(path, default, batch) == 5
    assert values_of(path.consumer().read([split(default, 0, 2, 3)])) == ["0", "4"]
    assert values_of(path.consumer().read([split(other, 0, 2, 2)])) == ["1", "3"]
    assert values_of(path.consumer().read([split(default, 0, 1, 1)])) == ["2"]


def test_keyed_rows_keep_their_order_in_each_partition(path: BatchPath, make_topic: Callable[..., str]) -> None:
    """Also where the queue has room for a part of a batch, and with rows without key between the others."""
    count, partitions = (100_000 if path.implementation == "native" else 20_000), 7
    topic = make_topic(partitions=partitions)
    producer = path.producer(queue_buffering_max_messages="5000")
    keys = [None if number % 5 == 0 else str(number % 1000) for number in range(count)]
    for start in range(0, count, count // 2):
        rows = range(start, start + count // 2)
        values, its_keys = pa.array(map(str, rows)), pa.array(keys[start : start + count // 2])
        producer.produce(pa.record_batch({"value": values, "key": its_keys}), topic=topic)
    assert producer.flush(60) == count
    found: list[int] = []
    for partition in range(partitions):
        read = path.consumer().read([split(topic, 0, path.end(topic, partition), partition)])
        numbers = [int(value) for value in values_of(read) if value]
        assert numbers == sorted(numbers)
        homes = {_murmur2(key.encode()) % partitions for number in numbers if (key := keys[number]) is not None}
        assert homes <= {partition}
        found += numbers
    assert sorted(found) == list(range(count))


def test_rows_without_key_spread_over_the_partitions(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=4)
    producer = path.producer()
    written, ends, deadline = 0, [0] * 4, Deadline.after(120)
    # librdkafka's thread chooses the next partition, every 10 ms if it has the processor.
    while not written or min(ends) * 50 < written:
        assert not deadline.expired, ends
        for _ in range(100):
            assert produce_and_flush(producer, pa.record_batch({"value": pa.array(["x"] * 10)}), topic) == 10
        written += 1000
        ends = [path.end(topic, partition) for partition in range(4)]
        assert sum(ends) == written


def test_a_partitioner_of_the_user(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=10)
    producer = path.producer(partitioner="consistent")
    keys = [str(number) for number in range(200)]
    for _ in range(2):  # the second batch finds the topic's metadata
        batch = pa.record_batch({"value": pa.array(keys), "key": pa.array(keys)})
        assert produce_and_flush(producer, batch, topic) == 200
    homes = [zlib.crc32(key.encode()) % 10 for key in keys]
    assert [path.end(topic, number) for number in range(10)] == [2 * homes.count(number) for number in range(10)]


def test_equal_keys_share_a_partition_as_java_clients_choose_it(
    path: BatchPath, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(partitions=10)
    keys = ["a", "b", "c", "a", "kafka", "spark"]
    batch = pa.record_batch({"value": pa.array(keys), "key": pa.array(keys), "partition": pa.nulls(6, pa.int32())})
    assert write(path, topic, batch) == 6
    expected = {key: _murmur2(key.encode()) % 10 for key in keys}
    for partition in range(10):
        of_it = [key for key in keys if expected[key] == partition]
        assert path.end(topic, partition) == len(of_it)


def test_an_empty_key_is_a_key_and_no_key_goes_anywhere(path: BatchPath, make_topic: Callable[..., str]) -> None:
    """As with Java's clients: an empty key has a hash, a null key has none and the partition is any one."""
    topic = make_topic(partitions=10)
    assert write(path, topic, pa.record_batch({"value": pa.array(["e"] * 30), "key": pa.array([""] * 30)})) == 30
    home = _murmur2(b"") % 10
    assert [path.end(topic, partition) for partition in range(10)] == [30 * (number == home) for number in range(10)]
    keys = pa.array([None, "a"] * 15)
    assert write(path, topic, pa.record_batch({"value": pa.array(["n"] * 30), "key": keys})) == 30
    found = visibility.messages(path.bootstrap, topic)
    assert sorted(message.key() or b"-" for message in found if message.value() == b"n") == [b"-"] * 15 + [b"a"] * 15
    assert {each.partition() for each in found if each.key() == b"a"} == {_murmur2(b"a") % 10}


def test_timestamps_and_headers_of_each_row(path: BatchPath, topic: str) -> None:
    moment = datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=UTC)
    headers = [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}],
        None,
        [],
        [{"key": "schlüssel", "value": "✓".encode()}],
    ]
    batch = pa.record_batch(
        {
            "value": pa.array(["0", "1", "2", "3"]),
            "timestamp": pa.array([moment, None, moment, moment], pa.timestamp("us", tz="Europe/Berlin")),
            "headers": pa.array(headers, HEADERS_TYPE),
        }
    )
    before = datetime.now(UTC)
    assert write(path, topic, batch) == 4
    table = table_of(path.consumer().read([split(topic, 0, 4)]))
    times = table["timestamp"].to_pylist()
    cut = moment.replace(microsecond=123_000)
    assert [times[0], times[2], times[3]] == [cut] * 3
    assert abs((times[1] - before).total_seconds()) < 60
    assert table["headers"].to_pylist() == [headers[0], None, None, headers[3]]


def test_the_first_millisecond_of_1970_is_not_now(path: BatchPath, topic: str) -> None:
    moments = pa.array([0, 999, 1000, None, 2_000], pa.timestamp("us"))
    assert write(path, topic, pa.record_batch({"value": pa.array(["v"] * 5), "timestamp": moments})) == 5
    read = table_of(path.consumer().read([split(topic, 0, 5)]))["timestamp"]
    assert [each.value for each in read][:3] == [1000, 1000, 1000]
    assert read[3].value > 10**15
    assert read[4].value == 2000


def test_a_null_within_headers_is_none(path: BatchPath, topic: str) -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array(["a", "hidden", "b"]), pa.array([b"1", b"hidden", None])],
        fields=list(HEADERS_TYPE.value_type),
        mask=pa.array([False, True, False]),
    )
    headers = pa.ListArray.from_arrays(
        pa.array([0, 3, 3, 4], pa.int32()), pa.concat_arrays([hidden, hidden.slice(1, 1)])
    )
    batch = pa.record_batch({"value": pa.array(["0", "1", "2"]), "headers": headers})
    assert write(path, topic, pa.concat_batches([batch, batch.slice(1)])) == 5
    table = table_of(path.consumer().read([split(topic, 0, 5)]))
    some = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert table["headers"].to_pylist() == [some, None, None, None, None]


def test_a_slice_of_a_batch(path: BatchPath, topic: str) -> None:
    rows = 50
    batch = pa.record_batch(
        {
            "value": pa.array([None if row % 7 == 0 else f"v{row}" for row in range(rows)]),
            "key": pa.array([None if row % 5 == 0 else f"k{row}".encode() for row in range(rows)], pa.large_binary()),
            "topic": pa.array([None if row % 2 else topic for row in range(rows)]),
            "partition": pa.array([None if row % 3 else 0 for row in range(rows)], pa.int32()),
            "timestamp": pa.array([None if row % 4 == 0 else row for row in range(rows)], pa.timestamp("ms")),
            "headers": pa.array(
                [
                    None if row % 3 == 0 else [{"key": f"h{row}", "value": None if row % 2 else b"x"}] * (row % 4)
                    for row in range(rows)
                ],
                HEADERS_TYPE,
            ),
        }
    )
    producer = path.producer()
    producer.produce(batch.slice(3, 11), topic=topic)
    producer.produce(batch.slice(17, 0), topic=topic)
    producer.produce(batch.slice(33), topic=topic)
    written = [*range(3, 14), *range(33, 50)]
    assert producer.flush(30) == len(written)
    table = table_of(path.consumer().read([split(topic, 0, len(written))]))
    source = batch.take(pa.array(written)).to_pydict()
    assert table["value"].to_pylist() == [None if text is None else text.encode() for text in source["value"]]
    assert table["key"].to_pylist() == source["key"]
    assert table["headers"].to_pylist() == [headers or None for headers in source["headers"]]
    given = [row for row in range(len(written)) if written[row] % 4]
    assert [table["timestamp"][row].value for row in given] == [written[row] * 1000 for row in given]


def test_columns_as_they_were_read(path: BatchPath, make_topic: Callable[..., str]) -> None:
    source, sink = make_topic(), make_topic(name="sink")
    path.fill(source, ["a", None, "c"], key="k", headers=[("h", b"1")], timestamp=1_700_000_000_000)
    batches = list(path.consumer().read([split(source, 0, 3)], max_rows=2))
    producer = path.producer()
    for batch in batches:
        producer.produce(batch.drop_columns(["topic", "offset", "timestampType"]), topic=sink)
    assert producer.flush(30) == 3
    again = table_of(path.consumer().read([split(sink, 0, 3)]))
    assert again.drop_columns("topic").equals(pa.Table.from_batches(batches).drop_columns("topic"))


def test_an_oversized_record_fails_the_pre_commit(path: BatchPath, topic: str) -> None:
    producer = path.producer()
    batch = pa.record_batch({"value": pa.array(["small", "x" * (4 << 20), "after"])})
    with pytest.raises(PreCommitFailed, match="MSG_SIZE_TOO_LARGE"):
        producer.produce(batch, topic=topic)
    with pytest.raises(PreCommitFailed, match="1 records failed"):
        producer.flush(30)
    producer.flush(30)  # the one that failed did not wait for the record before
    assert visibility.records(path.bootstrap, topic) == [b"small"]


def test_an_oversized_record_among_rows_of_a_known_topic(path: BatchPath, topic: str) -> None:
    producer = path.producer()
    assert produce_and_flush(producer, pa.record_batch({"value": pa.array(["before"])}), topic) == 1
    with pytest.raises(PreCommitFailed, match="MSG_SIZE_TOO_LARGE"):
        producer.produce(pa.record_batch({"value": pa.array(["small", "x" * (4 << 20), "after"])}), topic=topic)
    with pytest.raises(PreCommitFailed, match="1 records failed"):
        producer.flush(30)
    producer.flush(30)
    # The extension gives librdkafka the rows of a partition together, and it takes those behind the refused row. The
    # flush has failed, so no checkpoint counts them.
    behind = [b"after"] if path.implementation == "native" else []
    assert visibility.records(path.bootstrap, topic) == [b"before", b"small", *behind]


def test_a_record_that_only_the_broker_finds_too_large(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(max_message_bytes="2000")
    producer = path.producer(linger_ms="0", batch_num_messages="1")
    producer.produce(pa.record_batch({"value": pa.array(["small", "x" * 5000, "after"])}), topic=topic)
    with pytest.raises(PreCommitFailed, match="MSG_SIZE_TOO_LARGE"):
        producer.flush(30)


def test_an_unknown_topic(path: BatchPath, unique: str) -> None:
    producer = path.producer(topic_metadata_propagation_max_ms="100")
    with pytest.raises(TopicNotFound, match=unique):
        produce_and_flush(producer, pa.record_batch({"value": pa.array(["x"])}), f"{unique}.missing")


def test_a_partition_that_does_not_exist(path: BatchPath, topic: str) -> None:
    producer = path.producer()
    batch = pa.record_batch({"value": pa.array(["x"]), "partition": pa.array([7], pa.int32())})
    with pytest.raises(TopicNotFound, match="_UNKNOWN_PARTITION"):
        produce_and_flush(producer, batch, topic)


def test_I09_no_broker_leaves_records_and_fails_the_pre_commit(path: BatchPath, topic: str) -> None:
    producer = path.producer(bootstrap_servers="127.0.0.1:1")
    producer.produce(pa.record_batch({"value": pa.array(["x"] * 3)}), topic=topic)
    with pytest.raises(PreCommitFailed, match=r"up to \d+ records are not acknowledged after 1 s"):
        producer.flush(1)
    transactional = path.producer(bootstrap_servers="127.0.0.1:1", transactional_id="never")
    with pytest.raises(KafkaUnreachable, match="initialising"):
        transactional.init_transactions(1)


def test_a_batch_without_value_or_with_a_strange_one(path: BatchPath, topic: str) -> None:
    producer = path.producer()
    with pytest.raises(TransformError, match="no column 'value' but key"):
        producer.produce(pa.record_batch({"key": pa.array(["x"])}), topic=topic)
    with pytest.raises(TransformError, match="'value' has type int64"):
        producer.produce(pa.record_batch({"value": pa.array([1])}), topic=topic)
    with pytest.raises(TransformError, match="'partition'"):
        producer.produce(pa.record_batch({"value": pa.array(["x"]), "partition": pa.array([1 << 40])}), topic=topic)
    assert producer.flush(30) == 0


def _murmur2(data: bytes) -> int:
    """Kafka's Utils.toPositive(Utils.murmur2(data)), written again."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    value = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for index in range(0, whole, 4):
        part = int.from_bytes(data[index : index + 4], "little") * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        value = value * multiplier & mask ^ part
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * multiplier & mask
    value = (value ^ value >> 13) * multiplier & mask
    return (value ^ value >> 15) & 0x7FFFFFFF


def record_of(refused: pytest.ExceptionInfo[RecordRefused]) -> tuple[Cause, bytes | None, int]:
    record = refused.value.record
    assert record is not None
    return record.cause, record.key, record.value_size


def test_the_record_at_fault_is_told_from_others_of_its_batch(path: BatchPath, make_topic: Callable[..., str]) -> None:
    compacted = make_topic(name="compacted", cleanup_policy="compact")
    keys = ["a", "b", None, "d"]
    producer = path.producer(linger_ms="200")
    producer.produce(
        pa.record_batch({"value": pa.array(["1", "22", "333", "4444"]), "key": pa.array(keys)}), topic=compacted
    )
    with pytest.raises(RecordRefused, match="the broker refuses a record that has no key") as refused:
        producer.flush(30)
    assert record_of(refused) == (Cause.KEY, None, 3)
    assert "cleanup.policy" in refused.value.remedy
    assert path.bootstrap in refused.value.remedy

    narrow = make_topic(name="narrow", max_message_bytes="5000")
    producer = path.producer(linger_ms="200")
    sizes = [10, 20, 6000, 30]
    producer.produce(pa.record_batch({"value": pa.array(["x" * size for size in sizes])}), topic=narrow)
    with pytest.raises(
        RecordRefused, match="the broker refuses a batch whose largest record has 6000 bytes"
    ) as refused:
        producer.flush(30)
    assert record_of(refused) == (Cause.SIZE, None, 6000)
    assert f"max.message.bytes of topic {narrow}" in refused.value.remedy

    young = make_topic(name="young", message_timestamp_before_max_ms="86400000")
    times = pa.array([None, None, datetime(2020, 1, 1, tzinfo=UTC), None], pa.timestamp("ms", tz="UTC"))
    producer = path.producer(linger_ms="200")
    producer.produce(pa.record_batch({"value": pa.array(["1", "22", "333", "4444"]), "timestamp": times}), topic=young)
    with pytest.raises(RecordRefused, match="the broker refuses a record for its time") as refused:
        producer.flush(30)
    assert refused.value.record is not None
    assert refused.value.record.is_certain is (path.implementation == "native")
    if path.implementation == "native":
        assert record_of(refused) == (Cause.TIME, None, 3)
    assert "message.timestamp.before.max.ms" in refused.value.remedy


@pytest.mark.parametrize("column", [{}, {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)}])
def test_the_client_says_that_it_refuses_a_record(path: BatchPath, topic: str, column: dict[str, datetime]) -> None:
    producer = path.producer(message_max_bytes="2000")
    rows = [{"key": b"k%d" % number, "value": b"x" * (5000 if number == 7 else 10), **column} for number in range(9)]
    with pytest.raises(
        RecordRefused, match=r"the client refuses a record of 5002 bytes: its message\.max\.bytes is 2000"
    ) as refused:
        producer.produce(pa.RecordBatch.from_pylist(rows), topic=topic)
    assert record_of(refused) == (Cause.SIZE, b"k7", 5000)
    assert "message.max.bytes in spec.sink.properties" in refused.value.remedy
