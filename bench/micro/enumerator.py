"""Time of a job with very many partitions before its first micro-batch: start() and the first plan().

    PYTHONPATH=dev python -m bench.micro.enumerator           # a temporary broker, 100 topics of 100 partitions
    PYTHONPATH=dev python -m bench.micro.enumerator --bootstrap host:9092 --rounds 5 --profile

Each round has new clients, as a starting driver does. The target is under 2 s for 10,000 partitions. The bench also
measures the checkpoint document of these partitions: it must fit a ConfigMap.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from confluent_kafka.admin import AdminClient, NewTopic

from bench.broker import broker_at
from sparkapp.clients.cluster_view import FoundRecord
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model.checkpoint.codec import MAX_DOCUMENT_BYTES, decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaAccessError
from sparkapp.model.job.client.config import consumer_config
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator_of_job import enumerator_of

Answer = TypeVar("Answer")

TARGET_SECONDS = 2.0
_TOPICS_A_REQUEST = 25
"""A controller takes 10,000 records in a request; a topic is a record and so is each partition."""
_CREATE_SECONDS = 300
_SMALL_BROKER = {
    # 10,000 partitions on one disk: small index files, and no cleaner that scans them.
    "log.index.size.max.bytes": "1024",
    "log.cleaner.enable": "false",
}


class TimedView:
    """A cluster view that measures each request."""

    def __init__(self, view: KafkaClusterView) -> None:
        self._view = view
        self.seconds: dict[str, float] = {}

    def topics(self) -> dict[str, int]:
        return self._timed("topics", self._view.topics)

    def existing(self, topics: Iterable[str]) -> dict[str, int]:
        return self._timed("existing", lambda: self._view.existing(topics))

    def gone(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return self._timed("gone", lambda: self._view.gone(partitions))

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return self._timed("topic ids", lambda: self._view.topic_ids(topics))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._timed("earliest", lambda: self._view.earliest(partitions))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._timed("latest", lambda: self._view.latest(partitions))

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._timed("log ends", lambda: self._view.log_ends(partitions))

    def confirmed_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._timed("confirmed ends", lambda: self._view.confirmed_ends(partitions))

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        return self._timed("records at", lambda: self._view.records_at(times))

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._timed("committed", lambda: self._view.committed(partitions))

    def _timed(self, name: str, ask: Callable[[], Answer]) -> Answer:
        began = time.perf_counter()
        try:
            return ask()
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


def main() -> None:
    """Runs the bench of the options and prints a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--startup",
        type=StartupMode,
        default=StartupMode.EARLIEST,
        choices=[StartupMode.EARLIEST, StartupMode.LATEST, StartupMode.GROUP_OFFSETS],
    )
    parser.add_argument("--profile", action="store_true", help="show where Python's time goes")
    options = parser.parse_args()
    with broker_at(options.bootstrap, overrides=_SMALL_BROKER) as bootstrap:
        prefix = f"enumerator-{uuid.uuid4().hex[:6]}"
        names = [f"{prefix}-{number:04d}" for number in range(options.topics)]
        began = time.perf_counter()
        _create(bootstrap, names, options.partitions)
        print(f"{len(names)} topics of {options.partitions} partitions made in {time.perf_counter() - began:.0f} s")
        splits: tuple[KafkaPartitionSplit, ...] = ()
        best = float("inf")
        for number in range(options.rounds):
            seconds, splits = _round(bootstrap, prefix, options, number)
            best = min(best, seconds)
        verdict = "within" if best < TARGET_SECONDS else "beyond"
        print(f"{len(splits)} partitions: {best:.2f} s at best, {verdict} the target of {TARGET_SECONDS:g} s")
        _document(splits)


def _round(
    bootstrap: str, prefix: str, options: argparse.Namespace, number: int
) -> tuple[float, tuple[KafkaPartitionSplit, ...]]:
    source = Source(topic_pattern=f"{prefix}-.*", group_id=prefix, startup=Startup(mode=options.startup))
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers=bootstrap), source=source, transform=Transform(),
        sink=Sink(topic="out", transactional_id_prefix="p"),
    )  # fmt: skip
    job = Job(namespace="bench", name="enumerator", uid="u", generation=1, attempt=1, spec=spec)
    cluster = KafkaClusterView(consumer_config(job, security={}), read_committed=True)
    view = TimedView(cluster)
    enumerator = enumerator_of(spec, view, warn=lambda *_: None)
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    began = time.perf_counter()
    enumerator.start(None)
    started = time.perf_counter()
    splits = enumerator.plan()
    planned = time.perf_counter()
    profile.disable()
    again = time.perf_counter()
    enumerator.plan()
    next_plan = time.perf_counter() - again
    questions = ", ".join(f"{name} {seconds:.2f}" for name, seconds in view.seconds.items())
    print(
        f"round {number + 1}: start {started - began:.2f} s, first plan {planned - started:.2f} s,"
        f" next plan {next_plan:.2f} s; waiting for the cluster view, all plans: {questions}",
        flush=True,
    )
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(12)
    cluster.close()
    assert len(splits) == options.topics * options.partitions
    return planned - began, splits


def _document(splits: tuple[KafkaPartitionSplit, ...]) -> None:
    """Measures the document, with offsets of ten digits, as after some years."""
    offset = 4_000_000_000
    moved = tuple(KafkaPartitionSplit(split.partition, offset, offset + 1000) for split in splits)
    document = CheckpointDocument(
        job_uid=str(uuid.uuid4()), attempt=1, checkpoint_id=1, created_at="2026-11-21T12:00:00Z", parallelism=1,
        prefix="bench.micro.enumerator", splits=moved,
    )  # fmt: skip
    began = time.perf_counter()
    text = encode(document)
    encoded = time.perf_counter()
    decode(text, job_uid=document.job_uid)
    decoded = time.perf_counter()
    size = len(text.encode())
    print(
        f"checkpoint document of {len(splits)} partitions: {size} bytes ({size / MAX_DOCUMENT_BYTES:.0%} of the limit),"
        f" written in {(encoded - began) * 1000:.0f} ms, read in {(decoded - encoded) * 1000:.0f} ms"
    )


def _create(bootstrap: str, names: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": _CREATE_SECONDS * 1000})
    for first in range(0, len(names), _TOPICS_A_REQUEST):
        wanted = [NewTopic(name, partitions, 1) for name in names[first : first + _TOPICS_A_REQUEST]]
        made = admin.create_topics(wanted, operation_timeout=_CREATE_SECONDS, request_timeout=_CREATE_SECONDS)
        for future in made.values():
            future.result(_CREATE_SECONDS)
    # Until the broker has made the files it does not lead the partitions, whatever its metadata says.
    every = [TopicPartition(name, number) for name in names for number in range(partitions)]
    view = KafkaClusterView({"bootstrap.servers": bootstrap, "group.id": "g"}, read_committed=True)
    deadline = Deadline.after(_CREATE_SECONDS)
    while True:
        try:
            view.earliest(every)
            break
        except KafkaAccessError:
            if deadline.expired:
                raise
            time.sleep(1)
    view.close()


if __name__ == "__main__":
    main()
