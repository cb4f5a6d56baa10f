"""The pause that readers see when a job is killed: this project's engines, Flink, and Spark's own connector.

    PYTHONPATH=dev python -m bench.restart.peers --rounds 3 --picture artifacts/pause.svg

Every contestant is a process of this machine, without Kubernetes. It copies a steady load with a checkpoint a second.
All its processes get SIGKILL at once. It is started again at once and resumes from its last checkpoint. The pause is
the longest time without a record for a read_committed reader. Contestants take turns. The picture has the last round.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from bench.broker import broker_at, make_topic
from bench.peers.contestants import CONTESTANTS, PROGRAMS
from bench.peers.contestants import Contestant as Peer
from bench.peers.program import Program, Task
from bench.restart.local import PARTITIONS, LocalRestarts
from bench.restart.marks import ASKED, longest_silence
from bench.restart.outage import Downstream, StableOffsets, SteadyRecords
from bench.spread import Spread
from clusterjob.table import render
from clusterjob.timeline import Row, timeline
from pictures import draw
from sparkapp.model.job.spec import Engine

_START_SECONDS = 120.0
_STEADY_SECONDS = 5.0
_SECONDS_BEFORE = 3.0


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill and what a reader saw.

    :param at: of the signal, in seconds since 1970.
    :param pause: seconds.
    :param received: when each record came, in milliseconds since 1970.
    """

    at: float
    pause: float
    received: list[int]


class Site(Protocol):
    """A contestant with a steady load."""

    def kill(self) -> Kill:
        """Kills it, starts it again and waits until records flow steadily."""
        ...


class KilledPeer:
    """A program of ``bench.peers`` that resumes when it is started again."""

    def __init__(self, peer: Peer, task: Task, folder: Path, *, reader: Downstream, offsets: StableOffsets) -> None:
        self._peer = peer
        self._task = task
        self._log = folder / "log"
        self._reader = reader
        self._offsets = offsets
        self._start()

    @classmethod
    @contextmanager
    def begin(cls, name: str, bootstrap: str, rate: float) -> Iterator[Self]:
        """Starts a contestant of ``bench.peers`` and a steady load."""
        peer = next(each for each in CONTESTANTS if each.name == name)
        source, sink = make_topic(bootstrap, PARTITIONS), make_topic(bootstrap, PARTITIONS)
        with (
            tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
            Downstream(bootstrap, sink) as reader,
            StableOffsets(bootstrap, sink) as offsets,
            SteadyRecords(bootstrap, source, rate),
        ):
            (checkpoints := Path(folder) / "checkpoints").mkdir()
            task = Task(
                bootstrap=bootstrap, source=source, sink=sink, records=0, delivery_guarantee=peer.delivery_guarantee,
                parallelism=2, interval_millis=1000,
                options={**peer.options, "checkpoints": str(checkpoints), "id": f"bench-{uuid.uuid4().hex[:8]}"},
            )  # fmt: skip
            started = cls(peer, task, Path(folder), reader=reader, offsets=offsets)
            try:
                reader.await_beyond({}, seconds=_START_SECONDS)
                yield started
            finally:
                started._kill()

    def kill(self) -> Kill:
        """SIGKILL to all its processes, and a start at once."""
        time.sleep(_STEADY_SECONDS)
        asked = time.time()
        self._kill()
        ends = self._offsets.ends_before(time.time())
        self._start()
        flowing = self._reader.await_beyond(ends, seconds=_START_SECONDS)
        time.sleep(_STEADY_SECONDS)
        silence = longest_silence(self._reader.arrivals(asked - 10), since=asked, until=flowing)
        return Kill(asked, silence, self._reader.received())

    def _start(self) -> None:
        self._program = Program(self._peer.title, PROGRAMS[self._peer.program](self._task.parallelism), self._log)
        self._program.begin(self._task)

    def _kill(self) -> None:
        os.killpg(self._program.session, signal.SIGKILL)
        while self._program.runs:
            time.sleep(0.01)


class KilledEngine:
    """A job of this project."""

    def __init__(self, restarts: LocalRestarts) -> None:
        self._restarts = restarts

    @classmethod
    @contextmanager
    def begin(cls, engine: Engine, bootstrap: str, rate: float) -> Iterator[Self]:
        """Starts a job and a steady load."""
        options = argparse.Namespace(
            bootstrap=bootstrap, parallelism=2, rescaled=2, interval=1, engine=engine, only=["kill"], rate=rate
        )
        with LocalRestarts.begin(options) as restarts:
            yield cls(restarts)

    def kill(self) -> Kill:
        """SIGKILL to the driver and its JVM, and the next attempt at once."""
        restart = self._restarts.kill()
        time.sleep(_STEADY_SECONDS)
        return Kill(restart.marks[ASKED], restart.silence, self._restarts.reader.received())


Begin = Callable[[str, float], AbstractContextManager[Site]]
SITES: dict[str, Begin] = {
    "kafkaspark, continuous": partial(KilledEngine.begin, Engine.CONTINUOUS),
    "kafkaspark, micro-batches": partial(KilledEngine.begin, Engine.MICRO_BATCH),
    "Flink": partial(KilledPeer.begin, "flink-default"),
    "Spark's connector, at least once": partial(KilledPeer.begin, "spark"),
}


def main() -> None:
    """Runs the bench of the options and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="kills of each contestant")
    parser.add_argument("--rate", type=float, default=500.0, help="records a second")
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--picture", type=Path, help="SVG to write; its text is written next to it")
    options = parser.parse_args()
    kills: dict[str, list[Kill]] = {name: [] for name in SITES}
    with broker_at(options.bootstrap) as bootstrap:
        for number in range(1, options.rounds + 1):
            for name, begin in SITES.items():
                with begin(bootstrap, options.rate) as site:
                    kills[name].append(site.kill())
                print(f"{number:3}  {name}: {kills[name][-1].pause:.1f} s", file=sys.stderr, flush=True)
    spreads = {name: spread for name, found in kills.items() if (spread := Spread.of([kill.pause for kill in found]))}
    rows = [(name, spread.lowest, spread.median, spread.highest) for name, spread in spreads.items()]
    print(render(("pause after SIGKILL, seconds", "lowest", "median", "highest"), rows))
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[1]:.1f} in the last 5 minutes")
    if options.picture:
        text = timeline(
            "What readers get while a killed job restarts",
            "; ".join(f"{name}: pause of {found[-1].pause:.1f} s" for name, found in kills.items()),
            [_row(name, found[-1]) for name, found in kills.items()],
        )
        options.picture.with_suffix(".txt").write_text(text, encoding="utf-8")
        options.picture.write_text(draw(text), encoding="utf-8")


def _row(name: str, kill: Kill) -> Row:
    since = kill.at - _SECONDS_BEFORE
    marks = {kill.at: f"kill -9, then {kill.pause:.1f} s without a record"}
    return Row(title=name, timestamps=kill.received, marks=marks, since=since, until=max(kill.received) / 1000)


if __name__ == "__main__":
    main()
