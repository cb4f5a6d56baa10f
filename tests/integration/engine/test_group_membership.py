"""A whole job, Spark included, as a member of a consumer group that a plain consumer joins and leaves."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from sparkapp.clients.deadline import Deadline
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.group_membership import MembershipMode, MembershipOptions
from sparkapp.model.job.startup import Startup
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark


class PlainConsumer:
    """A member with a client's defaults, which commit when it leaves."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([topic])
        self.seen: list[int] = []

    def read_until(self, what: Callable[[PlainConsumer], bool], why: str) -> None:
        deadline = Deadline.after(120)
        while not what(self):
            assert not deadline.expired, why
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.seen.append(int(message.value()))

    def share(self) -> int:
        return len(self._consumer.assignment())

    def close(self) -> list[int]:
        self._consumer.close()
        return self.seen


def records_in(job: LocalJob) -> int:
    document = job.document()
    return 0 if document is None else document.counters.records_in


def test_a_job_shares_with_a_plain_consumer_and_continues_where_the_group_stands(
    local_job: LocalJobs, broker: str
) -> None:
    job = local_job(
        delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE, startup=Startup(),
        group_membership=MembershipOptions(
            mode=MembershipMode.SUBSCRIBE, session_timeout_seconds=10, heartbeat_interval_seconds=1,
            max_poll_interval_seconds=60,
        ),
    )  # fmt: skip
    topic, group = job.spec.source.topics[0], job.spec.source.group_id
    produce(broker, topic, 0, 400)
    job.start()
    job.await_records_in(400)

    other = PlainConsumer(broker, group, topic)
    other.read_until(lambda reader: reader.share() == 2, "the plain consumer got no share")
    produce(broker, topic, 400, 400)
    other.read_until(lambda reader: len(reader.seen) + records_in(job) >= 800, "not everything was read")
    seen = other.close()
    assert seen, "the plain consumer read nothing"
    produce(broker, topic, 800, 400)
    job.await_records_in(1200 - len(seen))
    assert job.drain() == 0

    produce(broker, topic, 1200, 100)
    meanwhile = PlainConsumer(broker, group, topic)
    meanwhile.read_until(lambda reader: len(reader.seen) == 100, "the group does not read without the job")
    seen += meanwhile.close()
    job.start(alone=True)
    produce(broker, topic, 1300, 100)
    job.await_records_in(1400 - len(seen))
    written = Counter(visibility.numbers(broker, job.spec.sink.topic))
    assert written + Counter(seen) == Counter(range(1400)), "nothing crashed: each record once"

    assert job.process is not None
    job.process.send_signal(signal.SIGKILL)
    job.await_end()
    produce(broker, topic, 1400, 100)
    job.start()
    deadline = Deadline.after(240)
    while not set(range(1400, 1500)) <= set(visibility.numbers(broker, job.spec.sink.topic)):
        assert not deadline.expired, "a record was missed after the crash"
    assert job.drain() == 0
    written = Counter(visibility.numbers(broker, job.spec.sink.topic))
    assert set(written) | set(seen) == set(range(1500))
