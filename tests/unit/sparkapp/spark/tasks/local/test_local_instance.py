"""When an instance of the local pace commits: records, offsets alone, offsets at rest, and a backlog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.tasks.local import local_instance
from sparkapp.spark.tasks.local.local_instance import LocalInstance

MOVING, AT_REST = TopicPartition("in", 0), TopicPartition("in", 1)
STARTS = {MOVING: 5, AT_REST: 7}
RECORDS = pa.record_batch({"value": [b"a"]})
INTERVAL = 0.1
HOUR = 3600.0


class Rig:
    """An instance with a consumer, a writer and a clock of the test's. It is the consumer and the writer itself.

    :ivar commits: seconds since the start, and offsets.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, timeout: float = 900.0) -> None:
        self.now = 0.0
        self.commit_seconds = 0.0
        self.commits: list[tuple[float, dict[TopicPartition, int]]] = []
        self.followed: dict[TopicPartition, int] = {}
        self.behind = 0
        self.batch: pa.RecordBatch | None = None
        self.records = self.dead_letters = 0
        clients = SimpleNamespace(
            consumer_for=lambda _: self, producers_for=lambda _: None, router_for=lambda *_, **__: None
        )
        monkeypatch.setattr(local_instance, "worker_clients", clients)
        monkeypatch.setattr(local_instance, "LocalKafkaWriter", lambda *_, **__: self)
        monkeypatch.setattr(local_instance, "write_failed", lambda *_: 0)
        monkeypatch.setattr(local_instance, "time", SimpleNamespace(monotonic=lambda: self.now))
        spec = SimpleNamespace(
            commit_interval_millis=int(INTERVAL * 1000), source=SimpleNamespace(group_id="g"),
            sink=SimpleNamespace(transaction_timeout_millis=int(timeout * 1000)),
        )  # fmt: skip
        job: Any = SimpleNamespace(spec=spec)
        transform: Any = SimpleNamespace(open=lambda: None, map=lambda batches: batches, source_columns=frozenset())
        decoder: Any = SimpleNamespace(skipped=0, decode=lambda batches: batches, source_columns=frozenset())
        self.instance = LocalInstance(
            job, number=1, transactional_id="p-0.0", subtask=0, transform=transform, decoder=decoder
        )

    def start(self, starts: Mapping[TopicPartition, int]) -> None:
        self.instance.place(starts, "mark")
        self.instance.read([KafkaPartitionSplit(each, at, ENDLESS) for each, at in starts.items()], ())
        self.commits.clear()

    def turns(self, until: float, step: float, before: Callable[[], None] = lambda: None) -> None:
        """Turns of the instance, each ``step`` seconds after the last has ended."""
        while self.now < until:
            before()
            self.instance.turn()
            self.now += step

    def reads_records(self) -> None:
        self.batch = RECORDS
        self.followed[MOVING] += 1

    def reads_no_record(self) -> None:
        """A marker, or a record that is left out."""
        self.followed[MOVING] += 1

    def open(self) -> None: ...

    def follow(self, splits: list[KafkaPartitionSplit], *, columns: frozenset[str]) -> None:
        self.followed = {split.partition: split.start for split in splits}

    def next_batch(self, **_: int) -> pa.RecordBatch | None:
        batch, self.batch = self.batch, None
        return batch

    @property
    def is_empty(self) -> bool:
        return not self.records

    def write(self, batch: pa.RecordBatch) -> None:
        self.records += batch.num_rows

    def commit(self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str) -> bool:
        self.commits.append((self.now, dict(offsets)))
        self.now += self.commit_seconds
        self.records = 0
        return True

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.commits]

    @property
    def gaps(self) -> list[float]:
        """Seconds between the end of a commit and the start of the next, of a backlog that is under way."""
        pairs = zip(self.times[1:], self.times[2:], strict=False)
        return [later - earlier - self.commit_seconds for earlier, later in pairs]


def test_offsets_at_rest_are_committed_every_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers forget the offsets of a group that commits none."""
    rig = Rig(monkeypatch)
    rig.start(STARTS)
    rig.turns(until=2.5 * HOUR, step=60)
    assert rig.commits == [(HOUR, STARTS), (2 * HOUR, STARTS)]


@pytest.mark.parametrize("read", [Rig.reads_records, Rig.reads_no_record])
def test_a_partition_at_rest_is_committed_every_hour(
    read: Callable[[Rig], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(monkeypatch)
    rig.start(STARTS)
    rig.turns(until=2.5 * HOUR, step=60, before=lambda: read(rig))
    assert len(rig.commits) > 100, "the moving partition's commits are not put off"
    found = [(at, offsets[AT_REST]) for at, offsets in rig.commits if AT_REST in offsets]
    assert found == [(HOUR, STARTS[AT_REST]), (2 * HOUR, STARTS[AT_REST])]
    assert all(MOVING in offsets for _, offsets in rig.commits)


def test_an_instance_without_partitions_renews_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.start({})
    rig.turns(until=2.5 * HOUR, step=60)
    assert rig.commits == []


def test_records_are_committed_at_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.start({MOVING: 5})
    rig.turns(until=2, step=0.01, before=rig.reads_records)
    assert len(rig.commits) == pytest.approx(2 / INTERVAL, abs=2)
    assert [set(offsets) for _, offsets in rig.commits] == [{MOVING}] * len(rig.commits)


def test_offsets_alone_are_committed_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.start({MOVING: 5})
    rig.turns(until=5.5, step=0.01, before=rig.reads_no_record)
    assert rig.times == pytest.approx([1, 2, 3, 4, 5], abs=0.1)


@pytest.mark.parametrize(
    ("commit_seconds", "timeout", "wait"),
    [(0.02, 900.0, 0.6), (0.1, 900.0, 3.0), (1.0, 900.0, 5.0), (1.0, 20.0, 2.0)],
    ids=["a thirtieth of the time", "likewise", "five seconds at most", "a tenth of the time-out at most"],
)
def test_the_commits_of_a_backlog_take_a_small_part_of_the_time(
    commit_seconds: float, timeout: float, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(monkeypatch, timeout=timeout)
    rig.start({MOVING: 5})
    rig.behind, rig.commit_seconds = 10**6, commit_seconds
    rig.turns(until=40, step=0.01, before=rig.reads_records)
    assert len(rig.gaps) > 3
    assert rig.gaps == pytest.approx([wait] * len(rig.gaps), abs=0.03)


def test_a_backlog_that_is_read_is_committed_at_the_interval_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.start({MOVING: 5})
    rig.behind, rig.commit_seconds = 10**6, 1.0
    rig.turns(until=10, step=0.01, before=rig.reads_records)
    rig.behind, rig.commit_seconds = 0, 0.0
    began = rig.now
    rig.turns(until=began + 1, step=0.01, before=rig.reads_records)
    assert len([at for at in rig.times if at >= began]) >= 1 / INTERVAL - 1
