"""A state ConfigMap that is foreign, truncated or garbage stops the job; it never starts from nothing."""

from __future__ import annotations

import json

import pytest

from demo.live_job import condition_of
from sparkapp.model import names
from tests.e2e.conftest import MakeSite
from tests.support.job_site import NAME, JobSite

pytestmark = pytest.mark.timeout(400)

RECORDS = 5_000
STATE = names.state_config_map(NAME)


@pytest.fixture(scope="module")
def suspended(make_site: MakeSite) -> JobSite:
    """A job with a checkpoint, at rest."""
    site = make_site("state")
    site.load(RECORDS)
    site.apply()
    site.job.wait_read(RECORDS, seconds=180)
    suspend(site)
    return site


def suspend(site: JobSite) -> None:
    site.change(suspend=True)
    site.job.wait("Suspended", lambda status: status.get("state") == "Suspended", seconds=90)


def write(site: JobSite, text: str) -> None:
    site.kubectl.patch("configmap", STATE, {"data": {names.CHECKPOINT_KEY: text}})


def truncated(text: str) -> str:
    return text[: len(text) // 2]


def garbage(_: str) -> str:
    return "\u0000not a document\uffff"


def emptied(_: str) -> str:
    return ""


def of_another_job(text: str) -> str:
    return json.dumps({**json.loads(text), "jobUid": "00000000-0000-0000-0000-000000000000"})


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (truncated, "StateCorrupt"), (garbage, "StateCorrupt"), (emptied, "StateCorrupt"),
        (of_another_job, "StateForeign"),
    ],
)  # fmt: skip
def test_spoilt_state_stops_the_job_and_restored_state_lets_it_go_on(
    suspended: JobSite, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    site, before = suspended, suspended.job.attempt
    good = site.state_text()
    assert good is not None
    offsets = site.committed_offsets()
    bad = spoil(good)
    write(site, bad)
    site.change(suspend=False)
    status = site.job.wait(
        f"StateValid is False with {reason}",
        lambda status: condition_of(status, "StateValid").get("reason") == reason,
        seconds=60,
    )
    condition = condition_of(status, "StateValid")
    assert condition["status"] == "False"
    assert condition_of(status, "Ready")["status"] == "False"
    assert condition["message"]
    assert any(one["reason"] == reason and one["type"] == "Warning" for one in site.job.events())
    assert site.state_text() == bad, "nobody writes into a state that nobody understands"
    assert site.committed_offsets() == offsets
    assert site.job.attempt <= before + 1, "no crash loop"

    write(site, good)
    suspend(site)
    assert condition_of(site.job.status, "Ready")["status"] == "False"


def test_restored_state_goes_on_exactly_once(suspended: JobSite) -> None:
    records = suspended.load(RECORDS)
    suspended.change(suspend=False)
    suspended.job.wait_ready(attempt_above=suspended.job.attempt, seconds=120)
    suspended.assert_exactly_once(records, seconds=90)
    suspended.job.delete(wait=False)


def test_a_state_config_map_of_somebody_else_is_not_taken_over(make_site: MakeSite) -> None:
    site = make_site("foreign")
    site.load(RECORDS)
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATE}, "data": {"theirs": "precious"}}
    site.kubectl.apply(theirs)
    site.apply()
    status = site.job.wait(
        "StateForeign", lambda status: condition_of(status, "StateValid").get("status") == "False", seconds=60
    )
    assert condition_of(status, "StateValid")["reason"] == "StateForeign"
    assert any(one["reason"] == "StateForeign" for one in site.job.events())
    found = site.kubectl.get("configmap", STATE)
    assert found is not None
    assert found["data"] == {"theirs": "precious"}
    assert site.job.pods(names.ROLE_DRIVER) == []
    assert site.topics.ends(site.sink) == dict.fromkeys(range(4), 0)
    site.job.delete(wait=False)
