"""Operators that keep state, through kills and rescales: readers see what plain Python computes from the input."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkapp.checkpoint.retained import FolderRetainedStore
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model import names
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.retained import retained_key
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.job.sections.retention import Restore, Retention
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import FOLLOW_PARALLELISM
from sparkapp.spark.state.query_log import EngineState, decode_engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

_MODULE = """
from pyspark.sql import functions as f

WINDOW = "10 seconds"

def pipelines(source):
    events = source.select("topic", "value.*").withColumn("at", f.timestamp_millis("ms"))
    events = events.withWatermark("at", "150 seconds")
    orders = events.where("topic LIKE '%.orders.%'")
    payments = events.where("topic LIKE '%.payments.%'")
    first = orders.where("copy = 0").select("id", "at").alias("o")
    paid = payments.select(f.col("id").alias("order_id"), f.col("at").alias("paid_at"))

    counts = orders.groupBy(f.window("at", WINDOW), "k").agg(f.count("*").alias("n"), f.sum("id").alias("s"))
    counts = counts.select(
        f.concat_ws(" ", f.lit("count"), f.unix_millis("window.start"), "k", "n", "s").alias("value")
    )
    distinct = orders.dropDuplicatesWithinWatermark(["id"])
    distinct = distinct.select(f.concat_ws(" ", f.lit("distinct"), "id").alias("value"))
    joined = first.join(
        paid, f.expr("id = order_id AND paid_at >= at AND paid_at <= at + INTERVAL 20 SECONDS")
    ).select(f.concat_ws(" ", f.lit("paid"), "id", f.unix_millis("paid_at")).alias("value"))
    return counts.unionByName(distinct).unionByName(joined)
"""

ORDERS, UNREADABLE, TOTAL = 600, 50, 1202
START = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """A record of ``orders`` or ``payments``; a copy is an order that was sent twice."""

    topic: str
    id: int
    ms: int
    copy: int = 0

    @property
    def k(self) -> str:
        return f"k{self.id % 7}"

    @property
    def text(self) -> str:
        return json.dumps({"id": self.id, "k": self.k, "ms": self.ms, "copy": self.copy})


def input_events() -> Iterator[Event]:
    """In the order in which they are sent; none is later than the watermark's 150 s."""
    for n in range(ORDERS):
        at = START + n * 500
        yield Event("orders", n, at)
        if n % 4 == 0:
            yield Event("orders", n, at, copy=1)
        if n % 3:
            # Every seventh comes too late for the join's 20 s, the others within 4 s.
            yield Event("payments", n, at + (30_000 if n % 7 == 0 else n % 5 * 1000))


def closing_events() -> list[Event]:
    """An hour later, so that the watermark passes the end of all before; the last records of their partitions."""
    return [Event("orders", 10_000, START + 3_600_000), Event("payments", 10_001, START + 3_600_000)]


def expected(events: list[Event], closing: list[Event]) -> Counter[str]:
    """What a reader should find, once: windows that the closing events end, each order, each order that was paid."""
    windows: dict[tuple[int, str], list[int]] = defaultdict(list)
    ordered: dict[int, int] = {}
    for event in events:
        if event.topic == "orders":
            windows[event.ms // 10_000 * 10_000, event.k].append(event.id)
            ordered.setdefault(event.id, event.ms)
    found = Counter(f"count {start} {k} {len(ids)} {sum(ids)}" for (start, k), ids in windows.items())
    orders = {event.id for event in [*events, *closing] if event.topic == "orders"}
    found.update(f"distinct {number}" for number in orders)
    paid = [event for event in events if event.topic == "payments"]
    found.update(f"paid {event.id} {event.ms}" for event in paid if 0 <= event.ms - ordered[event.id] <= 20_000)
    return found


def send(bootstrap: str, topics: dict[str, str], events: list[Event]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(UNREADABLE):
        producer.produce(topics["orders"], value=f"not JSON {number}")
    for event in events:
        producer.produce(topics[event.topic], key=str(event.id), value=event.text)
    assert producer.flush(30) == 0


@pytest.fixture
def stateful_job(
    local_job: LocalJobs, make_topic: Callable[..., str], broker: str, tmp_path: Path
) -> tuple[LocalJob, Counter[str]]:
    """A job with all three operators in one query, its input, and what readers are to find in the end.

    The query reads the source four times, twice of these for the join of one topic with the other.
    """
    topics = {"orders": make_topic(4, "orders"), "payments": make_topic(2, "payments")}
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "stateful.py").write_text(_MODULE)
    job = local_job(
        topics=tuple(topics.values()), transform=Transform(function="stateful:pipelines"), code=tmp_path / "code",
        stateful=True, max_offsets=300, on_record_error=OnRecordError.SKIP,
        value_format=Format.JSON, value_schema="id BIGINT, k STRING, ms BIGINT, copy INT",
    )  # fmt: skip
    events, closing = list(input_events()), closing_events()
    send(broker, topics, [*events, *closing])
    assert len(events) + len(closing) + UNREADABLE == TOTAL
    return job, expected(events, closing)


def read_in_two(job: LocalJob, records: int) -> None:
    """From the next batch on: half of what is left, and then all, the closing events among it."""
    job.spec = replace(job.spec, source=replace(job.spec.source, max_offsets_per_checkpoint=records // 2))


def written(broker: str, job: LocalJob) -> Counter[str]:
    return Counter((value or b"").decode() for value in visibility.records(broker, job.spec.sink.topic))


def await_written(broker: str, job: LocalJob, wanted: Counter[str]) -> None:
    job.await_fact(lambda: written(broker, job) >= wanted, lambda: f"lost: {wanted - written(broker, job)}")


def judge(job: LocalJob, client: TransactionClient, broker: str, wanted: Counter[str]) -> None:
    """Of a job that has drained."""
    document = job.document()
    assert document is not None
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    found = written(broker, job)
    assert found - wanted == Counter(), "repeated, or never to be written"
    assert wanted - found == Counter(), "lost"
    assert (document.counters.records_in, document.counters.records_out) == (TOTAL, wanted.total())


def test_aggregation_deduplication_and_join_continue_through_kills_and_rescales(
    stateful_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient, tmp_path: Path
) -> None:
    """Parallelism 2, 3, 1 with two kills: before the checkpoint of a new state version, and before its commits."""
    job, wanted = stateful_job
    job.start(fault="after-flush@attempt=1,checkpoint=2")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    assert (document.checkpoint_id, document.counters.records_in, document.engine_has_state) == (1, 300, True)
    stale = list((tmp_path / "query" / "attempt-1" / "state").rglob("2.changelog"))
    assert stale, "the state has the version of a checkpoint that was never completed"

    # The same batch again, with more records in it; the next batch has the remaining records.
    read_in_two(job, TOTAL - 300)
    job.start(parallelism=3, fault="after-write@attempt=2,checkpoint=3")
    assert job.await_end() == -signal.SIGKILL, job.log()
    document = job.document()
    assert document is not None
    assert (document.checkpoint_id, document.counters.records_in) == (3, TOTAL)
    assert (document.parallelism, document.aligned) == (3, False)

    # Nothing is left to read: what the watermark has ended comes all the same.
    job.start(parallelism=1)
    document = job.await_checkpoint(4)
    assert not any(split.size for split in document.splits)
    assert document.counters.records_skipped == UNREADABLE
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)


def test_checkpoints_that_are_lost_are_computed_again_from_the_state_before(
    stateful_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient
) -> None:
    """As after an outage longer than the transactions' time-out.

    The lost checkpoints are the first, which began without state, a checkpoint with records, and the last. The last has
    no records and writes the windows that the watermark has ended.
    """
    job, wanted = stateful_job
    for attempt, (checkpoint, records) in enumerate([(1, 300), (3, TOTAL), (5, TOTAL)], start=1):
        job.start(fault=f"after-write@attempt={attempt},checkpoint={checkpoint}")
        assert job.await_end() == -signal.SIGKILL, job.log()
        document = job.document()
        assert document is not None
        assert (document.checkpoint_id, document.counters.records_in) == (checkpoint, records)
        lost = [
            EndTxn(
                transactional_id=committable.transactional_id,
                producer_id=committable.producer_id,
                producer_epoch=committable.producer_epoch,
                commit=False,
            )
            for committable in document.committables
        ]
        assert lost
        assert set(client.end_all(lost)) == {EndTxnAnswer.NONE}
        read_in_two(job, TOTAL)

    job.start()
    job.await_checkpoint(6)
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)


def test_a_job_goes_back_to_an_earlier_checkpoint_with_its_state(
    stateful_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient
) -> None:
    job, wanted = stateful_job
    assert goes_back(job, wanted, broker, client).retained == 2


def goes_back(job: LocalJob, wanted: Counter[str], broker: str, client: TransactionClient) -> EngineState:
    """Killed in its first checkpoint after that: what comes again is right, as if nobody had read on.

    :returns: the engine's part of the document that went back.
    """
    alone = needs_classes(job)
    job.spec = replace(job.spec, retention=Retention(interval_seconds=1, count=50), checkpoint_interval_seconds=2)
    job.start(alone=alone)
    await_written(broker, job, wanted)
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)
    last = job.document()
    assert last is not None

    job.spec = replace(job.spec, restore=Restore(checkpoint=2, nonce=1))
    job.start(fault=f"after-flush@attempt=2,checkpoint={last.checkpoint_id + 2}")
    assert job.await_end() == -signal.SIGKILL, job.log()
    restored = job.document()
    assert restored is not None
    assert (restored.checkpoint_id, restored.engine_has_state) == (last.checkpoint_id + 1, True)
    job.start(parallelism=3, alone=alone)
    windows = Counter({row: 2 for row in wanted if row.startswith("count")})
    await_written(broker, job, windows)
    assert job.drain() == 0, job.log()

    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    found = written(broker, job)
    again = found - wanted
    assert found == wanted + again, "each is there, and right"
    assert max(again.values()) == 1
    assert any(not again[row] for row in wanted if row.startswith("distinct")), "some orders were out by then"
    return decode_engine(restored.engine)


def needs_classes(job: LocalJob) -> bool:
    """Whether the job needs the classes for object stores, which the process of other jobs does not have."""
    return job.spec.state_s3 is not None


def clone_of(job: LocalJob, sink_topic: str, snapshot: str) -> LocalJob:
    """A new job on the same volume or bucket, which begins at the snapshot."""
    uid = f"{job.uid}-clone"
    clone = replace(job, folder=job.folder / "clone", uid=uid, attempt=0, process=None, snapshots={"before": snapshot})
    clone.folder.mkdir()
    (clone.folder / job.uid).symlink_to(job.folder / "query")
    if needs_classes(job):
        shutil.copy(job.folder / names.SPARK_CONF_KEY, clone.folder)
    place = "on-this-disk" if job.spec.state_s3 is None else ""
    clone.spec = replace(
        job.spec, start_snapshot="before", state_claim=place, state_partitions=FOLLOW_PARALLELISM,
        source=replace(job.spec.source, group_id=uid),
        sink=replace(job.spec.sink, topic=sink_topic, transactional_id_prefix=uid),
    )  # fmt: skip
    return clone


def test_another_job_begins_with_the_state_of_a_snapshot(
    stateful_job: tuple[LocalJob, Counter[str]], broker: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    job, wanted = stateful_job
    begins_with_a_snapshot(job, wanted, broker, client, sink_topic=make_topic(4, "clone"))


def begins_with_a_snapshot(
    job: LocalJob, wanted: Counter[str], broker: str, client: TransactionClient, *, sink_topic: str
) -> None:
    """Killed in its first checkpoint, and with other partitions of state: it writes what the first job had not."""
    alone = needs_classes(job)
    job.spec = replace(job.spec, retention=Retention(interval_seconds=1, count=50))
    job.start(alone=alone)
    job.await_checkpoint(2)
    assert job.drain() == 0, job.log()
    last = job.document()
    assert last is not None
    first = written(broker, job)
    snapshot = FolderRetainedStore.next_to(job.state_file).read()[retained_key(last.checkpoint_id)]
    files = {file: file.stat().st_mtime_ns for file in (job.folder / "query").rglob("*")}

    clone = clone_of(job, sink_topic, snapshot)
    clone.start(fault=f"after-flush@attempt=1,checkpoint={last.checkpoint_id + 2}")
    assert clone.await_end() == -signal.SIGKILL, clone.log()
    begun = clone.document()
    assert begun is not None
    assert (begun.checkpoint_id, begun.offsets, begun.engine_has_state) == (
        last.checkpoint_id + 1, last.offsets, True
    )  # fmt: skip
    clone.start(parallelism=3, alone=alone)
    await_written(broker, clone, wanted - first)
    assert clone.drain() == 0, clone.log()
    assert written(broker, clone) == wanted - first
    assert visibility.open_transactions(client, clone.spec.sink.transactional_id_prefix) == []
    assert {file: file.stat().st_mtime_ns for file in (job.folder / "query").rglob("*")} == files

    job.start(alone=alone)
    await_written(broker, job, wanted)
    assert job.drain() == 0, job.log()
    judge(job, client, broker, wanted)
