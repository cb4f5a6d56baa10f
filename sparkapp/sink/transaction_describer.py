"""What asks coordinators about transactions, as those see it who need no more of the client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sparkapp.model.deadline import Deadline
from sparkapp.sink.transactions import TransactionDescription


class TransactionDescriber(Protocol):
    """Part of :class:`sparkapp.sink.transaction_client.TransactionClient`: the producer pool asks before and after
    it writes, the driver before it writes a document, recovery before it ends anything."""

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]: ...
