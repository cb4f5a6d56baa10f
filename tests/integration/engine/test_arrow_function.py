"""``spec.transform.arrow`` through both engines: exactly once, and the same meaning of what the function does."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from sparkapp.model.protocol import ProtocolStep
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility
from tests.support.kafka.schema_registry import framed, registry

pytestmark = pytest.mark.spark

_MODULE = """
import pyarrow as pa
import pyarrow.compute as pc
from pathlib import Path
from uuid import uuid4

LOG = Path(__file__).with_name("log")


def note(what):
    with LOG.open("a") as log:
        log.write(what + "\\n")


def number_of(text):
    return int(text)


def parsed(batch):
    for text in batch.column("value").cast(pa.string()).to_pylist():
        number_of(text)
    return batch


def dated(batch):
    value = batch.column("value")
    assert batch.schema.field("key").type == pa.string()
    parts = (batch.column("key"), pc.struct_field(value, "n"), pc.year(pc.struct_field(value, "at")))
    return batch.set_column(1, "value", pc.binary_join_element_wise(*(p.cast(pa.string()) for p in parts), ","))


def numbered(batch):
    value = batch.column("value")
    return batch.set_column(1, "value", pc.struct_field(value, "n").cast(pa.string()))


class Thirds:
    '''Drops the multiples of three, and writes each other number twice.'''

    def __init__(self):
        self.name = uuid4().hex
        note(f"opened {self.name}")

    def __call__(self, batch):
        numbers = batch.column("value").cast(pa.string()).cast(pa.int64())
        thirds = pc.multiply(pc.divide(numbers, 3), 3)
        kept = batch.filter(pc.not_equal(numbers, thirds))
        return self.twice(kept) if kept.num_rows else None

    def twice(self, batch):
        yield batch
        try:
            LOG.with_name("armed").unlink()
        except FileNotFoundError:
            yield batch
        else:
            raise ValueError("once, with half of the records in the transaction")

    def close(self):
        note(f"closed {self.name}")
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "arrows.py").write_text(_MODULE)
    return folder


def test_a_function_that_drops_and_multiplies_is_exactly_once_over_a_crash(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    arrow = ArrowTransform(factory="arrows:Thirds")
    job = local_job(engine=Engine.CONTINUOUS, transform=Transform(arrow=arrow), code=code, max_offsets=1000)
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    produce(broker, source, 0, 3000)
    job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    assert document.checkpoint_id == 1
    assert len(visibility.numbers(broker, sink)) <= 2 * 1000, "of checkpoint 2 nothing is visible"
    (code / "log").unlink()
    (code / "armed").touch()

    produce(broker, source, 3000, 999)
    job.spec = replace(job.spec, engine=Engine.AUTO)
    job.start(parallelism=3)
    job.await_records_in(3999)
    assert "the Continuous engine has started: spec.engine is Auto" in job.log(1000)
    produce(broker, source, 3999, 1)  # nothing of this checkpoint is written
    job.await_records_in(4000)
    assert job.drain() == 0, job.log()
    assert not (code / "armed").exists()
    noted = [line.split() for line in (code / "log").read_text().splitlines()]
    opened = Counter(name for what, name in noted if what == "opened")
    assert len(opened) == opened.total() == 4, "once in each subtask, and again after the failure"
    # A subtask of the killed driver may close its function behind the begin of this log.
    assert Counter(name for what, name in noted if what == "closed" and name in opened) == opened

    job.spec = replace(job.spec, engine=Engine.MICRO_BATCH)
    produce(broker, source, 4000, 1000)
    job.start(parallelism=1)
    job.await_records_in(5000)
    assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, sink)) == sorted([n for n in range(5000) if n % 3] * 2)


def test_a_function_that_raises_names_record_and_line_in_both_engines(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    arrow = ArrowTransform(function="arrows:parsed")
    job = local_job(transform=Transform(arrow=arrow), code=code, partitions=1, parallelism=1, max_offsets=10)
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    produce(broker, source, 0, 10)
    producer = Producer({"bootstrap.servers": broker})
    for value in ("ten", *range(11, 20)):
        producer.produce(source, key="k", value=str(value))
    assert producer.flush(30) == 0
    for engine in (Engine.CONTINUOUS, Engine.MICRO_BATCH):
        job.spec = replace(job.spec, engine=engine)
        job.start()
        assert job.await_end() == 1, job.log()
        termination = job.termination()
        assert termination is not None
        assert (termination.reason, termination.fatal) == ("TransformFailed", False), termination
        assert termination.message == (
            f"topic {source}, partition 0, offset 10, key b'k': ValueError: invalid literal for int() with base 10:"
            " 'ten' (arrows.py:16 in number_of)"
        )
        assert "return int(text)" in termination.log
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    assert sorted(visibility.numbers(broker, sink)) == list(range(10))


def test_records_of_a_format_and_those_that_do_not_parse_in_both_engines(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    schema = {
        "type": "record", "name": "R",
        "fields": [
            {"name": "n", "type": "long"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }  # fmt: skip
    with registry() as server:
        job = local_job(
            engine=Engine.CONTINUOUS, transform=Transform(arrow=ArrowTransform(function="arrows:dated")), code=code,
            on_record_error=OnRecordError.DEAD_LETTER, key_format=Format.STRING, value_format=Format.AVRO,
            schema_registry=RegistryAccess(url=server.url), max_offsets=200,
        )  # fmt: skip
        source, sink = job.spec.source.topics[0], job.spec.sink.topic
        number = server.register(f"{source}-value", schema)
        producer = Producer({"bootstrap.servers": broker})

        def write(first: int, count: int) -> tuple[list[str], list[bytes]]:
            good, bad = [], []
            for n in range(first, first + count):
                value = framed(number, schema, {"n": n, "at": datetime(2000 + n % 20, 1, 2, tzinfo=UTC)})
                if n % 3 == 2:
                    value = b"bad %d" % n
                    bad.append(value)
                else:
                    good.append(f"k{n},{n},{2000 + n % 20}")
                producer.produce(source, key=f"k{n}", value=value)
            assert producer.flush(30) == 0
            return good, bad

        good, bad = write(0, 600)
        job.start(fault=f"{ProtocolStep.AFTER_FLUSH}@attempt=1,checkpoint=2")
        assert job.await_end() == -signal.SIGKILL, job.log()
        job.spec = replace(job.spec, engine=Engine.MICRO_BATCH)
        job.start()
        assert job.await_records_in(600).counters.records_dead_lettered == len(bad)
        assert job.drain() == 0, job.log()
        letters = visibility.messages(broker, job.spec.record_errors.dead_letter_topic)
        assert Counter(message.value() for message in letters) == Counter(bad)

        job.spec = replace(job.spec, engine=Engine.CONTINUOUS, record_errors=RecordErrors(policy=OnRecordError.SKIP))
        more, skipped = write(600, 60)
        job.start()
        assert job.await_records_in(660).counters.records_skipped == len(skipped)
        assert job.drain() == 0, job.log()

        job.spec = replace(job.spec, record_errors=RecordErrors())
        write(662, 1)
        job.start()
        assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("RecordError", True), termination
    assert f"topic {source}, partition " in termination.message
    assert ": the value is not avro: it does not begin with a zero byte" in termination.message
    values = [(value or b"").decode() for value in visibility.records(broker, sink)]
    assert sorted(values) == sorted(good + more)
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []


def test_json_and_what_is_not_json_in_both_engines(
    local_job: LocalJobs, broker: str, client: TransactionClient, code: Path
) -> None:
    """Avro's test has a crash among them."""
    job = local_job(
        transform=Transform(arrow=ArrowTransform(function="arrows:numbered")), code=code,
        on_record_error=OnRecordError.DEAD_LETTER, value_format=Format.JSON, value_schema="n BIGINT, s STRING",
        max_offsets=200,
    )  # fmt: skip
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    texts = (b"{'n':%d}", b'{"n":%d} and more', b'\n{"n":1,"n":%d}', b'{"s":7,"n":%d}')
    wrong = (b'{"n":"%d"}', b"%d", b'{"n":%d.0}', b'[{"n":%d}]', b'{"n":%d')
    producer = Producer({"bootstrap.servers": broker})

    def write(first: int, count: int) -> tuple[list[int], list[bytes]]:
        good, bad = [], []
        for n in range(first, first + count):
            if n % 10 == 3:
                bad.append(wrong[n // 10 % len(wrong)] % n)
                producer.produce(source, value=bad[-1])
                continue
            good.append(n)
            producer.produce(source, value=texts[n // 10 % len(texts)] % n if n % 10 == 7 else b'{"n":%d}' % n)
        assert producer.flush(30) == 0
        return good, bad

    good: list[int] = []
    bad: list[bytes] = []
    engines = {Engine.CONTINUOUS: "Continuous", Engine.MICRO_BATCH: "MicroBatch", Engine.AUTO: "Continuous"}
    for first, (engine, started) in zip((0, 400, 800), engines.items(), strict=True):
        more, worse = write(first, 400)
        good, bad = good + more, bad + worse
        job.spec = replace(job.spec, engine=engine)
        job.start()
        assert job.await_records_in(first + 400).counters.records_dead_lettered == len(bad)
        assert job.drain() == 0, job.log()
        assert f"the {started} engine has started" in job.log(1000)
    assert "the Continuous engine has started: spec.engine is Auto" in job.log(1000)
    letters = visibility.messages(broker, job.spec.record_errors.dead_letter_topic)
    assert Counter(message.value() for message in letters) == Counter(bad)

    job.spec = replace(job.spec, engine=Engine.CONTINUOUS, record_errors=RecordErrors(policy=OnRecordError.SKIP))
    last, skipped = write(1200, 60)
    job.start()
    assert job.await_records_in(1260).counters.records_skipped == len(skipped)
    assert job.drain() == 0, job.log()

    job.spec = replace(job.spec, record_errors=RecordErrors())
    for n in range(100):  # for each subtask: the failure of a subtask leaves another's transaction
        producer.produce(source, value=b'{"n":%d}' % (2000 + n), partition=n % 4)
    write(1263, 1)
    job.start()
    assert job.await_end() == 1, job.log()
    termination = job.termination()
    assert termination is not None
    assert (termination.reason, termination.fatal) == ("RecordError", True), termination
    assert f"topic {source}, partition " in termination.message
    assert ": the value is not JSON that fits the schema 'n BIGINT, s STRING'" in termination.message
    assert sorted(visibility.numbers(broker, sink)) == good + last
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
