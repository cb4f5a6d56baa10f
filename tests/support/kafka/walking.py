"""A user that may not list transactions."""

from __future__ import annotations

from typing import NoReturn

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.errors import AuthorizationFailed


class Walking(TransactionClient):
    """A control plane whose user may not list; everything else is real."""

    error: type[Exception] = AuthorizationFailed

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> NoReturn:
        raise self.error(f"{prefix}: forbidden here")
