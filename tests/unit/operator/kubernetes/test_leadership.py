"""Only one process leads: by a Lease, by clocks that need not agree, and by stopping before the other begins."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.kubernetes.client import CONNECT_SECONDS, WRITE_SECONDS
from kafkasparkjob_operator.kubernetes.leadership import Leadership, Timing
from kafkasparkjob_operator.kubernetes.port import ClusterError
from tests.support.clock import FakeClock
from tests.support.fakes.kubernetes import FakeKubernetes

PLACE = ("Lease", "system", "operator")


class Candidate:
    """One process: its leadership, its own clock, the changes it was notified of."""

    def __init__(self, cluster: FakeKubernetes, identity: str) -> None:
        self.clock = FakeClock(1000.0)
        self.changes: list[bool] = []
        self.leadership = Leadership(
            cluster,
            namespace="system",
            name="operator",
            identity=identity,
            changed=self.changes.append,
            clock=self.clock,
        )

    async def step(self, seconds: float = 0.0) -> bool:
        self.clock.now += seconds
        await self.leadership.step()
        return self.leadership.leading


@pytest.fixture
def cluster() -> FakeKubernetes:
    return FakeKubernetes()


def holder(cluster: FakeKubernetes) -> str:
    return str(cluster.objects[PLACE]["spec"]["holderIdentity"])


async def test_the_first_one_leads_and_the_second_waits(cluster: FakeKubernetes) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    assert await first.step()
    assert not await second.step()
    assert (first.changes, second.changes) == ([True], [])
    assert holder(cluster) == "first"


async def test_renewals_keep_the_others_away_for_ever(cluster: FakeKubernetes) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    for _ in range(30):
        assert await first.step(2)
        assert not await second.step(2)


async def test_a_dead_leader_is_replaced_after_the_lease_and_not_before(cluster: FakeKubernetes) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    await first.step()
    assert not await second.step()
    assert not await second.step(14.9)
    assert await second.step(0.2)
    assert holder(cluster) == "second"
    assert cluster.objects[PLACE]["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_is_cut_off_stops_acting_by_its_own_clock(cluster: FakeKubernetes) -> None:
    first = Candidate(cluster, "first")
    await first.step()
    first.clock.now += 9.9
    assert first.leadership.leading
    first.clock.now += 0.2
    assert not first.leadership.leading


async def test_a_failed_renewal_keeps_leading_until_the_deadline(
    cluster: FakeKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Candidate(cluster, "first")
    await first.step()

    async def fail(*_: object) -> None:
        msg = "no answer"
        raise ClusterError(msg)

    monkeypatch.setattr(cluster, "get", fail)
    monkeypatch.setattr(cluster, "replace", fail)
    assert await first.step(5)
    assert not await first.step(5.1)
    assert first.changes == [True, False]


async def test_a_lapse_is_reported_although_the_same_step_ends_it(cluster: FakeKubernetes) -> None:
    """Nothing was done meanwhile; only a reported loss and gain make the operator look at everything again."""
    first = Candidate(cluster, "first")
    await first.step()
    first.clock.now += 10.1
    assert not first.leadership.leading
    assert await first.step()
    assert first.changes == [True, False, True]


async def test_a_leader_that_was_replaced_knows_it_at_its_next_step(cluster: FakeKubernetes) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    await first.step()
    await second.step()
    assert await second.step(16)
    assert not await first.step(2)
    assert first.changes == [True, False]


async def test_two_that_take_over_at_once_do_not_both_win(cluster: FakeKubernetes) -> None:
    await Candidate(cluster, "dead").step()
    rivals = [Candidate(cluster, f"rival-{number}") for number in range(5)]
    for rival in rivals:
        await rival.step()
    won = [await rival.step(16) for rival in rivals]
    assert won.count(True) == 1


async def test_release_hands_over_at_once(cluster: FakeKubernetes) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    await first.step()
    await second.step()
    await first.leadership.release()
    assert not first.leadership.leading
    assert await second.step(0.1)


async def test_release_does_not_touch_another_ones_lease(cluster: FakeKubernetes) -> None:
    first, second = Candidate(cluster, "first"), Candidate(cluster, "second")
    await first.step()
    await second.step()
    await second.step(16)
    await first.leadership.release()
    assert holder(cluster) == "second"


def test_a_write_begun_as_leader_ends_before_another_may_lead() -> None:
    timing = Timing()
    assert timing.renew_deadline + CONNECT_SECONDS + WRITE_SECONDS < timing.lease
