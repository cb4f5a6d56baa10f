"""Produces the data at a limited rate, so that data still comes in during every incident."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, Message, Producer

from clusterjob.background import Background
from demo.data import SourceRecord
from localcluster.errors import SetupError

_SLICE = 20
"""Records between two reads of the clock."""
RESERVE_SECONDS = 60.0
"""The rate falls so that the remaining records last this long: data comes in until :meth:`hurry` is called."""


class PacedLoader(Background):
    """Produces records in its own thread; a context manager. The producer is idempotent: each record is stored once.

    :param total: number of records.
    :param rate: most records a second, until :meth:`hurry`.
    :param reserve: seconds that the remaining records last; 0 for a rate that does not fall.
    """

    def __init__(
        self, bootstrap: str, topic: str, records: Iterable[SourceRecord], *, total: int, rate: float,
        reserve: float = RESERVE_SECONDS,
    ) -> None:  # fmt: skip
        super().__init__("loader", end_seconds=30)
        self._topic = topic
        self._records = records
        self._total = total
        self._rate = rate
        self._reserve = reserve
        self._hurry = threading.Event()
        self._sent = 0
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "kafkaspark-demo-loader",
                "enable.idempotence": True,
                "linger.ms": 50,
                "compression.type": "lz4",
                # A broker that has just started logs warnings that mean nothing here.
                "log_level": 3,
                "queue.buffering.max.messages": 200_000,
            }
        )

    @property
    def sent(self) -> int:
        """Records given to the producer so far."""
        return self._sent

    def hurry(self) -> None:
        """Removes the limit for the remaining records."""
        self._hurry.set()

    def finish(self, seconds: float) -> int:
        """Waits until the last record is stored; returns the number of records.

        :raises SetupError: the time is up, or the broker refused a record.
        """
        self.hurry()
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise SetupError(f"topic {self._topic} was not loaded within {seconds:.0f} s: {self._sent} records sent")
        if self._failures:
            raise SetupError(f"the broker refused {len(self._failures)} records: {self._failures[0]}")
        return self._sent

    def _wake(self) -> None:
        self._hurry.set()

    def _run(self) -> None:
        due = time.monotonic()
        try:
            for record in self._records:
                if self._sent % _SLICE == 0:
                    self._producer.poll(0)
                    if self._ending.is_set():
                        return
                    self._hurry.wait(max(0.0, due - time.monotonic()))
                    due = max(due, time.monotonic() - 1.0) + _SLICE / self._present_rate()
                self._produce(record)
                self._sent += 1
            if self._producer.flush(60) > 0:
                self._failures.append("the broker did not acknowledge the last records within 60 s")
        except Exception as error:  # raised by finish, in the thread that can handle it
            self._failures.append(str(error))

    def _present_rate(self) -> float:
        left = max(1, self._total - self._sent)
        return min(self._rate, left / self._reserve) if self._reserve else self._rate

    def _produce(self, record: SourceRecord) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value=record.value, key=record.key, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
