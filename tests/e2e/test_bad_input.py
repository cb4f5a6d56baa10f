"""What cannot work is said within a minute, with reason and remedy; nothing is tried in a hurry, nothing is touched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from demo.environment import ClusterEnvironment
from demo.live_job import condition_of
from tests.e2e.conftest import MakeSite
from tests.support.job_site import JobSite
from tests.support.sasl_broker import PASSWORD, USER, SaslBroker

pytestmark = pytest.mark.timeout(400)

SECONDS = 60.0
SIDE_BY_SIDE = 3
RECORDS = 100


@dataclass(frozen=True)
class Bad:
    """A job that cannot work.

    :param reason: of the failure, the condition and the event.
    :param tells: what the message must contain, so that a person knows what to change.
    :param condition: the condition that is False beside Ready.
    :param spec: changes to a job that would work.
    :param code: content of the module ``code`` in the job's ConfigMap.
    :param fatal: whether a restart cannot help.
    """

    reason: str
    tells: tuple[str, ...]
    condition: str = "Ready"
    spec: dict[str, Any] = field(default_factory=dict)
    code: str = ""
    fatal: bool = False


def python(function: str) -> dict[str, Any]:
    return {"transform": {"python": {"function": function, "configMapRef": {"name": "code"}}}}


CASES = {
    "unreachable-broker": Bad(
        reason="KafkaUnreachable", tells=("spec.kafka.bootstrapServers",), condition="KafkaReachable",
        spec={"kafka": {"bootstrapServers": "UNREACHABLE"}},
    ),
    "missing-source-topic": Bad(
        reason="TopicNotFound", tells=("no-such-topic", "create the topic"), condition="KafkaReachable",
        spec={"source": {"topics": ["no-such-topic"]}},
    ),
    "wrong-password": Bad(
        reason="AuthenticationFailed", tells=("spec.kafka.authentication",), condition="KafkaReachable",
        spec={"kafka": {"bootstrapServers": "SASL", "authentication": {
            "type": "plain", "username": USER, "passwordFrom": {"secretKeyRef": {"name": "kafka", "key": "wrong"}},
        }}},
    ),
    "transaction-timeout-too-long": Bad(
        reason="TransactionTimeoutTooLong", tells=("spec.sink.transactionTimeoutSeconds", "at most 900"),
        condition="KafkaReachable", spec={"sink": {"transactionTimeoutSeconds": 901}}, fatal=True,
    ),
    "transform-does-not-import": Bad(
        reason="InvalidTransform", tells=("ModuleNotFoundError", "nowhere", "spec.transform"),
        spec=python("code:transform"), code="import nowhere\n", fatal=True,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sasl_broker(environment: ClusterEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    """A broker that asks for a password, reachable from pods."""
    with SaslBroker(tmp_path_factory.mktemp("sasl"), pods_host=environment.bootstrap_pods.rpartition(":")[0]) as broker:
        yield broker


@dataclass
class Started:
    site: JobSite
    at: float


class BadJobs:
    """Starts the table's jobs in its order, a few ahead of the one that is looked at.

    A person who made one mistake has one such job: all of them at once would measure how many drivers come up side
    by side on a machine of two cores, not when one mistake is told.
    """

    def __init__(self, make_site: MakeSite, sasl_broker: SaslBroker) -> None:
        self._make_site = make_site
        self._sasl_broker = sasl_broker
        self._started: dict[str, Started] = {}

    def started(self, name: str) -> Started:
        """The named job, which runs now, as the next ones do."""
        names = list(CASES)
        at = names.index(name)
        for one in names[at : at + SIDE_BY_SIDE]:
            if one not in self._started:
                self._started[one] = self._start(one)
        return self._started[name]

    def _start(self, name: str) -> Started:
        bad = CASES[name]
        site = self._make_site(name[:30])
        site.load(RECORDS)
        site.kubectl.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"code.py": bad.code}},
            {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kafka"},
                "stringData": {"right": PASSWORD, "wrong": "something else"},
            },
        )  # fmt: skip
        site.kubectl.apply(addressed(site.resource(**bad.spec), site, self._sasl_broker))
        return Started(site, time.monotonic())


@pytest.fixture(scope="module")
def bad_jobs(make_site: MakeSite, sasl_broker: SaslBroker) -> BadJobs:
    return BadJobs(make_site, sasl_broker)


def addressed(resource: dict[str, Any], site: JobSite, sasl_broker: SaslBroker) -> dict[str, Any]:
    """Puts real addresses in the place of the table's words."""
    kafka = resource["spec"]["kafka"]
    host = site.environment.bootstrap_pods.rpartition(":")[0]
    words = {"UNREACHABLE": f"{host}:9", "SASL": sasl_broker.bootstrap_pods}
    kafka["bootstrapServers"] = words.get(kafka["bootstrapServers"], kafka["bootstrapServers"])
    return resource


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_told_within_a_minute(name: str, bad_jobs: BadJobs) -> None:
    bad, started = CASES[name], bad_jobs.started(name)
    site, at = started.site, started.at
    status = site.job.wait(
        f"failed with {bad.reason}",
        lambda status: status.get("lastFailure", {}).get("reason") == bad.reason,
        seconds=max(1.0, SECONDS - (time.monotonic() - at)),
    )
    failure = f"{status['lastFailure']['message']}; {status['lastFailure']['remedy']}"
    for words in bad.tells:
        assert words in failure
    assert status["lastFailure"]["fatal"] is bad.fatal
    assert condition_of(status, "Ready")["status"] == "False"
    condition = condition_of(status, bad.condition)
    assert (condition["status"], condition["reason"]) == ("False", bad.reason), status["conditions"]
    for words in bad.tells:
        assert words in condition["message"]
    events = [one for one in site.job.events() if one["reason"] == bad.reason]
    assert events
    assert all(one["type"] == "Warning" for one in events)

    if bad.fatal:
        assert status["state"] == "Failed"
        assert "nextRetryTime" not in status["restarts"]
    else:
        # Initial backoff 1 s, doubled each time: by now a loop without backoff would have made many more attempts.
        assert status["restarts"]["total"] == status["restarts"]["consecutiveFailures"] <= 4
    assert site.committed_offsets() == {}
    assert site.topics.ends(site.sink) == dict.fromkeys(range(4), 0)
    site.job.delete(wait=False)


def test_right_credentials_work(make_site: MakeSite, sasl_broker: SaslBroker) -> None:
    """The counterpart of the wrong password: the same broker, the same Secret, the right key."""
    site = make_site("right-password")
    sasl_broker.create_topics(site.source, site.sink)
    site.kubectl.apply(
        {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kafka"}, "stringData": {"right": PASSWORD},
        }
    )  # fmt: skip
    authentication = {
        "type": "plain", "username": USER, "passwordFrom": {"secretKeyRef": {"name": "kafka", "key": "right"}},
    }  # fmt: skip
    site.apply(kafka={"bootstrapServers": sasl_broker.bootstrap_pods, "authentication": authentication})
    site.job.wait_ready(seconds=120)
    site.job.delete(wait=False)
