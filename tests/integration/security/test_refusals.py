"""A connection that cannot be: the driver's check and the wire name the reason within a minute, without a secret."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from localcluster.machine.ports import free_ports
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.errors import AuthenticationFailed, KafkaSparkJobError, TlsFailed
from tests.support.kafka.tls.broker import PASSWORD, USER, TlsBroker
from tests.support.kafka.tls.certificates import CertificateAuthority
from tests.support.kafka.tls.recorded_network import RecordedNetwork

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

WRONG = "hunter2-wrong"
SECONDS = 60.0


class Refusal(NamedTuple):
    """A configuration that must fail, the reason, and what the message says."""

    config: Callable[[TlsBroker, Path], dict[str, str]]
    kind: type[KafkaSparkJobError]
    says: str


def another(folder: Path) -> CertificateAuthority:
    """An authority that nobody trusts."""
    return CertificateAuthority(folder, name="another authority")


REFUSALS = {
    "wrong authority": Refusal(
        lambda broker, folder: broker.config("tls", authority=another(folder).certificate),
        TlsFailed, "unable to get local issuer certificate",
    ),
    "authorities of the image": Refusal(
        lambda broker, _: {name: value for name, value in broker.config("tls").items() if name != "ssl.ca.pem"},
        TlsFailed, "unable to get local issuer certificate",
    ),
    "wrong host name": Refusal(
        lambda broker, _: broker.config("tls", listener="otherhost"), TlsFailed, "not valid for '127.0.0.1'"
    ),
    "expired certificate": Refusal(
        lambda broker, _: broker.config("tls", listener="expired"), TlsFailed, "certificate has expired"
    ),
    "a listener without TLS": Refusal(
        lambda broker, _: broker.config("tls", listener="plain"), TlsFailed, "does not speak TLS"
    ),
    "a password for a listener without TLS": Refusal(
        lambda broker, _: broker.config("scram-sha-512", listener="insecure"), TlsFailed, "does not speak TLS"
    ),
    "no TLS for a listener with TLS": Refusal(
        lambda broker, _: broker.config("plain", listener="sasl", tls=False), TlsFailed, "wants TLS"
    ),
    "no client certificate": Refusal(
        lambda broker, _: broker.config("tls", listener="mtls"), TlsFailed, "ALERT_BAD_CERTIFICATE"
    ),
    "a client certificate of another authority": Refusal(
        lambda broker, folder: broker.config("mtls", user=another(folder).issue(USER)),
        TlsFailed, "ALERT_CERTIFICATE_UNKNOWN",
    ),
    "an expired client certificate": Refusal(
        lambda broker, _: broker.config("mtls", user=broker.authority.issue("late", lifetime=timedelta(hours=-1))),
        TlsFailed, "ALERT_CERTIFICATE_UNKNOWN",
    ),
    "a wrong password, PLAIN": Refusal(
        lambda broker, _: broker.config("plain", password=WRONG), AuthenticationFailed, "Invalid username or password"
    ),
    "a wrong password, SCRAM-SHA-256": Refusal(
        lambda broker, _: broker.config("scram-sha-256", password=WRONG), AuthenticationFailed, "invalid credentials"
    ),
    "a wrong password, SCRAM-SHA-512": Refusal(
        lambda broker, _: broker.config("scram-sha-512", password=WRONG), AuthenticationFailed, "invalid credentials"
    ),
    "a wrong client secret": Refusal(
        lambda broker, _: broker.config("oauth", password=WRONG), AuthenticationFailed, "the server answered 401"
    ),
    "an expired token": Refusal(
        lambda broker, _: broker.config("oauth-file", token=broker.issuer.token(USER, lifetime=-5)),
        AuthenticationFailed, "expired",
    ),
    "a token for somebody else": Refusal(
        lambda broker, _: broker.config("oauth-file", token=broker.issuer.token(USER, audience="other")),
        AuthenticationFailed, "invalid_token",
    ),
}  # fmt: skip


class Answer(NamedTuple):
    """How a question was refused, and after how many seconds. The error itself would keep its clients."""

    kind: type[KafkaSparkJobError]
    message: str
    remedy: str
    seconds: float


def answer_to(ask: Callable[[], object]) -> Answer:
    began = time.monotonic()
    with pytest.raises(KafkaSparkJobError) as refused:
        ask()
    error = refused.value
    return Answer(type(error), error.message, error.remedy, time.monotonic() - began)


def answers(config: dict[str, str]) -> tuple[Answer, Answer]:
    """To the driver's check, and to the wire."""

    def topics() -> object:
        return KafkaClusterView({**config, "group.id": "mine"}, read_committed=True, timeout=10.0).topics()

    with closing(TransactionClient(config, timeout=10.0)) as client:
        return answer_to(topics), answer_to(lambda: client.describe(["mine-0"]))


@pytest.fixture(scope="module")
def refused(
    tls_broker: TlsBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[tuple[Answer, Answer]]]]:
    """The answers in every case. A few are asked together, because they wait most of the time."""
    configs = {
        case: refusal.config(tls_broker, tmp_path_factory.mktemp("refusal")) for case, refusal in REFUSALS.items()
    }
    with ThreadPoolExecutor(4) as pool:
        yield {case: pool.submit(answers, config) for case, config in configs.items()}


@pytest.mark.parametrize("case", REFUSALS)
def test_the_reason_is_named_within_a_minute(case: str, refused: dict[str, Future[tuple[Answer, Answer]]]) -> None:
    refusal = REFUSALS[case]
    for answer in refused[case].result():
        assert issubclass(answer.kind, refusal.kind)
        assert answer.seconds < SECONDS
        assert refusal.says.lower() in answer.message.lower()
        assert answer.remedy
        assert WRONG not in f"{answer.message} {answer.remedy}"
        assert PASSWORD not in f"{answer.message} {answer.remedy}"


@pytest.fixture
def listened(tls_broker: TlsBroker) -> Iterator[Callable[[str], RecordedNetwork]]:
    """``listened("sasl")``: the way to a listener, on which every byte is recorded."""
    networks = []

    def open_network(listener: str) -> RecordedNetwork:
        (port,) = free_ports(1)
        networks.append(RecordedNetwork(("127.0.0.1", tls_broker.ports[listener]), port=port))
        return networks[-1]

    yield open_network
    for network in networks:
        network.close()


@pytest.mark.parametrize("authentication", ["plain", "scram-sha-256", "scram-sha-512", "oauth-file"])
def test_no_secret_is_on_the_wire(
    authentication: str, tls_broker: TlsBroker, listened: Callable[[str], RecordedNetwork]
) -> None:
    token = tls_broker.issuer.token(USER)
    network = listened("sasl")
    config = {**tls_broker.config(authentication, token=token), "bootstrap.servers": network.address}
    connect(config)
    assert len(network.sent) > 200, "the clients logged in on this way"
    for secret in (PASSWORD, token):
        assert secret.encode() not in network.sent


@pytest.mark.parametrize(("authentication", "shown"), [("plain", True), ("scram-sha-512", False), ("oauth-file", True)])
def test_without_tls_a_listener_reads_what_the_documentation_says(
    authentication: str, shown: bool, tls_broker: TlsBroker, listened: Callable[[str], RecordedNetwork]
) -> None:
    """It also proves that the recording would show a secret."""
    token = tls_broker.issuer.token(USER)
    network = listened("insecure")
    config = tls_broker.config(authentication, listener="insecure", tls=False, token=token)
    connect({**config, "bootstrap.servers": network.address})
    assert shown == any(secret.encode() in network.sent for secret in (PASSWORD, token))


def connect(config: dict[str, str]) -> None:
    """Logs in with both libraries."""
    view = KafkaClusterView({**config, "group.id": "mine"}, read_committed=True)
    assert "mine" in view.topics()
    view.close()
    client = TransactionClient(config, timeout=20.0)
    client.describe(["mine-0"])
    client.close()
