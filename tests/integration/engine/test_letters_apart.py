"""Dead letters of transforms that keep state or shuffle: each bad record is a letter once, whatever happens."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import OutputMode, Transform
from sparkapp.model.job.spec import FOLLOW_PARALLELISM
from sparkapp.model.job.startup import Stopping
from sparkapp.spark.state.query_log import decode_engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.schema_registry import framed, registry

pytestmark = pytest.mark.spark

DEAD_LETTER, SKIP = OnRecordError.DEAD_LETTER, OnRecordError.SKIP
BAD = (b"{", b"", b"  ", b'{"id": "seven"}', b"[1]", b"null", b"\xff\xfe", b'{"id": 1, "k": ', b"plain text")
EVENT = "id BIGINT, k STRING, ms BIGINT"
START = 1_700_000_000_000
ORDERS = 400

_MODULE = """
from pyspark.sql import functions as f

def pipelines(source):
    events = source.select("value.*").withColumn("at", f.timestamp_millis("ms")).withWatermark("at", "150 seconds")
    counts = events.groupBy(f.window("at", "10 seconds"), "k").agg(f.count("*").alias("n"), f.sum("id").alias("s"))
    counts = counts.select(
        f.concat_ws(" ", f.lit("count"), f.unix_millis("window.start"), "k", "n", "s").alias("value")
    )
    distinct = events.dropDuplicatesWithinWatermark(["id"])
    return counts.unionByName(distinct.select(f.concat_ws(" ", f.lit("distinct"), "id").alias("value")))

def totals(source):
    sums = source.groupBy("value.k").agg(f.count("*").alias("n"))
    return sums.selectExpr("k AS key", "CAST(n AS STRING) AS value")
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "lettered.py").write_text(_MODULE)
    return folder


def values() -> Iterator[tuple[int, bytes]]:
    """Events and records that do not parse, in the order in which they are sent; every fourth event is sent twice."""
    for n in range(ORDERS):
        event = json.dumps({"id": n, "k": f"k{n % 7}", "ms": START + n * 500}).encode()
        yield from [(n, event)] * (2 if n % 4 == 0 else 1)
        if n % 3 == 0:
            yield n, BAD[n // 3 % len(BAD)]


def expected() -> Counter[str]:
    """What a reader should find, once: windows that the closing event ends, and each order."""
    windows: dict[tuple[int, str], list[int]] = defaultdict(list)
    for n in range(ORDERS):
        windows[(START + n * 500) // 10_000 * 10_000, f"k{n % 7}"] += [n] * (2 if n % 4 == 0 else 1)
    found = Counter(f"count {start} {k} {len(ids)} {sum(ids)}" for (start, k), ids in windows.items())
    found.update(f"distinct {n}" for n in [*range(ORDERS), 10_000])
    return found


def send(broker: str, topic: str, sent: list[tuple[int, bytes]]) -> int:
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 20})
    for number, value in sent:
        producer.produce(topic, key=b"\x00%d" % number, value=value, headers=[("trace", b"%d" % number)])
    assert producer.flush(30) == 0
    return len(sent)


def close(broker: str, topic: str) -> int:
    """An hour later, so that the watermark passes the end of all before."""
    return send(broker, topic, [(10_000, json.dumps({"id": 10_000, "k": "end", "ms": START + 3_600_000}).encode())])


def place(letter: Message) -> tuple[str, int, int]:
    headers = dict(letter.headers())
    topic, partition, offset = (
        headers[f"kafkaspark.error.{name}"].decode() for name in ("topic", "partition", "offset")
    )
    return topic, int(partition), int(offset)


def letters(broker: str, job: LocalJob) -> list[Message]:
    return visibility.messages(broker, job.spec.record_errors.dead_letter_topic)


def assert_letters(broker: str, job: LocalJob, *, since: int = 0, stage: bytes = b"VALUE_DECODER") -> int:
    """Each record of the source with one of the bad values is a letter once, as it was. Returns how many these are.

    :param since: the first source record that counts, by its key.
    """
    source = job.spec.source.topics[0]
    bad = {
        (source, message.partition(), message.offset()): message
        for message in visibility.messages(broker, source)
        if message.value() in BAD and int(message.key()[1:]) >= since
    }
    found = letters(broker, job)
    assert Counter(map(place, found)) == Counter(dict.fromkeys(bad, 1))
    for letter in found:
        original, headers = bad[place(letter)], dict(letter.headers())
        assert (letter.key(), letter.value()) == (original.key(), original.value())
        assert headers["trace"] == original.key()[1:]
        assert int(headers["kafkaspark.error.timestamp"]) == original.timestamp()[1]
        assert headers["kafkaspark.error.stage"] == stage
        assert headers["kafkaspark.error.job.name"].decode() == f"test.{job.uid}"
    return len(found)


def written(broker: str, job: LocalJob) -> Counter[str]:
    return Counter((value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic))


def await_written(broker: str, job: LocalJob, wanted: Counter[str]) -> None:
    while not written(broker, job) >= wanted:
        assert job.process is not None
        assert job.process.poll() is None, f"{job.termination()}\n{job.log()}"
        time.sleep(0.5)


def is_killed(job: LocalJob, broker: str, fault: str, *, parallelism: int) -> CheckpointDocument:
    job.start(parallelism=parallelism, fault=fault)
    assert job.await_end() == -signal.SIGKILL, job.log()
    seen = Counter(map(place, letters(broker, job)))
    assert max(seen.values(), default=0) <= 1
    document = job.document()
    assert document is not None
    assert seen.total() <= document.counters.records_dead_lettered, "letters of checkpoints that are complete"
    return document


def keeps_state(job: LocalJob) -> LocalJob:
    job.spec = replace(job.spec, state_claim="on-this-disk", state_partitions=FOLLOW_PARALLELISM)
    return job


def test_windows_and_deduplication_through_kills_and_other_partitions_of_state(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    """Killed before the document of a checkpoint, and behind it with its transactions still open."""
    job = keeps_state(
        local_job(
            transform=Transform(function="lettered:pipelines"), code=code, stateful=True, max_offsets=200,
            on_record_error=DEAD_LETTER, value_format=Format.JSON, value_schema=EVENT,
        )
    )  # fmt: skip
    source, wanted = job.spec.source.topics[0], expected()
    total = send(broker, source, list(values()))
    document = is_killed(job, broker, "after-flush@attempt=1,checkpoint=2", parallelism=2)
    assert (document.checkpoint_id, document.engine_has_state, document.aligned) == (1, True, False)
    first = document.counters.records_dead_lettered
    assert first > 0
    document = is_killed(job, broker, "after-write@attempt=2,checkpoint=3", parallelism=2)
    assert document.counters.records_dead_lettered > first

    job.start(parallelism=3)
    job.await_records_in(total)
    total += close(broker, source)
    await_written(broker, job, wanted)
    assert job.drain() == 0, job.log()
    document = job.document()
    assert document is not None
    assert decode_engine(document.engine).state_partitions == 3
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert written(broker, job) == wanted
    bad = assert_letters(broker, job)
    counters = document.counters
    assert bad == len(range(0, ORDERS, 3))
    assert (counters.records_in, counters.records_out, counters.records_dead_lettered, counters.records_skipped) == (
        total, wanted.total(), bad, 0,
    )  # fmt: skip


def test_the_policy_may_change_while_the_state_stays(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    """In output mode update: the rows of a key count on over all policies."""
    job = keeps_state(
        local_job(
            transform=Transform(function="lettered:totals", output_mode=OutputMode.UPDATE), code=code, stateful=True,
            on_record_error=DEAD_LETTER, value_format=Format.JSON, value_schema=EVENT,
        )
    )  # fmt: skip
    source, errors = job.spec.source.topics[0], job.spec.record_errors
    sent = 0
    for turn, policy in enumerate((SKIP, DEAD_LETTER, SKIP)):
        job.spec = replace(job.spec, record_errors=replace(errors, policy=policy))
        if policy is SKIP:
            job.spec = replace(job.spec, record_errors=replace(job.spec.record_errors, dead_letter_topic=""))
        good = json.dumps({"id": turn, "k": "a", "ms": 0}).encode()
        sent += send(broker, source, [(turn, good)] * 10 + [(turn, BAD[turn])] * 5)
        job.start()
        document = job.await_records_in(sent)
        assert job.drain() == 0, job.log()
    job.spec = replace(job.spec, record_errors=errors)
    totals = [int(value or b"") for value in visibility.records(broker, job.spec.sink.topic)]
    assert max(totals) == 30
    assert len(totals) == len({*totals})
    assert [int(letter.key()[1:]) for letter in letters(broker, job)] == [1] * 5
    assert (document.counters.records_dead_lettered, document.counters.records_skipped) == (5, 10)
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_a_shuffle_without_state_whose_result_the_sink_encodes(
    local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    query = "SELECT /*+ REPARTITION(3, value) */ value.id AS id, value.k AS k FROM source"
    job = local_job(
        transform=Transform(sql=query), max_offsets=200, on_record_error=DEAD_LETTER,
        value_format=Format.JSON, value_schema=EVENT,
    )  # fmt: skip
    chosen = SinkFormat(key=SinkEncoding.JSON, key_columns=("id",), value=SinkEncoding.JSON)
    job.spec = replace(job.spec, sink=replace(job.spec.sink, format=chosen))
    total = send(broker, job.spec.source.topics[0], list(values()))
    document = is_killed(job, broker, "after-flush@attempt=1,checkpoint=2", parallelism=2)
    assert (document.checkpoint_id, document.aligned) == (1, False)
    job.start()
    counters = job.await_records_in(total).counters
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    found = Counter((message.key(), message.value()) for message in visibility.messages(broker, job.spec.sink.topic))
    assert found == Counter(
        {(b'{"id":%d}' % n, b'{"id":%d,"k":"k%d"}' % (n, n % 7)): 2 if n % 4 == 0 else 1 for n in range(ORDERS)}
    )
    bad = assert_letters(broker, job)
    assert (counters.records_out, counters.records_dead_lettered) == (total - bad, bad)


def test_a_checkpoint_of_nothing_but_bad_records(local_job: LocalJobs, broker: str, client: TransactionClient) -> None:
    """More subtasks read than tasks write, and a partition is cut among subtasks."""
    query = "SELECT /*+ COALESCE(1) */ value.k AS value FROM source"
    job = local_job(
        transform=Transform(sql=query), parallelism=3, partitions=2, on_record_error=DEAD_LETTER,
        value_format=Format.JSON, value_schema=EVENT, max_records_per_split=20,
    )  # fmt: skip
    total = send(broker, job.spec.source.topics[0], [(n, BAD[n % len(BAD)]) for n in range(200)])
    job.start()
    document = job.await_records_in(total)
    assert job.drain() == 0, job.log()
    assert sum(committable.dead_letters for committable in document.committables) == total
    assert assert_letters(broker, job) == total
    assert visibility.records(broker, job.spec.sink.topic) == []
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


@pytest.mark.parametrize(
    ("predicate", "end"),
    [("value.k = 'end'", b'{"id": 7, "k": "end"}'), ("value.id > 0 AND value.k IS NULL", b'{"id": 7}')],
)
def test_letters_end_where_their_partition_ends(
    predicate: str, end: bytes, local_job: LocalJobs, broker: str, client: TransactionClient
) -> None:
    """The fields of the predicate are not those of the query."""
    job = local_job(
        transform=Transform(sql="SELECT /*+ REPARTITION(2) */ CAST(offset AS STRING) AS value FROM source"),
        partitions=1, on_record_error=DEAD_LETTER, value_format=Format.JSON, value_schema=EVENT,
        stopping=Stopping(predicate=predicate),
    )  # fmt: skip
    good, bad = b'{"id": 1, "k": "a"}', BAD[0]
    send(broker, job.spec.source.topics[0], list(enumerate([good, bad] * 20 + [end] + [bad, good] * 20)))
    job.start()
    assert job.await_end() == 0, job.log()
    assert written(broker, job) == Counter(str(offset) for offset in range(0, 40, 2))
    assert sorted(int(letter.key()[1:]) for letter in letters(broker, job)) == [*range(1, 40, 2)]
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_avro_whose_reads_agree(
    local_job: LocalJobs, broker: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    query = "SELECT DISTINCT CAST(value.n AS STRING) AS value FROM source"
    with registry() as server:
        job = local_job(
            transform=Transform(sql=query, output_mode=OutputMode.UPDATE), stateful=True, max_offsets=100,
            on_record_error=DEAD_LETTER, value_format=Format.AVRO, schema_registry=server.access,
        )  # fmt: skip
        keeps_state(job)
        source = job.spec.source.topics[0]
        number = server.register(f"{source}-value", schema)
        unknown = framed(number + 50, schema, {"n": 1})
        sent = [(n, framed(number, schema, {"n": n % 20}) if n % 5 else (unknown, BAD[6])[n % 2]) for n in range(300)]
        total = send(broker, source, sent)
        job.start()
        counters = job.await_records_in(total).counters
        assert job.drain() == 0, job.log()
    assert {*written(broker, job)} == {str(n) for n in range(20) if n % 5}, "a row for each change of a key"
    assert Counter(int(letter.key()[1:]) for letter in letters(broker, job)) == Counter(range(0, 300, 5))
    assert (counters.records_dead_lettered, counters.records_skipped) == (60, 0)
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
