"""What a client reported: the failure of a call or of a record, and errors outside a call since its last success."""

from __future__ import annotations

from dataclasses import dataclass, replace

from confluent_kafka import KafkaError

from sparkapp.clients.errors import MEANING, OUT_OF_REACH, error_of
from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    KafkaAccessError,
    KafkaSparkJobError,
    TopicNotFound,
    TransactionFenced,
    TransactionTimeoutTooLong,
)
from sparkapp.model.errors.refusal import RefusedRecord

_AT_ONCE = (AuthenticationFailed, AuthorizationFailed, TopicNotFound, TransactionFenced, TransactionTimeoutTooLong)


class ClientErrors:
    """Collects errors that belong to no call; used to explain calls of the client that time out.

    The plain clients add errors from confluent_kafka's ``error_cb``, the native clients from the extension's list.

    :param ignored: codes that do not affect this client's work.
    """

    def __init__(self, *, ignored: frozenset[int] = frozenset()) -> None:
        self._ignored = ignored
        self._kept: dict[int, str] = {}

    def add(self, code: int, text: str) -> None:
        """Keeps the latest text of each code."""
        if code not in self._ignored:
            self._kept[code] = text

    def clear(self) -> None:
        """Drops all errors except fatal states; called after each success of the client."""
        self._kept = {code: text for code, text in self._kept.items() if MEANING.get(code) is TransactionFenced}

    def raise_final(self, doing: str) -> None:
        """Raises an error that no retry resolves: refused credentials, a missing ACL or topic, a newer producer."""
        for code, text in self._kept.items():
            if MEANING.get(code) in _AT_ONCE:
                raise error_of(code, text, doing)

    def raise_fenced(self, doing: str) -> None:
        """:raises TransactionFenced: a newer producer uses the transactional id."""
        for code, text in self._kept.items():
            if MEANING.get(code) is TransactionFenced:
                raise error_of(code, text, doing)

    def explain(self, doing: str, otherwise: type[KafkaSparkJobError] = KafkaAccessError) -> KafkaSparkJobError:
        """The exception for a missed deadline: unreachable brokers if the client reported that, else ``otherwise``."""
        for code in OUT_OF_REACH:
            if code in self._kept:
                return error_of(code, self._kept[code], doing)
        last = next(reversed(self._kept), None)
        return otherwise(f"{doing}; {self._kept[last]} ({KafkaError(last).name()})" if last is not None else doing)


class ClientFailure(Exception):
    """An error of librdkafka without the operation that failed."""

    def __init__(
        self, code: int, text: str, *, is_retriable: bool = False, record: RefusedRecord | None = None
    ) -> None:
        super().__init__(code, text)
        self.record = record
        self.code = code
        self.text = text
        self.is_retriable = is_retriable


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Counts of delivery reports since the last count; the others belong to the first failure."""

    acknowledged: int
    failed: int
    code: int = 0
    text: str = ""
    record: RefusedRecord | None = None

    def then(self, later: Deliveries) -> Deliveries:
        """Both counts together."""
        first = self if self.failed else later
        return replace(first, acknowledged=self.acknowledged + later.acknowledged, failed=self.failed + later.failed)
