"""What is open on the brokers, with everything that a person wants to know of it in one row."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkapp.model.errors import AuthorizationFailed, CommandRefused
from sparkapp.model.id_owner import committable_of, owner_of
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.transactions import TransactionDescription
from sparkapp.tools.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A transactional id that a coordinator knows."""

    transactional_id: str
    description: TransactionDescription
    coordinator: str


class OpenTransactions:
    """The questions of the ``txn`` commands; each asks the brokers anew.

    :param now: wall clock in seconds since 1970.
    """

    def __init__(self, client: TransactionClient, target: Target, *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._target = target
        self._now = now

    def unfinished(self) -> list[Found]:
        """Open transactions, and ending ones, of the target's prefixes, or of the cluster.

        :raises CommandRefused: none is visible, because the user may not see them.
        """
        prefixes = self._target.prefixes
        rows = (
            [row for prefix in prefixes for row in self._client.list_transactions(prefix)]
            if prefixes
            else self._client.list_all()
        )
        if not rows:
            for prefix in prefixes:
                self._require_describe(prefix)
        ids = [row.transactional_id for row in rows if row.state.open or row.state.ending]
        # What ended since it was listed is of no interest any more.
        return [one for one in self._described(ids) if one.description.state.open or one.description.state.ending]

    def one(self, transactional_id: str) -> Found:
        """What the coordinator knows of an id.

        :raises CommandRefused: it does not know the id, or the user may not ask.
        """
        found = self._described([transactional_id])
        if not found:
            msg = f"no coordinator knows {transactional_id}: it was never used, or it has expired"
            raise CommandRefused(msg, remedy="sparkapp txn list shows the ids that are open")
        return found[0]

    def row(self, found: Found) -> dict[str, object]:
        """A found id as one row of an answer."""
        description, document = found.description, self._target.document
        owner = document and owner_of(found.transactional_id, document, pool_size=self._target.pool_size)
        return {
            "transactionalId": found.transactional_id,
            "state": description.state.value,
            "producerId": description.producer_id,
            "epoch": description.producer_epoch,
            "coordinator": found.coordinator,
            "ageSeconds": self._age(description),
            "partitions": ", ".join(str(one) for one in sorted(description.partitions)),
            "subtask": owner.subtask if owner else None,
            "slot": owner.slot if owner else None,
            "belongsTo": owner.life if owner else None,
        }

    def is_final(self, found: Found) -> bool:
        """Whether the checkpoint document names exactly this transaction: it will be committed, by triple."""
        document = self._target.document
        named = committable_of(found.transactional_id, document) if document is not None else None
        return (
            named is not None
            and (named.producer_id, named.producer_epoch)
            == (found.description.producer_id, found.description.producer_epoch)
            # Else it is a later one of the same producer, and the document an older one.
            and named.start_time_ms in {0, found.description.start_time_ms}
        )

    def _described(self, ids: Sequence[str]) -> list[Found]:
        if not ids:
            return []
        try:
            known = self._client.describe(ids)
            nodes = self._client.coordinators(known)
        except AuthorizationFailed as error:
            raise missing_right(self._target, "DESCRIBE", ids[0], error) from error
        return [
            Found(transactional_id=one, description=known[one], coordinator=nodes[one]) for one in ids if one in known
        ]

    def _require_describe(self, prefix: str) -> None:
        """Kafka lists what the user may see and is silent about the rest; asked for one id, it says so."""
        try:
            self._client.describe([f"{prefix}-0"])
        except AuthorizationFailed as error:
            raise missing_right(self._target, "DESCRIBE", prefix, error) from error

    def _age(self, description: TransactionDescription) -> int | None:
        start = description.start_time_ms
        if start < 0 or not (description.state.open or description.state.ending):
            return None  # of what has ended, the coordinator still tells when it began
        return max(0, round(self._now() - start / 1000))


def missing_right(target: Target, operation: str, what: str, error: AuthorizationFailed) -> CommandRefused:
    """Names the ACL that is missing, and the command that grants it.

    :param what: a prefix or an id of it.
    """
    prefix = next((one for one in target.prefixes if what.startswith(one)), what)
    user = target.config.get("sasl.username") or getpass.getuser()
    return CommandRefused(
        f"the user lacks {operation} on the transactional ids of {prefix}: {error.message}",
        remedy=f"kafka-acls --add --allow-principal User:{user} --operation {operation.title()}"
        f" --transactional-id {prefix} --resource-pattern-type prefixed",
    )
