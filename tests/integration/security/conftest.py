"""One broker with every kind of listener, and the user ``job`` with rights on names that begin with ``mine``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, NewTopic, ResourceType

from tests.support.kafka.secured_broker import Right, grant
from tests.support.kafka.tls.broker import PASSWORD, USER, TlsBroker
from tests.support.kafka.tls.token_server import token_server
from tests.support.kafka.topics import create_topics

MINE = tuple(
    Right(kind, "mine", operation, prefixed=True)
    for kind, operation in (
        (ResourceType.TOPIC, AclOperation.READ),
        (ResourceType.TOPIC, AclOperation.WRITE),
        (ResourceType.GROUP, AclOperation.READ),
        (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
    )
)


@pytest.fixture(scope="session")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("tls"))
    tokens = broker.authority.issue("tokens", "127.0.0.1")
    with broker, token_server(broker.issuer, {USER: PASSWORD}, certificate=tokens) as server:
        broker.tokens = server
        create_topics(broker.bootstrap, NewTopic("mine", 1, 1), NewTopic("theirs", 1, 1))
        grant(broker.bootstrap, *MINE, admin={})
        yield broker
        broker.broker.kill()  # a clean stop takes seconds of CPU
