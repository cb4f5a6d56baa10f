"""Breaks the soak's broker now and then, under everything that runs on it."""

from __future__ import annotations

import random
import threading

from localcluster.kafka import Broker


class Breaker:
    """Kills and starts the broker, or freezes it for some seconds, until it is told to end.

    :param every: seconds between two incidents, on average.
    """

    def __init__(self, broker: Broker, *, seed: int, every: float) -> None:
        self._broker = broker
        self._dice = random.Random(seed)
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="breaker")
        self.kills = 0
        self.pauses = 0
        self._thread.start()

    def end(self) -> None:
        """No further incident; the broker is in service."""
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
