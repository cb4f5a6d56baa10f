"""State and kept checkpoints of an earlier time are put back, as a restored etcd does it: the group knows better."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.startup import StartupMode
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.protocol.attempt import SharedStore
from tests.support.protocol.moments import OF_A_CHECKPOINT, End, Moment
from tests.support.protocol.story import Story

Offsets = Mapping[TopicPartition, int]
Snapshot = tuple[str, dict[str, str], Offsets]


def snapshot(job: Story) -> Snapshot:
    """Both ConfigMaps as they are now."""
    return job.store.read().text or "", job.retained.read(), job.document.offsets


def roll_back(job: Story, to: Snapshot) -> None:
    job.store.write(to[0], expected=job.store.read().version)
    job.retained = MemoryRetainedStore(to[1])


def between(earlier: Offsets, later: Offsets) -> list[KafkaPartitionSplit]:
    return [KafkaPartitionSplit(each, earlier[each], end) for each, end in later.items()]


def commands_of(job: Story) -> list[dict[str, Any]]:
    """The specs that the remedy's commands merge into the resource."""
    assert job.failure is not None
    lines = [shlex.split(line) for line in job.failure.remedy.splitlines() if line.startswith("kubectl patch")]
    return [json.loads(words[words.index("-p") + 1])["spec"] for words in lines]


@pytest.mark.parametrize(
    ("delivery_guarantee", "aligned"),
    [
        (DeliveryGuarantee.EXACTLY_ONCE, True),
        (DeliveryGuarantee.EXACTLY_ONCE, False),
        (DeliveryGuarantee.AT_LEAST_ONCE, True),
    ],
)
def test_an_earlier_state_is_refused_until_a_person_accepts_it(
    job: Story, delivery_guarantee: DeliveryGuarantee, aligned: bool
) -> None:
    job.delivery_guarantee, job.aligned = delivery_guarantee, aligned
    job.run(2)
    earlier = snapshot(job)
    job.run(3)
    later = job.document.offsets
    roll_back(job, earlier)
    job.start(2)
    assert job.failure is not None, f"continues at {earlier[2]} although {later} is written"
    assert (job.failure.reason, job.failure.fatal) == ("StateRolledBack", True)
    assert job.store.read().text == earlier[0], "nothing is claimed"
    wanted = commands_of(job)[-1]
    job.restore = Restore(checkpoint=wanted["restore"]["checkpoint"], nonce=wanted["restore"]["nonce"])
    job.expect_again(between(earlier[2], later))
    job.run(1)
    assert job.failure is None
    assert job.document.checkpoint_id == 5 + 1 + 1, "no number stands for two checkpoints"
    job.run(1)
    assert job.failure is None, "it was accepted once and for all"
    job.finish()


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_the_groups_offsets_are_the_way_on_without_a_record_twice(job: Story, moment: Moment) -> None:
    job.start(2)
    job.checkpoint()
    earlier = snapshot(job)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    roll_back(job, earlier)
    job.start(2)
    assert job.failure is not None
    assert job.failure.reason == "StateRolledBack"
    assert commands_of(job)[0] == {"source": {"startup": {"mode": "GroupOffsets"}}}
    job.create_again(StartupMode.GROUP_OFFSETS)
    job.start(3)
    job.finish(3)


def test_an_emptied_state_is_no_first_start(job: Story) -> None:
    job.run(2)
    job.store, job.retained = SharedStore(), MemoryRetainedStore()
    job.start(2)
    assert job.failure is not None
    assert job.failure.reason == "StateRolledBack"
    assert job.store.read().text is None
    job.startup = StartupMode(commands_of(job)[0]["source"]["startup"]["mode"])
    job.start(2)
    assert job.failure is None
    job.finish()


def test_a_group_that_has_expired_proves_nothing(job: Story) -> None:
    job.run(2)
    earlier = snapshot(job)
    job.run(2)
    later = job.document.offsets
    roll_back(job, earlier)
    job.forget_group_offsets()
    job.expect_again(between(earlier[2], later))
    job.start(2)
    assert job.failure is None
    job.finish()


def test_open_transactions_do_not_delay_the_refusal(job: Story) -> None:
    """They hold offsets of the group, and only what recovery does afterwards ends them."""
    job.start(2)
    job.checkpoint()
    earlier = snapshot(job)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
    assert job.open_transactions()
    newest = job.store.read().text or ""
    roll_back(job, earlier)
    job.start(2)
    assert job.failure is not None
    assert job.failure.reason == "StateRolledBack"
    job.store.write(newest, expected=job.store.read().version)
    job.finish()
