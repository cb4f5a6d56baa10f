"""A transactional producer that counts the requests that librdkafka has sent, and keeps all that it tells besides.

librdkafka calls an interceptor for each request that it has handed to the kernel in whole. The call is in the thread of
the broker's connection and before the answer is read, so a call of the client that has returned is counted.
"""

from __future__ import annotations

import ctypes
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane.native.librdkafka import library

_MILLIS = 60_000
_PRODUCER, _COPY, _IMMEDIATE = 0, 2, 4
_pointer, _int, _text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_ON_NEW = ctypes.CFUNCTYPE(_int, _pointer, _pointer, _pointer, _text, ctypes.c_size_t)
_ON_SENT = ctypes.CFUNCTYPE(
    _int, _pointer, _int, _text, ctypes.c_int32, ctypes.c_int16, ctypes.c_int16, ctypes.c_int32, ctypes.c_size_t,
    _pointer,
)  # fmt: skip
_ON_ERROR = ctypes.CFUNCTYPE(None, _pointer, _int, _text, _pointer)
_ON_LOG = ctypes.CFUNCTYPE(None, _pointer, _int, _text, _text)
_ON_STATISTICS = ctypes.CFUNCTYPE(_int, _pointer, _pointer, ctypes.c_size_t, _pointer)


class ClientRefusal(Exception):
    """A transactional call that librdkafka has failed.

    :param code: librdkafka's or Kafka's number.
    """

    def __init__(self, code: int, text: str, *, fatal: bool) -> None:
        super().__init__(f"{text} ({code}{', fatal' if fatal else ''})")
        self.code = code
        self.fatal = fatal


class CountingProducer:
    """One librdkafka producer, by its C interface; used by one thread.

    :ivar sent: requests by api key.
    :ivar errors: codes that came to the error callback.
    :ivar logs: lines that came to the log callback.
    :ivar statistics: the latest; None before the first.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._lib = ctypes.CDLL(str(library()))
        for name in ("conf_new", "new", "topic_new", "topic_partition_list_new", "topic_partition_list_add",
                     "consumer_group_metadata_new", "init_transactions", "begin_transaction", "commit_transaction",
                     "abort_transaction", "send_offsets_to_transaction"):  # fmt: skip
            self._of(name).restype = _pointer
        self._of("error_string").restype = _text
        self.sent: Counter[int] = Counter()
        self.errors: list[int] = []
        self.logs: list[str] = []
        self.statistics: dict[str, Any] | None = None
        self._emissions = 0
        # librdkafka holds their addresses.
        self._callbacks = [
            _ON_NEW(self._on_new), _ON_SENT(self._on_sent), _ON_ERROR(self._on_error), _ON_LOG(self._on_log),
            _ON_STATISTICS(self._on_statistics),
        ]  # fmt: skip
        on_new, _, on_error, on_log, on_statistics = self._callbacks
        conf = _pointer(self._of("conf_new")())
        problem = ctypes.create_string_buffer(512)
        for key, value in config.items():
            if self._of("conf_set")(conf, key.encode(), value.encode(), problem, ctypes.c_size_t(512)):
                raise ValueError(problem.value.decode())
        self._of("conf_set_error_cb")(conf, on_error)
        self._of("conf_set_log_cb")(conf, on_log)
        self._of("conf_set_stats_cb")(conf, on_statistics)
        self._of("conf_interceptor_add_on_new")(conf, b"counting", on_new, None)
        self._rk = _pointer(self._of("new")(_PRODUCER, conf, problem, ctypes.c_size_t(512)))
        if not self._rk:
            raise ValueError(problem.value.decode())
        self._topics: dict[str, Any] = {}

    def init_transactions(self) -> None:
        """:raises ClientRefusal: as all transactional calls."""
        self._call("init_transactions", _MILLIS)

    def begin(self) -> None:
        self._call("begin_transaction")

    def produce(self, topic: str, value: bytes) -> None:
        """Into partition 0; queues it only."""
        if topic not in self._topics:
            self._topics[topic] = _pointer(self._of("topic_new")(self._rk, topic.encode(), None))
        size = ctypes.c_size_t(len(value))
        failed = self._of("produce")(self._topics[topic], 0, _COPY, value, size, None, ctypes.c_size_t(0), None)
        if failed:
            raise ClientRefusal(self._of("last_error")(), "produce", fatal=False)

    def flush(self) -> None:
        assert self._of("flush")(self._rk, _MILLIS) == 0

    def send_offset(self, topic: str, offset: int, *, group: str) -> None:
        """The group's next offset of partition 0."""
        offsets = _pointer(self._of("topic_partition_list_new")(1))
        row = self._of("topic_partition_list_add")(offsets, topic.encode(), 0)
        # struct rd_kafka_topic_partition_s { char *topic; int32_t partition; int64_t offset; …
        ctypes.c_int64.from_address(row + 16).value = offset
        metadata = _pointer(self._of("consumer_group_metadata_new")(group.encode()))
        try:
            self._call("send_offsets_to_transaction", offsets, metadata, _MILLIS)
        finally:
            self._of("consumer_group_metadata_destroy")(metadata)
            self._of("topic_partition_list_destroy")(offsets)

    def commit(self, millis: int = _MILLIS) -> None:
        self._call("commit_transaction", millis)

    def abort(self) -> None:
        self._call("abort_transaction", _MILLIS)

    def poll(self) -> None:
        """Serves the callbacks."""
        self._of("poll")(self._rk, 0)

    def fresh_statistics(self) -> dict[str, Any]:
        """Statistics that were taken after this call began; needs ``statistics.interval.ms``."""
        deadline, wanted = Deadline.after(20), self._emissions + 2
        while self._emissions < wanted:
            assert not deadline.expired
            self._of("poll")(self._rk, 10)
        assert self.statistics is not None
        return self.statistics

    def close(self) -> None:
        for topic in self._topics.values():
            self._of("topic_destroy")(topic)
        self._of("destroy_flags")(self._rk, _IMMEDIATE)

    def _of(self, name: str) -> Any:
        return getattr(self._lib, f"rd_kafka_{name}")

    def _call(self, name: str, *arguments: Any) -> None:
        error = self._of(name)(self._rk, *arguments)
        if error:
            found = _pointer(error)
            refusal = ClientRefusal(
                self._of("error_code")(found),
                self._of("error_string")(found).decode(),
                fatal=bool(self._of("error_is_fatal")(found)),
            )
            self._of("error_destroy")(found)
            raise refusal

    def _on_new(self, rk: int, *_: Any) -> int:
        return int(self._of("interceptor_add_on_request_sent")(_pointer(rk), b"counting", self._callbacks[1], None))

    def _on_sent(self, rk: int, sock: int, broker: bytes, node: int, api_key: int, *_: Any) -> int:
        self.sent[api_key] += 1
        return 0

    def _on_error(self, rk: int, code: int, text: bytes, opaque: int) -> None:
        self.errors.append(code)

    def _on_log(self, rk: int, level: int, facility: bytes, text: bytes) -> None:
        self.logs.append(f"{level} {facility.decode()} {text.decode()}")

    def _on_statistics(self, rk: int, text: int, size: int, opaque: int) -> int:
        self._emissions += 1
        self.statistics = json.loads(ctypes.string_at(text, size))
        return 0
