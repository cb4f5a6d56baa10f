"""A throw-away broker with SASL/PLAIN and ACLs: ``admin`` may do everything, ``job`` what a test grants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localcluster.kafka import Broker

_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_OVERRIDES = {
    "listener.security.protocol.map": "HOST:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.host.plain.sasl.jaas.config": (
        f'{_LOGIN} username="admin" password="a" user_admin="a" user_job="j";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}


@contextmanager
def secured_broker(folder: Path) -> Iterator[Broker]:
    """The broker, running; its passwords are ``a`` for admin and ``j`` for job."""
    with Broker.ephemeral(folder, overrides=_OVERRIDES) as broker:
        yield broker


def login(user: str, password: str) -> dict[str, str]:
    """A client's settings to log in."""
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user,
        "sasl.password": password,
    }  # fmt: skip
