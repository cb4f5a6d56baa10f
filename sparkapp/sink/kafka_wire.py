"""Requests to transaction coordinators on the wire: the only importer of kafka-python.

One event loop on a thread of its own, one connection a broker, any number of requests in flight. Each coroutine here is
one attempt; who retries, and how long, is :mod:`sparkapp.sink.transaction_client`'s business.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import kafka.errors as wire_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest

from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    KafkaAccessError,
    KafkaUnreachable,
    ListingUnsupported,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.transactions import EndTxn, TransactionDescription, TransactionListing, state_of

END_TXN_MAX_VERSION = 4
"""Version 5 bumps the producer's epoch, which fences a librdkafka producer (case P12)."""
INIT_PRODUCER_ID_MAX_VERSION = 4
"""What librdkafka speaks; later ones belong to the newer transaction protocol."""
LIST_BY_PATTERN_VERSION = 2

FENCE_TIMEOUT_MILLIS = 10_000
"""Time-out that a fencing leaves on the id until its next producer sets its own; any broker's maximum allows it."""

_OPTIONS: Mapping[str, str] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
}
_FIXED: Mapping[str, Any] = {
    # A request beyond the limit is refused instead of queued, and we pipeline.
    "max_in_flight_requests_per_connection": 10_000,
    "receive_message_max_bytes": 100_000_000,
    # A broker that came back should be noticed within the deadline of one commit.
    "reconnect_backoff_max_ms": 1_000,
    "socket_connection_setup_timeout_ms": 5_000,
}

_REFUSED_CREDENTIALS = (
    wire_errors.SaslAuthenticationFailedError,
    wire_errors.UnsupportedSaslMechanismError,
    wire_errors.IllegalSaslStateError,
)

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class RetriableWireError(Exception):
    """The request may be sent again: connection lost, coordinator moving or loading, transaction in transition.

    :param name: Kafka's name of the error.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class RefusedWireError(Exception):
    """The coordinator's definite answer, by Kafka's name."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def wire_config(config: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's names for librdkafka's properties; those that mean nothing here are left out."""
    translated: dict[str, Any] = {_OPTIONS[name]: value for name, value in config.items() if name in _OPTIONS}
    translated["bootstrap_servers"] = [one.strip() for one in config["bootstrap.servers"].split(",")]
    if "security_protocol" in translated:
        translated["security_protocol"] = translated["security_protocol"].upper()
    if config.get("ssl.endpoint.identification.algorithm") == "none":
        translated["ssl_check_hostname"] = False
    return {**translated, **_FIXED}


class KafkaWire:
    """Connections to the brokers of one cluster; thread-safe, opened on first use."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = wire_config(config)
        self._lock = threading.Lock()
        self._net: Any = None
        self._manager: Any = None
        self._coordinators: dict[str, Any] = {}

    def run(self, deadline: Deadline, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Runs a coroutine of this class on the loop and waits for it.

        :raises KafkaUnreachable: no bootstrap server answers.
        :raises AuthenticationFailed: the credentials were refused.
        """
        manager = self._connected(deadline)
        answer: Answer = manager.run(work)
        return answer

    async def gather(self, work: Callable[[Item], Awaitable[Answer]], items: Iterable[Item]) -> list[Answer]:
        """Does ``work`` for every item side by side; results in order.

        The first failure is raised once all have ended.
        """
        futures = [self._manager.call_soon(partial(work, item)) for item in items]
        results: list[Answer] = []
        failure: BaseException | None = None
        for future in futures:
            try:
                results.append(await future)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return results

    async def sleep(self, seconds: float) -> None:
        await self._net.sleep(seconds)

    def brokers(self) -> list[Any]:
        """Node ids of every broker that the cluster's metadata names."""
        return [broker.node_id for broker in self._manager.cluster.brokers()]

    def forget_coordinators(self, transactional_ids: Iterable[str]) -> None:
        """Coordinators of these ids are looked up again by the next request."""
        for one in transactional_ids:
            self._coordinators.pop(one, None)

    async def coordinators(self, transactional_ids: Sequence[str], deadline: Deadline) -> dict[str, Any]:
        """The broker that coordinates each id; known ones cost nothing."""
        unknown = [one for one in transactional_ids if one not in self._coordinators]
        if unknown:
            kind = CoordinatorType.TRANSACTION
            request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=unknown, min_version=4)
            response = await self._send(request, None, deadline)
            for row in response.coordinators:
                _check(row.error_code, f"coordinator of {row.key}")
                node = self._manager.cluster.add_coordinator(row, kind, row.key, synthesize_node_id=False)
                self._coordinators[row.key] = node
        return {one: self._coordinators[one] for one in transactional_ids}

    async def end_txn(self, end: EndTxn, deadline: Deadline) -> None:
        """One EndTxn; returning means NONE.

        The version is capped whatever the broker offers.
        """
        node = (await self.coordinators([end.transactional_id], deadline))[end.transactional_id]
        request = EndTxnRequest(
            transactional_id=end.transactional_id,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            committed=end.commit,
            max_version=END_TXN_MAX_VERSION,
        )
        response = await self._send(request, node, deadline)
        _check(response.error_code, f"EndTxn of {end.transactional_id}")

    async def init_producer_id(self, transactional_id: str, deadline: Deadline) -> None:
        """One InitProducerId: aborts what is open and bumps the epoch; CONCURRENT_TRANSACTIONS until that is done."""
        node = (await self.coordinators([transactional_id], deadline))[transactional_id]
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=FENCE_TIMEOUT_MILLIS,
            producer_id=-1,
            producer_epoch=-1,
            max_version=INIT_PRODUCER_ID_MAX_VERSION,
        )
        response = await self._send(request, node, deadline)
        _check(response.error_code, f"InitProducerId of {transactional_id}")

    async def describe(
        self, transactional_ids: Sequence[str], node: Any, deadline: Deadline
    ) -> dict[str, TransactionDescription]:
        """DescribeTransactions to one coordinator; ids that it does not know are absent."""
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        response = await self._send(request, node, deadline)
        found = {}
        for row in response.transaction_states:
            if wire_errors.for_code(row.error_code) is wire_errors.TransactionalIdNotFoundError:
                continue
            _check(row.error_code, f"DescribeTransactions of {row.transactional_id}")
            found[row.transactional_id] = TransactionDescription(
                state=state_of(row.transaction_state),
                producer_id=row.producer_id,
                producer_epoch=row.producer_epoch,
                timeout_ms=row.transaction_timeout_ms,
                start_time_ms=row.transaction_start_time_ms,
                partitions=frozenset(
                    TopicPartition(topic.topic, partition) for topic in row.topics for partition in topic.partitions
                ),
            )
        return found

    async def list_transactions(self, pattern: str, node: Any, deadline: Deadline) -> list[TransactionListing]:
        """ListTransactions to one broker; ``pattern`` is applied there where the broker can, so more may come back.

        Kafka leaves out, silently, what the user may not describe.

        :raises ListingUnsupported: the broker does not know the request.
        """
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        try:
            offered = self._manager.broker_version_data.api_version(request)
        except wire_errors.IncompatibleBrokerVersion as error:
            msg = f"the brokers do not offer ListTransactions: {error}"
            raise ListingUnsupported(msg) from error
        if offered >= LIST_BY_PATTERN_VERSION:
            request = ListTransactionsRequest(
                state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern,
                min_version=LIST_BY_PATTERN_VERSION,
            )  # fmt: skip
        response = await self._send(request, node, deadline)
        _check(response.error_code, "ListTransactions")
        return [
            TransactionListing(
                transactional_id=row.transactional_id,
                producer_id=row.producer_id,
                state=state_of(row.transaction_state),
            )
            for row in response.transaction_states
        ]

    def close(self) -> None:
        """Ends the connections and the thread; harmless when repeated."""
        with self._lock:
            manager, net, self._manager, self._net = self._manager, self._net, None, None
        if manager is not None:
            manager.call_soon(manager.close)
            net.stop()
            net.close()

    async def _send(self, request: Any, node: Any, deadline: Deadline) -> Any:
        milliseconds = max(1, int(deadline.remaining * 1000))
        try:
            return await self._manager.send(request, node_id=node, request_timeout_ms=milliseconds)
        except Exception as error:
            raise _translated(error, type(request).__name__) from error

    def _connected(self, deadline: Deadline) -> Any:
        with self._lock:
            if self._manager is None:
                net = NetworkSelector(**self._config)
                manager = KafkaConnectionManager(net, **self._config)
                net.start()
                try:
                    manager.bootstrap(timeout_ms=max(1, int(deadline.remaining * 1000)))
                except Exception as error:
                    net.stop()
                    net.close()
                    raise _bootstrap_error(error, self._config["bootstrap_servers"]) from error
                self._net, self._manager = net, manager
            return self._manager


def _check(code: int, what: str) -> None:
    if code:
        kind = wire_errors.for_code(code)
        raise _translated(kind(what), what)


def _translated(error: Exception, what: str) -> Exception:
    """Our error for kafka-python's, or ``error`` itself where it is none of these."""
    name = str(getattr(error, "message", None) or type(error).__name__)
    message = f"{what}: {name}: {error}"
    result: Exception = error
    if isinstance(error, _REFUSED_CREDENTIALS):
        result = AuthenticationFailed(message)
    elif isinstance(error, wire_errors.AuthorizationError):
        result = AuthorizationFailed(message)
    elif isinstance(error, wire_errors.IncompatibleBrokerVersion):
        result = KafkaAccessError(message, remedy="the transaction control plane needs brokers of Kafka 3.0 or newer")
    elif isinstance(error, wire_errors.UnknownBrokerIdError | OSError) or getattr(error, "retriable", False):
        result = RetriableWireError(name, message)
    elif isinstance(error, wire_errors.BrokerResponseError):
        result = RefusedWireError(name, message)
    return result


def _bootstrap_error(error: Exception, servers: Sequence[str]) -> Exception:
    translated = _translated(error, f"connecting to {', '.join(servers)}")
    if isinstance(translated, KafkaAccessError):
        return translated
    return KafkaUnreachable(f"no broker of {', '.join(servers)} answered: {error}")
