"""Connections to the brokers for requests of our own making; with :mod:`requests` and :mod:`wire_security` the only
importer of kafka-python.

One event loop on a thread of its own, one connection a broker, any number of requests in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import kafka.errors as wire_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from sparkapp.clients.admin import refused_access
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.wire_security import security_options
from sparkapp.model.errors import AuthenticationFailed, AuthorizationFailed, KafkaAccessError, KafkaUnreachable

_OPTIONS: Mapping[str, str] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_FIXED: Mapping[str, Any] = {
    # A request beyond the limit is refused instead of queued, and we pipeline.
    "max_in_flight_requests_per_connection": 10_000,
    "receive_message_max_bytes": 100_000_000,
    # A broker that came back should be noticed within the deadline of one commit.
    "reconnect_backoff_max_ms": 1_000,
    "socket_connection_setup_timeout_ms": 5_000,
}
_BOOTSTRAP_SECONDS = 3.0
_CLOSED = "the client was closed meanwhile"
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
    """The broker's definite answer, by Kafka's name."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def wire_config(config: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's names for librdkafka's properties; those that mean nothing here are left out.

    TLS and tokens are not plain text: :mod:`wire_security` adds them.
    """
    translated: dict[str, Any] = {_OPTIONS[name]: value for name, value in config.items() if name in _OPTIONS}
    translated["bootstrap_servers"] = [server.strip() for server in config["bootstrap.servers"].split(",")]
    if "security_protocol" in translated:
        translated["security_protocol"] = translated["security_protocol"].upper()
    return {**translated, **_FIXED}


def check(code: int, what: str) -> None:
    """Raises for an error code of a response; 0 is none.

    :param what: beginning of the message.
    """
    if code:
        raise translated(wire_errors.for_code(code)(what), what)


def translated(error: Exception, what: str) -> Exception:
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


class KafkaConnection:
    """The brokers of one cluster; thread-safe, opened on first use, used by the transaction client.

    :ivar answers: number of responses so far.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._given = dict(config)
        self._config = wire_config(config)
        self._lock = threading.Lock()
        self._net: Any = None
        self._manager: Any = None
        self.answers = 0

    def run(self, deadline: Deadline, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Runs a coroutine on the loop and waits for it.

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
        manager = self._live
        futures = [manager.call_soon(partial(work, item)) for item in items]
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

    async def send(self, request: Any, node: Any, deadline: Deadline) -> Any:
        """One request to a broker, None for any one; the response as kafka-python decoded it."""
        milliseconds = max(1, int(deadline.remaining * 1000))
        try:
            response = await self._live.send(request, node_id=node, request_timeout_ms=milliseconds)
        except Exception as error:
            raise translated(error, type(request).__name__) from error
        self.answers += 1
        return response

    async def send_together(self, requests: Iterable[Any], node: Any, deadline: Deadline) -> list[Any]:
        """Requests to a broker, written one behind the other with nothing between; the responses in order.

        The first failure is raised once all have ended.
        """
        milliseconds = max(1, int(deadline.remaining * 1000))
        send = partial(self._live.send, node_id=node, request_timeout_ms=milliseconds)
        futures = [(request, send(request)) for request in requests]
        answers: list[Any] = []
        failure: Exception | None = None
        for request, future in futures:
            try:
                answers.append(await future)
            except Exception as error:
                failure = failure or translated(error, type(request).__name__)
        if failure is not None:
            raise failure
        return answers

    async def sleep(self, seconds: float) -> None:
        """Yields to the loop's other tasks."""
        net = self._net
        if net is None:
            raise KafkaUnreachable(_CLOSED)
        await net.sleep(seconds)

    @property
    def _live(self) -> Any:
        """kafka-python's connections. :raises KafkaUnreachable: another thread has closed them meanwhile."""
        manager = self._manager
        if manager is None:
            raise KafkaUnreachable(_CLOSED)
        return manager

    @property
    def cluster(self) -> Any:
        """kafka-python's metadata of the cluster."""
        return self._live.cluster

    def learn_brokers(self, metadata: Any) -> None:
        """Takes the brokers of a metadata response, so that requests reach brokers that came later."""
        self._live.cluster.update_metadata(metadata)

    def broker_name(self, node: Any) -> str:
        """``number (host:port)`` of a broker, as the metadata has it."""
        broker = self.cluster.broker_metadata(node)
        return str(node) if broker is None else f"{node} ({broker.host}:{broker.port})"

    def offered_version(self, request: Any) -> int | None:
        """The newest version of a request that both sides speak, or None."""
        try:
            return int(self._live.broker_version_data.api_version(request))
        except wire_errors.IncompatibleBrokerVersion:
            return None

    def close(self) -> None:
        """Ends the connections and the thread; harmless when repeated."""
        with self._lock:
            manager, net, self._manager, self._net = self._manager, self._net, None, None
        if manager is not None:
            manager.call_soon(manager.close)
            net.stop()
            net.close()

    def _connected(self, deadline: Deadline) -> Any:
        with self._lock:
            if self._manager is None:
                options = {**self._config, **security_options(self._given)}
                net = NetworkSelector(**options)
                manager = KafkaConnectionManager(net, **options)
                net.start()
                try:
                    self._bootstrap(manager, deadline)
                except BaseException:
                    net.stop()
                    net.close()
                    raise
                self._net, self._manager = net, manager
            return self._manager

    def _bootstrap(self, manager: Any, deadline: Deadline) -> None:
        servers = ", ".join(self._config["bootstrap_servers"])
        while True:
            try:
                manager.bootstrap(timeout_ms=max(1, int(deadline.bound(_BOOTSTRAP_SECONDS) * 1000)))
            except Exception as error:
                problem = translated(error, f"connecting to {servers}")
                if not isinstance(problem, RetriableWireError):
                    raise problem from error
                # A broker ends a connection that it refuses, and this client sees only the end.
                refused = refused_access(self._given, deadline)
                if refused is not None:
                    raise refused from error
                if deadline.expired:
                    raise KafkaUnreachable(f"no broker of {servers} answered: {error}") from error
            else:
                return
