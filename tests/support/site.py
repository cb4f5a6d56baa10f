"""One test's corner of the shared broker: a topic, a prefix, a control plane, and what readers see of it."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.model.deadline import Deadline
from sparkapp.sink.transaction_client import TransactionClient
from tests.support import visibility


@dataclass(frozen=True, slots=True)
class Site:
    """Names that no other test uses, and the questions that tests of transactions end with."""

    bootstrap: str
    topic: str
    prefix: str
    client: TransactionClient

    def records(self) -> list[bytes | None]:
        """Values that a read_committed reader of the topic gets."""
        return visibility.records(self.bootstrap, self.topic)

    def numbers(self) -> list[int]:
        """:meth:`records` as numbers."""
        return visibility.numbers(self.bootstrap, self.topic)

    def await_written(self, count: int) -> None:
        """Waits until the brokers hold ``count`` records of the topic, whether committed or not."""
        deadline = Deadline.after(20)
        while len(visibility.records(self.bootstrap, self.topic, isolation="read_uncommitted")) < count:
            assert not deadline.expired, f"{self.topic}: not {count} records"

    def open_transactions(self) -> list[str]:
        """Ids of the prefix that are open, once none is ending."""
        return visibility.open_transactions(self.client, self.prefix)

    def await_ended(self) -> None:
        """Waits until every ended transaction of the prefix is so for readers too."""
        visibility.await_ended(self.client, self.prefix)
