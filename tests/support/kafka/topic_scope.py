"""One test's corner of the shared broker: a topic, a prefix, a control plane, and what readers see of it."""

from __future__ import annotations

from dataclasses import dataclass

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from tests.support.kafka import visibility
from tests.support.kafka.end_txn import end_txn


@dataclass(frozen=True, slots=True)
class TopicScope:
    """Names that no other test uses, and the questions that tests of transactions end with."""

    bootstrap: str
    topic: str
    prefix: str
    client: TransactionClient

    def records(self) -> list[bytes | None]:
        """Values that a read_committed reader of the topic gets, once no transaction of the prefix is ending."""
        self.await_ended()
        return visibility.records(self.bootstrap, self.topic)

    def numbers(self) -> list[int]:
        """:meth:`records` as numbers."""
        self.await_ended()
        return visibility.numbers(self.bootstrap, self.topic)

    def await_written(self, count: int) -> None:
        """Waits until the brokers hold ``count`` records of the topic, whether committed or not."""
        deadline = Deadline.after(20)
        while len(visibility.records(self.bootstrap, self.topic, isolation="read_uncommitted")) < count:
            assert not deadline.expired, f"{self.topic}: not {count} records"

    def open_transactions(self) -> list[str]:
        """Ids of the prefix that are open, once none is ending."""
        return visibility.open_transactions(self.client, self.prefix)

    def commit(self, transactional_id: str) -> None:
        """Commits what is open under the id as drivers do, by its triple."""
        found = self.client.describe([transactional_id])[transactional_id]
        answer = end_txn(self.client, transactional_id, found.producer_id, found.producer_epoch, True)
        assert answer is EndTxnAnswer.NONE

    def await_ended(self) -> None:
        """Waits until every ended transaction of the prefix is so for readers too."""
        visibility.await_ended(self.client, self.prefix)
