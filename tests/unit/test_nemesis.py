"""The soak's nemesis: what a seed stands for, and how stories wait for the outage of their round."""

from __future__ import annotations

import threading

from sparkapp.clients.transactions.probes import partition_of
from tests.soak.nemesis.meeting import Meeting, Seat
from tests.soak.nemesis.plan import ROUNDS, STORIES, Struck, ground_of, outage_of, plan_of, round_of

SEEDS = range(8 * ROUNDS * STORIES)
SECONDS = 60


def test_a_seed_is_always_the_same_story() -> None:
    assert [plan_of(seed) for seed in SEEDS[:50]] == [plan_of(seed) for seed in SEEDS[:50]]


def test_copies_are_on_brokers_that_exist_and_each_on_another() -> None:
    for seed in SEEDS:
        plan, nodes = plan_of(seed), set(ground_of(round_of(seed)).nodes)
        for copies in (plan.group, *plan.sink, *plan.source, *plan.letters):
            assert set(copies) <= nodes, plan
            assert len(set(copies)) == len(copies), plan


def test_every_outage_takes_what_some_of_its_stories_need() -> None:
    for seed in SEEDS:
        plan, gone = plan_of(seed), set(outage_of(round_of(seed)).nodes)
        lost = [copies for copies in (plan.group, *plan.sink, *plan.source, *plan.letters) if set(copies) <= gone]
        covered = set(ground_of(round_of(seed)).groups[-1]) <= gone
        assert lost or not covered, plan


def test_coordinators_are_struck_where_the_ground_says_so() -> None:
    for number in range(8 * ROUNDS):
        ground, gone = ground_of(number), set(outage_of(number).nodes)
        covered = [copies for copies in ground.layout.transactions if set(copies) <= gone]
        if ground.struck is Struck.ALL or gone == set(ground.nodes):
            assert covered == list(ground.layout.transactions)
        elif ground.struck is Struck.LEADERS:
            assert not covered


def test_a_storys_name_puts_its_group_where_the_plan_wants_it() -> None:
    for seed in SEEDS[::7]:
        plan, groups = plan_of(seed), ground_of(round_of(seed)).groups
        assert groups[partition_of(plan.prefix("run"), len(groups))] == plan.group


def test_a_meeting_waits_for_every_story_that_may_still_come() -> None:
    meeting = Meeting(3)
    comes, leaves, late = (Seat(meeting) for _ in range(3))
    arrived = threading.Thread(target=comes.arrive)
    arrived.start()
    assert meeting.await_all(0.05) <= 1
    leaves.give_up()
    leaves.give_up()
    last = threading.Thread(target=late.arrive)
    last.start()
    assert meeting.await_all(SECONDS) == 2
    meeting.release()
    arrived.join(SECONDS)
    last.join(SECONDS)
    assert not arrived.is_alive()
    assert not last.is_alive()
    late.arrive()
    meeting.end()
    late.await_end(SECONDS)
