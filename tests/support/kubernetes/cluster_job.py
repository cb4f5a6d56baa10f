"""One job's own place on the real cluster: a namespace, two topics, data with numbers, and the judgement at the end."""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewPartitions

from clusterjob.environment import ClusterEnvironment
from clusterjob.installation import IMAGE_OF
from clusterjob.kafka.reading import read_committed
from clusterjob.kafka.topics import Topics
from clusterjob.kafka.transactions import open_transactions
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import LiveJob
from clusterjob.oracle import Expectation, Verdict, compare, same
from clusterjob.watch import PATIENCE, TimedOut
from demo.data import SourceRecord
from demo.loader import PacedLoader
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.model import names
from sparkapp.model.partition import TopicPartition
from tests.support.jobs import faults

NAME = "job"


class ClusterJob:
    """Made by the fixture ``make_cluster_job``; every object and topic of it carries the namespace's name.

    :param environment: the cluster.
    :param namespace: made for this job alone.
    """

    def __init__(self, environment: ClusterEnvironment, namespace: str) -> None:
        self.environment = environment
        self.namespace = namespace
        self.kubectl = Kubectl(environment, namespace)
        self.job = LiveJob(self.kubectl, NAME)
        self.source = f"{namespace}.in"
        self.sink = f"{namespace}.out"
        self.topics = Topics(environment.bootstrap)
        self._numbered = 0

    @classmethod
    def make(cls, environment: ClusterEnvironment, word: str) -> ClusterJob:
        """A new place; ``word`` says in its names what for."""
        cluster_job = cls(environment, f"e2e-{word}-{uuid.uuid4().hex[:6]}")
        cluster_job.kubectl.ensure_namespace(cluster_job.namespace)
        cluster_job.topics.recreate([cluster_job.source, cluster_job.sink], partitions=4)
        cluster_job.job.__enter__()
        return cluster_job

    def close(self) -> None:
        """Takes everything away, without waiting for Kubernetes to be done."""
        self.job.__exit__(None, None, None)
        self.kubectl.delete("namespace", self.namespace, wait=False)
        self.topics.delete([self.source, self.sink])

    @property
    def prefix(self) -> str:
        """The transactional ids of the job begin with it."""
        return names.default_transactional_id_prefix(self.namespace, NAME)

    def resource(self, **changes: Any) -> dict[str, Any]:
        """A job that passes records through, small and quick; ``changes`` are merged into its spec."""
        spec: dict[str, Any] = {
            "image": IMAGE_OF["sparkapp"],
            "parallelism": 2,
            "checkpoint": {"intervalSeconds": 1},
            "restartPolicy": {"backoff": {"initialSeconds": 1, "maxSeconds": 60, "multiplier": 2}},
            "kafka": {"bootstrapServers": self.environment.bootstrap_pods},
            "source": {"topics": [self.source], "startup": {"mode": "Earliest"}},
            "sink": {"topic": self.sink},
            # One executor with a core for each of two subtasks; heaps as small as Spark takes them.
            "driver": {"memory": "512Mi"},
            "executor": {"cores": 2, "memory": "512Mi", "resources": {"requests": {"cpu": "100m"}}},
            # For jobs that live for a minute: a compiler that optimises less takes half the CPU of a start.
            "sparkConf": {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"},
        }
        return {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": names.KIND,
            "metadata": {"name": NAME},
            "spec": merged(spec, changes),
        }

    def apply(self, **changes: Any) -> None:
        """Creates the job."""
        self.kubectl.apply(self.resource(**changes))

    def fault(self, order: str) -> dict[str, Any]:
        """Fields of the spec with which the driver kills itself (:mod:`tests.support.jobs.faults`); makes its code."""
        code = Path(faults.__file__).read_text(encoding="utf-8")
        name = "faults"
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {f"{name}.py": code}}
        )
        return {
            "transform": {"python": {"function": f"{name}:transform", "configMapRef": {"name": name}}},
            "driver": {"env": [{"name": faults.VARIABLE, "value": order}]},
        }

    def change(self, **changes: Any) -> None:
        """Changes the job's spec."""
        self.kubectl.patch(names.PLURAL, NAME, {"spec": changes})

    def suspend(self, *, seconds: float = PATIENCE) -> None:
        """Suspends the job, and blocks until it says so.

        :raises TimedOut: it does not.
        """
        self.change(suspend=True)
        self.job.wait("Suspended", lambda status: status.get("state") == "Suspended", seconds=seconds)

    def load(self, count: int, *, topic: str = "", rate: float = 1e9) -> int:
        """Puts ``count`` more records into the source topic, or another one; returns how many there are now.

        :param rate: records a second.
        """
        records = numbered(range(self._numbered, self._numbered + count))
        with PacedLoader(
            self.environment.bootstrap, topic or self.source, records, total=count, rate=rate, reserve=0
        ) as loader:
            time.sleep(count / rate)  # the end removes the limit
            loader.finish(PATIENCE)
        self._numbered += count
        return self._numbered

    def await_prepared(self, attempt: int, *, seconds: float = PATIENCE) -> None:
        """Blocks until a standby reports that it is prepared.

        :raises TimedOut: it does not.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            report = self.kubectl.get("configmap", names.report_config_map(NAME)) or {}
            if report.get("data", {}).get(names.PREPARED_KEY) == str(attempt):
                return
            time.sleep(0.5)
        raise TimedOut(f"attempt {attempt} is not prepared after {seconds:.0f} s\n{self.job.diagnosis()}")

    def grow(self, partitions: int) -> None:
        """Gives the source topic more partitions."""
        admin = AdminClient({"bootstrap.servers": self.environment.bootstrap})
        admin.create_partitions([NewPartitions(self.source, partitions)])[self.source].result(30)

    def judge(self, expect: Expectation = same, *, also: Sequence[str] = ()) -> Verdict:
        """Compares what read_committed readers get with what is in the source (``also``: and in further topics)."""
        sink = read_committed(self.environment.bootstrap, self.sink)
        source = [each for topic in (self.source, *also) for each in read_committed(self.environment.bootstrap, topic)]
        return compare(source, sink, expect=expect)

    def assert_exactly_once(self, records: int, *, seconds: float = PATIENCE, expect: Expectation = same) -> None:
        """Waits until the job has read everything; then every record is in the sink once, and nothing is open."""
        self.job.wait_read(records, seconds=seconds)
        verdict = self.judge(expect)
        assert verdict.exactly_once, verdict.explain()
        assert verdict.records_in == verdict.records_out == records, verdict.explain()
        self.assert_nothing_open()

    def assert_nothing_open(self) -> None:
        """No transaction of the job is open, by the coordinators' word and by the readers' last stable offset."""
        assert open_transactions(self.environment.bootstrap, self.prefix) == []
        assert self.topics.held_back(self.sink) == 0

    def committed_offsets(self) -> Mapping[int, int]:
        """The group's committed offset of each partition of the source topic that has one."""
        # Not by an AdminClient: where the group's coordinator is not ready it crashes (librdkafka's issue 5040).
        group = names.default_group_id(self.namespace, NAME)
        config = {"bootstrap.servers": self.environment.bootstrap, "group.id": group}
        view = KafkaClusterView(config, read_committed=True)
        try:
            found = view.committed(TopicPartition(self.source, number) for number in self.topics.ends(self.source))
        finally:
            view.close()
        return {each.partition: offset for each, offset in found.items()}

    def state_text(self) -> str | None:
        """The checkpoint document as it is stored."""
        found = self.kubectl.get("configmap", names.state_config_map(NAME))
        text = (found or {}).get("data", {}).get(names.CHECKPOINT_KEY)
        return None if text is None else str(text)


def numbered(numbers: Iterable[int]) -> Iterable[SourceRecord]:
    """Records that the oracle can find again."""
    for number in numbers:
        yield SourceRecord(f"key-{number % 97}".encode(), json.dumps({"id": number, "text": "x" * 40}).encode())


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with the changes; objects are merged, None removes a field."""
    result = copy.deepcopy(dict(base))
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = merged(result[name], value)
        else:
            result[name] = copy.deepcopy(value)
    return result
