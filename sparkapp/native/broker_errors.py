"""What a client reported on its own account since something last went well: connections, credentials, fatal states."""

from __future__ import annotations

from confluent_kafka import KafkaError

from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    KafkaAccessError,
    KafkaSparkJobError,
    TopicNotFound,
    TransactionFenced,
    TransactionTimeoutTooLong,
)
from sparkapp.native.kafka_errors import MEANING, OUT_OF_REACH, error_of

_AT_ONCE = (AuthenticationFailed, AuthorizationFailed, TopicNotFound, TransactionFenced, TransactionTimeoutTooLong)


class BrokerErrors:
    """Collects errors that belong to no call; the client's calls ask it when they come to nothing.

    Both implementations feed it: from confluent_kafka's ``error_cb``, and from the list that the extension keeps.

    :param ignored: codes that do not concern this client's work.
    """

    def __init__(self, *, ignored: frozenset[int] = frozenset()) -> None:
        self._ignored = ignored
        self._noted: dict[int, str] = {}

    def note(self, code: int, text: str) -> None:
        if code not in self._ignored:
            self._noted[code] = text

    def forget(self) -> None:
        """Something went well: what was noted before explains nothing any more (fatal states stay)."""
        self._noted = {code: text for code, text in self._noted.items() if MEANING.get(code) is TransactionFenced}

    def raise_final(self, doing: str) -> None:
        """Raises what waiting cannot heal: refused credentials, a missing ACL or topic, a newer producer."""
        for code, text in self._noted.items():
            if MEANING.get(code) in _AT_ONCE:
                raise error_of(code, text, doing)

    def raise_fenced(self, doing: str) -> None:
        """Raises if a newer producer has taken the transactional id over."""
        for code, text in self._noted.items():
            if MEANING.get(code) is TransactionFenced:
                raise error_of(code, text, doing)

    def explain(self, doing: str, otherwise: type[KafkaSparkJobError] = KafkaAccessError) -> KafkaSparkJobError:
        """The exception for a deadline that passed: unreachable brokers if that was noted, else ``otherwise``."""
        for code in OUT_OF_REACH:
            if code in self._noted:
                return error_of(code, self._noted[code], doing)
        last = next(reversed(self._noted), None)
        return otherwise(f"{doing}; {self._noted[last]} ({KafkaError(last).name()})" if last is not None else doing)
