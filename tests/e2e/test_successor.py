"""Attempts that come up beside the one that runs: no record is lost or twice, and nobody waits for a start."""

from __future__ import annotations

import pytest

from sparkapp.model import names
from tests.e2e.conftest import MakeSite
from tests.support.job_site import NAME, JobSite

pytestmark = pytest.mark.timeout(400)

BATCH = 5_000


@pytest.fixture(scope="module")
def site(make_site: MakeSite) -> JobSite:
    """A job with an attempt that stands by."""
    site = make_site("successor")
    site.load(BATCH)
    site.apply(restartPolicy={"successor": "Standby"})
    site.job.wait_ready(seconds=180)
    return site


def test_the_standby_takes_the_place_of_a_frozen_driver_which_is_harmless_when_it_thaws(site: JobSite) -> None:
    before = site.job.attempt
    site.await_prepared(before + 1, seconds=120)
    standby = site.kubectl.get("pod", names.driver_pod(NAME, before + 1))
    assert standby is not None
    frozen = site.job.freeze_driver()
    site.load(BATCH)
    status = site.job.wait_ready(attempt_above=before, seconds=120)
    assert status["lastFailure"]["reason"] == "HeartbeatTimeout"
    # Its pod has half a minute of grace left: it wakes up beside its successor, and is asked to drain.
    site.job.thaw(frozen)
    site.assert_exactly_once(site.load(BATCH), seconds=60)
    driver = site.kubectl.get("pod", names.driver_pod(NAME, site.job.attempt))
    assert driver is not None
    assert driver["metadata"]["uid"] == standby["metadata"]["uid"], "the one that stood by, not a new one"


def test_a_rescale_goes_to_an_attempt_that_is_prepared(site: JobSite) -> None:
    before = site.job.attempt
    site.job.rescale(3)
    site.job.wait_ready(attempt_above=before, seconds=180)
    assert site.job.status["parallelism"] == 3
    records = site.load(BATCH)
    site.assert_exactly_once(records, seconds=60)
    reasons = {one["reason"] for one in site.job.events()}
    assert {"SuccessorStarted", "RescaleStarted", "TurnGiven", "Rescaled"} <= reasons


def test_a_job_that_is_suspended_keeps_nobody(site: JobSite) -> None:
    site.change(suspend=True)
    site.job.wait("Suspended", lambda status: status.get("state") == "Suspended", seconds=90)
    site.job.wait_pods("no pod is left", lambda pods: not pods, seconds=60)
    site.assert_nothing_open()
