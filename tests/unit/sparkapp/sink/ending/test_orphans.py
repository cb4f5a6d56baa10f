"""The order of a sweep's steps, with fakes; the integration tests have real brokers."""

from __future__ import annotations

import pytest

from sparkapp.clients.transactions.states import TransactionDescription, TransactionState
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.orphans import Hangs, OrphanSweep
from tests.support.fakes.transaction_client import FakeTransactionClient

OPEN = TransactionDescription(
    state=TransactionState.ONGOING, producer_id=7, producer_epoch=0, timeout_ms=1, start_time_ms=1
)


class Job(FakeTransactionClient):
    """Open transactions of the ids, of which the checkpoints use some.

    :param in_use: the answers to the first question for them, and to the second.
    """

    def __init__(self, *in_use):
        super().__init__({"p-0": OPEN, "p-1": OPEN})
        self.in_use = list(in_use)
        self.steps = []

    def note(self, name, ids):
        super().note(name, ids)
        self.steps.append(name)

    def sweep(self, *ids):
        return OrphanSweep(self, self, find=lambda _: ids, require_claim=lambda: self.steps.append("claim")).sweep()

    @property
    def reusable(self):
        return self

    def retire(self, retired):
        self.steps.append(f"retire {sorted(retired)}")

    def ids_in_use(self):
        self.steps.append("in use")
        return self.in_use.pop(0)


def test_a_producer_is_retired_before_a_transaction_is_ended():
    job = Job(["p-1"], ["p-1"])
    assert job.sweep("p-0", "p-1") == ("p-0",)
    assert job.steps == ["describe", "in use", "retire [('p-0', 7, 0)]", "in use", "claim", "abort"]


def test_a_producer_that_was_used_again_meanwhile_is_spared():
    """Its checkpoint began before the producer was retired, so its id is in use by then."""
    job = Job([], ["p-0"])
    assert job.sweep("p-0") == ()
    assert job.steps == ["describe", "in use", "retire [('p-0', 7, 0)]", "in use"]


@pytest.mark.parametrize("ids", [(), ("p-0",)])
def test_a_sweep_without_orphans_retires_nothing(ids):
    job = Job(["p-0"])
    assert job.sweep(*ids) == ()
    assert job.steps == ["describe", "in use"]


def hangs(transactional_id, start_offset=0):
    return Hangs(transactional_id, TopicPartition("out", 0), start_offset)


def test_what_hangs_at_two_sweeps_is_reported():
    """At a single sweep its marker may be on its way."""
    looks = [{hangs("p-0"), hangs("p-1")}, {hangs("p-0"), hangs("p-1", 5)}, KafkaUnreachable("no leader"), set()]
    told = []

    def look(_):
        found = looks.pop(0)
        if isinstance(found, KafkaUnreachable):
            raise found
        return frozenset(found)

    job = Job([], [], [], [])
    sweep = OrphanSweep(job, job, find=lambda _: (), require_claim=lambda: None, hanging=look, observed=told.append)
    for _ in range(4):
        sweep.sweep()
    assert [found.hanging for found in told] == [0, 1, 2, 0], "without a leader what hung before hangs"
