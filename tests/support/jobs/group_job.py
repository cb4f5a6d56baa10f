"""A job as a consumer group sees it: the driver's membership and enumerator with a real reader, without Spark.

Also a program: ``python -m tests.support.jobs.group_job '<json>'`` runs one in a process of its own, that can be
stopped and killed, and prints each checkpoint as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.dataplane.batch import open_consumer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.client.config import consumer_config, group_member_config
from sparkapp.model.job.group_membership import Assignor, MembershipMode, MembershipOptions
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.source.enumerator.enumerator_of_job import enumerator_of
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import starting_initializer
from tests.support.jobs.commit_counter import CommitCounter


def membership_options(**fields: object) -> MembershipOptions:
    """Short times, as short as a broker's defaults allow."""
    values: dict[str, object] = {
        "session_timeout_seconds": 6, "heartbeat_interval_seconds": 1, "max_poll_interval_seconds": 20, **fields
    }  # fmt: skip
    return MembershipOptions(mode=MembershipMode.SUBSCRIBE, **values)  # type: ignore[arg-type]


@dataclass
class GroupJob:
    """One member that reads, waits ``hold`` seconds as a slow checkpoint does, and commits; ends with :meth:`stop`.

    :param on_event: called with each event's reason in the thread that reports it.
    :param properties: put over the member's configuration.
    """

    bootstrap: str
    topic: str
    group: str
    options: MembershipOptions = field(default_factory=membership_options)
    hold: float = 0.0
    finish_seconds: float | None = None
    max_offsets: int = 50
    on_event: Callable[[str], None] = field(default=lambda _: None)
    completed: Callable[[list[int]], None] = field(default=lambda _: None)
    properties: dict[str, str] = field(default_factory=dict)
    values: list[int] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    commits: CommitCounter = field(default_factory=CommitCounter)
    failure: KafkaSparkJobError | None = None

    def start(self) -> GroupJob:
        source = Source(
            topics=(self.topic,),
            group_id=self.group,
            group_membership=self.options,
            max_offsets_per_checkpoint=self.max_offsets,
        )
        sink = Sink(
            topic="nowhere", delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE, transactional_id_prefix=self.group
        )
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=self.bootstrap), source=source, transform=Transform(), sink=sink
        )
        job = Job(namespace="test", name="job", uid="uid", generation=1, attempt=1, spec=spec)
        config = {**consumer_config(job, security={}), **self.properties}
        self._cluster = KafkaClusterView(config, read_committed=True)
        self._reader = open_consumer(config)
        self.membership = GroupMembership(
            cluster=self._cluster, initializer=starting_initializer(source.startup), tell=self._record,
            changed=lambda _: None, callback=self.commits,
        )  # fmt: skip
        self.enumerator = enumerator_of(spec, self._cluster, warn=lambda *_: None, membership=self.membership)
        self.enumerator.start(None)
        self.member = KafkaGroupMember(
            {**group_member_config(job, security={}), **self.properties}, membership=self.membership,
            options=self.options, finish_seconds=self.finish_seconds,
        )  # fmt: skip
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine")
        self._thread.start()
        return self

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.enumerator.offsets}

    def stop(self) -> None:
        """An orderly end: the checkpoint under way is completed and committed, then the group is left."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join(60)
        self.membership.drain(10)
        self.member.close()
        self._cluster.close()
        self._reader.close()

    def _record(self, reason: str, message: str, _: bool) -> None:
        self.events.append(f"{reason}: {message}")
        self.on_event(reason)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                splits = self.enumerator.plan()
            except KafkaSparkJobError as error:
                self.failure = error
                return
            if any(each.size for each in splits):
                self._checkpoint(splits)
            else:
                time.sleep(0.05)

    def _checkpoint(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        read = [
            int(value.as_py())
            for batch in self._reader.read([each for each in splits if each.size])
            for value in batch.column("value")
        ]
        time.sleep(self.hold)
        self.values.extend(read)
        self.completed(read)
        self.membership.commit({each.partition: each.stop for each in splits if each.size})
        self.enumerator.complete(splits)


def _print_line(body: object) -> None:
    """In one piece: two threads write, and ``print`` writes the end of a line apart."""
    sys.stdout.write(json.dumps(body) + "\n")
    sys.stdout.flush()


def main(text: str) -> None:
    """Runs until it is killed, or until its input ends."""
    body = json.loads(text)
    options = membership_options(**{**body.pop("options", {}), "assignor": Assignor(body.pop("assignor", "range"))})
    job = GroupJob(
        **body, options=options,
        on_event=lambda reason: _print_line({"event": reason}),
        completed=lambda values: _print_line({"values": values}),
    ).start()  # fmt: skip
    sys.stdin.read()
    job.stop()


if __name__ == "__main__":
    main(sys.argv[1])
