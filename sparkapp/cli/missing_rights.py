"""Errors of commands that lack a right: each names the right, and the command that grants it."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sparkapp.cli.target import Target
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription
from sparkapp.model.errors import AuthorizationFailed, CommandRefused
from sparkapp.model.errors.listed import listed
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.proven_ends import EndingClient, Logs


def missing_right(target: Target, operation: str, what: str, error: AuthorizationFailed) -> CommandRefused:
    """The error for a missing ACL, with the command that grants it.

    :param what: a prefix, or an id with a prefix.
    """
    prefix = next((known for known in target.prefixes if what.startswith(known)), what)
    return CommandRefused(
        f"the user lacks {operation} on the transactional ids of {prefix}: {error.message}",
        remedy=_grant(target, operation, f"--transactional-id {prefix} --resource-pattern-type prefixed"),
    )


def missing_right_on(target: Target, operation: str, kind: str, names: Sequence[str], why: str) -> CommandRefused:
    """:func:`missing_right` on topics or groups.

    :param kind: ``topic`` or ``group``. :param why: what is not known or not done without the right.
    """
    return CommandRefused(
        f"the user lacks {operation} on the {kind}{'s' * (len(names) > 1)} {listed(names)}: {why}",
        remedy=_grant(target, operation, " ".join(f"--{kind} {shlex.quote(name)}" for name in names)),
    )


def _grant(target: Target, operation: str, resource: str) -> str:
    user = target.config.get("sasl.username") or getpass.getuser()
    return (
        f"kafka-acls --bootstrap-server {target.config['bootstrap.servers']} --add --allow-principal User:{user}"
        f" --operation {operation.title()} {resource}"
    )


@dataclass(frozen=True, slots=True)
class OutspokenClient:
    """The client, where a missing right ends the command; ``ProvenEnds`` would try again."""

    client: EndingClient
    target: Target

    @property
    def logs(self) -> Logs:
        return self.client.logs

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        return self.client.describe(transactional_ids, deadline=deadline)

    def fence_all(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, tuple[int, int]]:
        ids = list(transactional_ids)
        with self._naming_the_right(ids[0], (), ""):
            return self.client.fence_all(ids, deadline=deadline)

    def end_again(
        self, end: EndTxn, partitions: Collection[TopicPartition], *, group_id: str = "", deadline: Deadline
    ) -> None:
        with self._naming_the_right(end.transactional_id, partitions, group_id):
            self.client.end_again(end, partitions, group_id=group_id, deadline=deadline)

    @contextmanager
    def _naming_the_right(
        self, transactional_id: str, partitions: Collection[TopicPartition], group_id: str
    ) -> Iterator[None]:
        try:
            yield
        except AuthorizationFailed as error:
            if "TOPIC_AUTHORIZATION" in error.message:
                topics = sorted({each.topic for each in partitions})
                raise missing_right_on(self.target, "WRITE", "topic", topics, error.message) from error
            if "GROUP_AUTHORIZATION" in error.message:
                raise missing_right_on(self.target, "READ", "group", [group_id], error.message) from error
            raise missing_right(self.target, "WRITE", transactional_id, error) from error
