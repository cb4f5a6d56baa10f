"""The contestants by name. A new contestant is an entry of :data:`CONTESTANTS`, and its program an entry of
:data:`PROGRAMS`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.workload import Shape
from sparkapp.model.delivery_guarantee import DeliveryGuarantee

CACHE = Path(os.environ.get("KAFKASPARK_CACHE", Path.home() / ".cache" / "kafkaspark")) / "bench"
_EXACTLY_ONCE, _AT_LEAST_ONCE = DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A way to run a contestant for latency.

    :param interval_millis: of its commits or checkpoints; 0 where its trigger decides.
    :param program: one of :data:`PROGRAMS` in place of the contestant's.
    """

    name: str
    interval_millis: int = 0
    program: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A program with a setting.

    :param program: one of :data:`PROGRAMS`. Contestants of one program share its process, one after the other.
    :param shapes: the workloads that it can do.
    :param paces: of its runs for latency; none where they would say nothing more.
    """

    name: str
    title: str
    program: str
    delivery_guarantee: DeliveryGuarantee
    shapes: frozenset[Shape]
    options: Mapping[str, str] = field(default_factory=dict)
    paces: tuple[Pace, ...] = ()


def variant(contestant: Contestant, pace: Pace) -> str:
    """The name of a contestant at a pace, in the results."""
    return f"{contestant.name}, {pace.name}"


def _intervals(*millis: int, **options: str) -> tuple[Pace, ...]:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return tuple(Pace(name=f"{each} ms", interval_millis=each, options=named) for each in millis)


_FLINK_TUNED = {
    "producer.batch.size": "1048576", "producer.linger.ms": "5", "producer.buffer.memory": "67108864",
    "consumer.max.poll.records": "10000",
}  # fmt: skip
"""Clients for throughput. Flink has the defaults of Kafka's clients, for instance 16 KiB a batch."""
_KEY_AND_VALUE = {"columns": "key-and-value"}
"""What the other programs copy. By default our engines also keep a record's time and headers."""
_CONTINUOUS = {"engine": "Continuous"}
_SQL = {"transform": "sql"}
"""The query of the micro-batch engine, in place of a function over Arrow batches."""
_LOCAL = {**_CONTINUOUS, "commit-interval-millis": "50", "interval-millis": "200"}
"""The driver records the subtasks' commits every 200 ms. A run ends with the last record."""
_NO_LINGER = {"linger-millis": "0"}
"""No producer of any contestant lingers for latency."""
_AS_FLINKS_OFFSETS = {**_CONTINUOUS, **_NO_LINGER, "offset-commit": "OnCheckpoint"}
"""Flink commits offsets to the group after a checkpoint, too, and not in the transactions."""
_FUNCTION = {"arrow-function": "bench.peers.programs.same_records:same_records"}
_COPY, _PROJECT = frozenset({Shape.COPY}), frozenset({Shape.PROJECT})
_KEYED = frozenset({Shape.COUNT, Shape.DEDUPLICATE})

CONTESTANTS = (
    Contestant(
        name="ours-exactly-once", title="ours, micro-batch", program="ours", delivery_guarantee=_EXACTLY_ONCE,
        shapes=_COPY | _PROJECT | _KEYED, options=_KEY_AND_VALUE, paces=_intervals(1000, **_NO_LINGER),
    ),
    Contestant(
        name="ours-continuous", title="ours, continuous", program="ours-continuous",
        delivery_guarantee=_EXACTLY_ONCE, shapes=_COPY | _PROJECT, options=_CONTINUOUS | _KEY_AND_VALUE,
        paces=(
            *_intervals(100, 1000, **_CONTINUOUS, **_NO_LINGER),
            Pace(name="100 ms, offsets OnCheckpoint", interval_millis=100, options=_AS_FLINKS_OFFSETS),
        ),
    ),
    Contestant(
        name="ours-sql", title="ours, SQL, continuous", program="ours-continuous", delivery_guarantee=_EXACTLY_ONCE,
        shapes=_COPY | _PROJECT, options=_CONTINUOUS | _KEY_AND_VALUE | _SQL,
        paces=_intervals(200, 1000, **_CONTINUOUS, **_NO_LINGER, **_KEY_AND_VALUE, **_SQL),
    ),
    Contestant(
        name="ours-continuous-at-least-once", title="ours, continuous", program="ours-continuous",
        delivery_guarantee=_AT_LEAST_ONCE, shapes=_COPY, options=_CONTINUOUS | _KEY_AND_VALUE,
    ),
    Contestant(
        name="ours-continuous-everything", title="ours, continuous, time and headers, too", program="ours-continuous",
        delivery_guarantee=_EXACTLY_ONCE, shapes=_COPY, options=_CONTINUOUS,
    ),
    Contestant(
        name="ours-local", title="ours, continuous, local pace", program="ours-continuous",
        delivery_guarantee=_EXACTLY_ONCE, shapes=_COPY, options=_LOCAL | _KEY_AND_VALUE,
        paces=(
            Pace(name="50 ms", options=_LOCAL | _NO_LINGER),
            Pace(name="50 ms, Python function", options=_LOCAL | _NO_LINGER | _FUNCTION),
        ),
    ),
    Contestant(
        name="ours-at-least-once", title="ours, micro-batch", program="ours", delivery_guarantee=_AT_LEAST_ONCE,
        shapes=_COPY, options=_KEY_AND_VALUE,
    ),
    Contestant(
        name="spark", title="Spark's connector", program="spark", delivery_guarantee=_AT_LEAST_ONCE,
        shapes=_COPY | _PROJECT | _KEYED,
        paces=(
            Pace(name="micro-batches"),
            Pace(name="real-time trigger", program="spark-real-time", options={"trigger": "real-time"}),
        ),
    ),
    Contestant(
        name="c-exactly-once", title="C loop", program="c-loop", delivery_guarantee=_EXACTLY_ONCE, shapes=_COPY,
        paces=_intervals(50, 100, 1000, fetch_wait_millis="500", **_NO_LINGER),
    ),
    Contestant(
        name="c-at-least-once", title="C loop", program="c-loop", delivery_guarantee=_AT_LEAST_ONCE, shapes=_COPY,
    ),
    Contestant(
        name="flink-exactly-once", title="Flink", program="flink", delivery_guarantee=_EXACTLY_ONCE,
        shapes=_COPY, options=_FLINK_TUNED, paces=_intervals(50, 100, 1000, **{"producer.linger.ms": "0"}),
    ),
    Contestant(
        name="flink-default", title="Flink, default clients", program="flink", delivery_guarantee=_EXACTLY_ONCE,
        shapes=_COPY,
    ),
    Contestant(
        name="flink-at-least-once", title="Flink", program="flink",
        delivery_guarantee=_AT_LEAST_ONCE, shapes=_COPY, options=_FLINK_TUNED,
    ),
    Contestant(
        name="flink-sql", title="Flink SQL", program="flink", delivery_guarantee=_EXACTLY_ONCE,
        shapes=_PROJECT | _KEYED, options=_FLINK_TUNED,
    ),
)  # fmt: skip
Command = Sequence[str | Path]


def _in_python(module: str, parallelism: int) -> Command:
    return [sys.executable, "-m", f"bench.peers.programs.{module}", "--parallelism", str(parallelism)]


def _c_loop(_: int) -> Command:
    from bench.peers.programs import c_loop

    return [c_loop.build(CACHE)]


def _flink(_: int) -> Command:
    from bench.peers.programs import flink_cluster

    return flink_cluster.command(CACHE)


LATENCY_PARTITIONS = 4
PROGRAMS: Mapping[str, Callable[[int], Command]] = {
    "ours": lambda parallelism: _in_python("ours", parallelism),
    # A process of its own: memory is that of a process, whatever it has done before.
    "ours-continuous": lambda parallelism: _in_python("ours", parallelism),
    "spark": lambda parallelism: _in_python("spark_connector", parallelism),
    # A real-time query needs a slot for every partition at the same time.
    "spark-real-time": lambda _: _in_python("spark_connector", LATENCY_PARTITIONS),
    "c-loop": _c_loop,
    "flink": _flink,
}
"""The command of each program by its parallelism. The call builds what the program needs."""
