"""The source on the cluster: a bounded job that finishes, topics and partitions that appear, and a way back in time."""

from __future__ import annotations

import pytest

from demo.live_job import KIND
from sparkapp.model import names
from sparkapp.model.retained_codec import decode_retained
from tests.e2e.conftest import MakeSite
from tests.support.job_site import NAME

pytestmark = pytest.mark.timeout(400)

BATCH = 3_000


def test_a_bounded_job_finishes_at_the_ends_of_its_start(make_site: MakeSite) -> None:
    site = make_site("bounded")
    site.load(BATCH)
    site.apply(source={"stopping": {"mode": "LATEST"}})
    site.kubectl.run("wait", "--for=condition=Finished", f"{KIND}/{NAME}", "--timeout=180s", seconds=190)
    status = site.job.status
    assert (status["state"], status["attempt"]["outcome"]) == ("Finished", "Finished")
    assert site.job.pods(names.ROLE_EXECUTOR) == []
    verdict = site.judge()
    assert verdict.exactly_once, verdict.explain()
    assert verdict.records_out == BATCH
    site.assert_nothing_open()

    site.load(BATCH)
    site.change(source={"stopping": {"mode": "UNBOUNDED"}})
    site.job.wait_ready(attempt_above=1, seconds=120)
    site.assert_exactly_once(2 * BATCH, seconds=60)


def test_partitions_and_topics_that_appear_are_read_from_their_beginning(make_site: MakeSite) -> None:
    site = make_site("growth")
    records = site.load(BATCH)
    pattern = site.source.replace(".", "[.]") + ".*"
    site.apply(source={"topics": None, "topicPattern": pattern, "discoveryIntervalSeconds": 1})
    site.job.wait_ready(seconds=180)
    site.assert_exactly_once(records, seconds=60)
    site.grow(7)
    records = site.load(BATCH)
    site.job.wait(
        "seven partitions are known", lambda status: status.get("source", {}).get("partitions") == 7, seconds=60
    )
    site.assert_exactly_once(records, seconds=90)

    second = f"{site.source}.more"
    site.topics.recreate([second], partitions=2)
    try:
        site.load(BATCH, topic=second)
        site.job.wait(
            "nine partitions are known", lambda status: status.get("source", {}).get("partitions") == 9, seconds=60
        )
        site.job.wait_read(records + BATCH, seconds=90)
        verdict = site.judge(also=[second])
        assert verdict.exactly_once, verdict.explain()
        assert verdict.records_out == records + BATCH
        site.job.delete(wait=False)
    finally:
        site.topics.delete([second])


def test_a_job_goes_back_to_a_named_earlier_checkpoint(make_site: MakeSite) -> None:
    """What it names is written once more, and nothing else: also where the driver is killed on the way."""
    site = make_site("restore")
    site.load(BATCH)
    site.apply(checkpoint={"retention": {"intervalSeconds": 1, "count": 50}})
    site.job.wait_ready(seconds=180)
    site.assert_exactly_once(BATCH, seconds=60)
    site.load(BATCH)
    site.assert_exactly_once(2 * BATCH, seconds=60)

    kept = (site.kubectl.get("configmap", names.checkpoints_config_map(NAME)) or {})["data"]
    named = decode_retained(
        min(kept.items())[1], key=min(kept), job_uid=site.kubectl.get(KIND, NAME)["metadata"]["uid"]
    )
    again = 2 * BATCH - sum(named.offsets.values())
    assert again >= BATCH
    site.change(restoreFrom={"checkpoint": named.checkpoint_id}, redeployNonce=1)
    site.job.wait_ready(attempt_above=1, seconds=120)
    site.job.kill_driver()
    site.job.wait_ready(attempt_above=2, seconds=120)
    (event,) = [one for one in site.job.events() if one["reason"] == "RestoredFromCheckpoint"]
    assert str(named.checkpoint_id) in event["message"]
    records = site.load(BATCH)
    site.job.wait_read(records + again, seconds=120)
    verdict = site.judge()
    assert (verdict.lost, verdict.duplicates, verdict.wrong) == (0, again, 0), verdict.explain()
    site.assert_nothing_open()
