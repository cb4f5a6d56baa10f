"""Kills or freezes the soak's broker at random times, while schedules run on it."""

from __future__ import annotations

import random
import threading

from localcluster.kafka.broker import Broker


class BrokerFaults:
    """Kills and starts the broker, or freezes it for some seconds, until :meth:`end`.

    :param every: mean seconds between two faults.
    """

    def __init__(self, broker: Broker, *, seed: int, every: float) -> None:
        self._broker = broker
        self._dice = random.Random(seed)
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker faults")
        self.kills = 0
        self.pauses = 0
        self._thread.start()

    def end(self) -> None:
        """Stops the faults. The broker is in service afterwards."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every * self._dice.uniform(0.5, 1.5)):
            if self._dice.random() < 0.6:
                self._broker.kill()
                self._broker.start()
                self.kills += 1
            else:
                self._broker.pause()
                self._ended.wait(self._dice.uniform(1, 8))
                self._broker.resume()
                self.pauses += 1
