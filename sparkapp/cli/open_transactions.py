"""Open transactions on the brokers, each as a row with all that a user wants to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkapp.cli.id_owner import committable_of, owner_of
from sparkapp.cli.missing_rights import missing_right
from sparkapp.cli.target import Target
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import TransactionDescription, TransactionListing
from sparkapp.model.checkpoint.commit_outcome import is_of
from sparkapp.model.errors import AuthorizationFailed, CommandRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A transactional id that a coordinator knows.

    :param coordinator: broker that coordinates the id, as text.
    """

    transactional_id: str
    description: TransactionDescription
    coordinator: str


class OpenTransactionRows:
    """The requests of the ``txn`` commands; each method asks the brokers again.

    :param now: wall clock in seconds since 1970.
    """

    def __init__(self, client: TransactionClient, target: Target, *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._target = target
        self._now = now

    def unfinished(self) -> list[Found]:
        """Open and ending transactions of the target's prefixes; without prefixes, of the cluster.

        :raises CommandRefused: none is visible, because the user lacks the right to describe them.
        """
        ids = [row.transactional_id for row in self.listed() if row.state.open or row.state.ending]
        # Some may have ended since they were listed.
        described = self._described(ids)
        return [found for found in described if found.description.state.open or found.description.state.ending]

    def listed(self) -> list[TransactionListing]:
        """Every id of the target in any state; errors as in :meth:`unfinished`."""
        prefixes = self._target.prefixes
        if not prefixes:
            return self._client.list_all()
        rows = [row for prefix in prefixes for row in self._client.list_transactions(prefix)]
        if not rows:
            for prefix in prefixes:
                self._require_describe(prefix)
        return rows

    def find(self, transactional_id: str) -> Found:
        """The coordinator's description of an id.

        :raises CommandRefused: the coordinator does not know the id, or the user lacks the right to ask.
        """
        found = self._described([transactional_id])
        if not found:
            msg = f"no coordinator knows {transactional_id}: it was never used, or it has expired"
            raise CommandRefused(msg, remedy="list the open ids with txn list and the same options")
        return found[0]

    def row(self, found: Found) -> dict[str, object]:
        """A found id as a row of the answer."""
        description, document = found.description, self._target.document
        owner = document and owner_of(found.transactional_id, document, pool_size=self._target.pool_size)
        return {
            "transactionalId": found.transactional_id,
            "state": description.state.value,
            "producerId": description.producer_id,
            "epoch": description.producer_epoch,
            "coordinator": found.coordinator,
            "ageSeconds": self._age(description),
            "partitions": ", ".join(map(str, sorted(description.partitions))),
            "subtask": owner.subtask if owner else None,
            "slot": owner.slot if owner else None,
            "belongsTo": owner.attempt if owner else None,
        }

    def is_final(self, found: Found) -> bool:
        """Whether the checkpoint document names exactly this transaction, so that the next attempt commits it."""
        document = self._target.document
        named = committable_of(found.transactional_id, document) if document is not None else None
        # A later transaction of the same producer is another: the document is out of date.
        return named is not None and is_of(named, found.description)

    def _described(self, ids: Sequence[str]) -> list[Found]:
        if not ids:
            return []
        try:
            known = self._client.describe(ids)
            nodes = self._client.coordinators(known)
        except AuthorizationFailed as error:
            raise missing_right(self._target, "DESCRIBE", ids[0], error) from error
        return [
            Found(transactional_id=name, description=known[name], coordinator=nodes[name])
            for name in ids
            if name in known
        ]

    def _require_describe(self, prefix: str) -> None:
        """Kafka's list leaves out ids that the user may not describe; a request for a single id is refused."""
        try:
            self._client.describe([f"{prefix}-0"])
        except AuthorizationFailed as error:
            raise missing_right(self._target, "DESCRIBE", prefix, error) from error

    def _age(self, description: TransactionDescription) -> int | None:
        start = description.start_time_ms
        if start < 0 or not (description.state.open or description.state.ending):
            return None  # the coordinator still has the start of an ended transaction
        return max(0, round(self._now() - start / 1000))
