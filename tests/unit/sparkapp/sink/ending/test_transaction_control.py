"""How often recovery lists the job's ids; that nothing is lost by it is in tests/integration/protocol."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from sparkapp.checkpoint.claim import Claim
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import LogScope, OpenInLogs
from sparkapp.clients.transactions.states import TransactionListing
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointMissing
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl, leave_nothing_open
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.partition_logs import FakeCluster
from tests.support.jobs.plain_job import plain_spec

SPEC = plain_spec()
PREFIX = SPEC.sink.transactional_id_prefix
ID, LATE = f"{PREFIX}-0", f"{PREFIX}-1"
OUT = TopicPartition(SPEC.sink.topic, 0)
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix=PREFIX,
    hint=TransactionalIdHint(1, 4), transactional=True,
)  # fmt: skip


class Cluster(FakeCluster):
    """Counts lists. A subtask begins a transaction during the second look at the leaders."""

    lists = 0

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]:
        self.lists += 1
        return super().list_transactions(prefix, deadline=deadline)

    def open_in(
        self, partitions: Collection[TopicPartition] | LogScope, *, deadline: Deadline | None = None
    ) -> OpenInLogs:
        found = super().open_in(partitions, deadline=deadline)
        if self.asked == 2:
            self.initialise(LATE)
            self.write(LATE, "late", OUT)
        return found


@pytest.fixture
def cluster() -> Cluster:
    """An id whose transaction is open."""
    made = Cluster(OUT)
    made.initialise(ID)
    made.write(ID, "r", OUT)
    return made


CLAIM = Claim(MemoryStore(encode(DOCUMENT)), job_uid="uid", attempt=2)


def control_of(cluster: Cluster) -> KafkaTransactionControl:
    job = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=2, spec=SPEC)
    return KafkaTransactionControl(job, cluster, {}, CLAIM)  # type: ignore[arg-type]


def test_a_start_with_nothing_to_settle_lists_the_ids_once(cluster: Cluster) -> None:
    control = control_of(cluster)
    assert control.settle(DOCUMENT) == ()
    assert control.abort_lingering(DOCUMENT) == 1
    assert cluster.partitions[OUT].aborted == ["r"]
    assert (cluster.lists, cluster.asked) == (1, 3), "the leaders are asked twice, and behind the abort"


def test_a_driver_that_cannot_drain_lists_what_its_subtasks_begin_meanwhile(cluster: Cluster) -> None:
    leave_nothing_open(control_of(cluster), CLAIM, DOCUMENT, CheckpointMissing("the ConfigMap is gone"))
    assert sorted(cluster.partitions[OUT].aborted) == ["late", "r"]


def test_a_driver_that_waits_asks_the_same_and_ends_nothing(cluster: Cluster) -> None:
    before = dict(cluster.ids)
    control_of(cluster).look(DOCUMENT, deadline=Deadline.after(5))
    assert (cluster.lists, cluster.asked) == (1, 1)
    assert cluster.ids == before
    assert cluster.partitions[OUT].open
