"""Brokers end sessions (``connections.max.reauth.ms``), and tokens expire: clients that are open continue to work."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.partition import TopicPartition
from tests.support.kafka.tls.broker import USER, TlsBroker
from tests.support.kafka.tls.token_server import TokenServer
from tests.support.native.batch_path import BatchPath, split, values_of

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

LIFETIME = 20.0
"""Of a token: several sessions, so that no session is as short as the end of a token."""
PARTITION = TopicPartition("mine", 0)
SECONDS = 30.0


@pytest.fixture
def tokens(tls_broker: TlsBroker) -> Iterator[TokenServer]:
    """The authorization server, whose tokens expire soon."""
    assert tls_broker.tokens is not None
    before, tls_broker.tokens.lifetime = tls_broker.tokens.lifetime, LIFETIME
    yield tls_broker.tokens
    tls_broker.tokens.lifetime = before


class Clients:
    """A producer, a consumer, the wire of transactions and the driver's view, open all the time."""

    def __init__(self, broker: TlsBroker, authentication: str, path: str) -> None:
        self._broker = broker
        self._cluster = broker.cluster(authentication, listener="reauth")
        self._mounts = broker.mounted(self._cluster, token=self._token())
        security = broker.security(self._cluster, root=self._mounts, token=self._token())
        named = {name.replace(".", "_"): value for name, value in security.items()}
        self._opened = BatchPath(path, self._cluster.bootstrap_servers)
        self._producer = self._opened.producer(**named)
        self._consumer = self._opened.consumer(**named, group_id="mine")
        config = {"bootstrap.servers": self._cluster.bootstrap_servers, **security}
        self._transactions = TransactionClient(config, timeout=SECONDS)
        self._view = KafkaClusterView({**config, "group.id": "mine"}, read_committed=True)
        self._name = f"{authentication}-{path}"

    def _token(self) -> str:
        return self._broker.issuer.token(USER, lifetime=LIFETIME)

    def work(self, number: int) -> None:
        """A request of each; the kubelet has written another token by then."""
        self._broker.mounted(self._cluster, root=self._mounts, token=self._token())
        start = self._view.latest([PARTITION])[PARTITION]
        text = f"{self._name}-{number}"
        self._producer.produce(pa.record_batch({"value": pa.array([text])}), topic="mine")
        assert self._producer.flush(SECONDS) == 1
        stop = self._view.latest([PARTITION])[PARTITION]
        assert text in values_of(self._consumer.read([split("mine", start, stop)], stall_timeout=SECONDS))
        self._transactions.list_all()

    def close(self) -> None:
        self._transactions.close()
        self._view.close()
        self._opened.close()


def test_clients_work_beyond_the_end_of_their_sessions(tls_broker: TlsBroker, tokens: TokenServer) -> None:
    """``oauth-file`` is a service account token, too: a file that the kubelet writes again."""
    every = [
        Clients(tls_broker, authentication, path)
        for authentication in ("oauth", "oauth-file", "scram-sha-512")
        for path in ("native", "plain")
    ]
    asked = len(tokens.forms)
    end = time.monotonic() + LIFETIME + 5
    number = 0
    while time.monotonic() < end:
        number += 1
        for clients in every:
            clients.work(number)
        time.sleep(0.2)
    assert len(tokens.forms) >= asked + 6, "librdkafka's three clients of each path fetch another token"
    for clients in every:
        clients.close()
