"""A throw-away broker with SASL/PLAIN and ACLs: ``admin`` may do everything, ``job`` what a test grants."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from localcluster.kafka.broker import Broker
from sparkapp.clients.deadline import Deadline
from tests.support.kafka.topics import create_topics

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


class Right(NamedTuple):
    """One of the user ``job``; a prefixed one is for all names that begin so."""

    kind: ResourceType
    name: str
    operation: AclOperation
    prefixed: bool = False


def rights_of_job(prefix: str) -> list[Right]:
    """What a job needs whose topics, group and transactional ids begin with ``prefix``."""
    operations = {
        ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE),
        ResourceType.GROUP: (AclOperation.READ,),
        ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
    }
    return [
        Right(kind, prefix, operation, prefixed=True) for kind, listed in operations.items() for operation in listed
    ]


@contextmanager
def secured_broker(folder: Path, *rights: Right, topics: Sequence[str] = ()) -> Iterator[Broker]:
    """The broker, running, with these topics of one partition; its passwords are ``a`` for admin and ``j`` for job."""
    with Broker.ephemeral(folder, overrides=_OVERRIDES) as broker:
        create_topics(broker.bootstrap, *(NewTopic(topic, 1, 1) for topic in topics), **login("admin", "a"))
        grant(broker.bootstrap, *rights)
        yield broker


def grant(bootstrap: str, *rights: Right, admin: Mapping[str, str] | None = None, principal: str = "User:job") -> None:
    """Gives a user these rights, by default ``job``; waits until the broker knows of what the controller has.

    :param admin: properties of an administrator; by default those of ``admin`` here.
    """
    if not rights:
        return
    client = AdminClient({"bootstrap.servers": bootstrap, **(login("admin", "a") if admin is None else admin)})
    wanted = {_binding(right, principal) for right in rights}
    for granted in client.create_acls(list(wanted)).values():
        granted.result(30)
    deadline = Deadline.after(20)
    while not wanted <= set(client.describe_acls(_every_right(principal)).result(20)):
        assert not deadline.expired, "the broker does not learn of its ACLs"
        time.sleep(deadline.bound(0.05))


def _every_right(principal: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, principal, None, AclOperation.ANY, AclPermissionType.ANY
    )


def revoke(bootstrap: str, right: Right, *, admin: Mapping[str, str]) -> None:
    """Takes a right of the user ``job`` away; waits until the broker knows."""
    client = AdminClient({"bootstrap.servers": bootstrap, **admin})
    binding = _binding(right, "User:job")
    each = AclBindingFilter(
        binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
        binding.operation, binding.permission_type,
    )  # fmt: skip
    for revoked in client.delete_acls([each]).values():
        assert list(revoked.result(30)) == [binding]
    deadline = Deadline.after(20)
    while binding in client.describe_acls(_every_right("User:job")).result(20):
        assert not deadline.expired, "the broker does not learn that a right is gone"
        time.sleep(deadline.bound(0.05))


def _binding(right: Right, principal: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL
    return AclBinding(right.kind, right.name, pattern, principal, "*", right.operation, AclPermissionType.ALLOW)


def login(user: str, password: str) -> dict[str, str]:
    """A client's settings to log in."""
    return {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": user,
        "sasl.password": password,
    }  # fmt: skip
