"""The phases of a restart in seconds, from pods, the driver's log and readers. Pure.

All moments are seconds since 1970 by the machine's clock, which a local cluster's pods share.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sparkapp.model import names

ASKED = "asked"
"""The signal is sent, or ``kubectl scale`` has begun."""
LAST = "last checkpoint"
"""Of an attempt of the continuous engine that drains. Its subtasks are asked to end next."""
ANSWERED = "last answers"
"""Every subtask has said that it begins no transaction any more."""
DRAINED = "drained"
"""The document says that nothing is open."""
ENDED = "ended"
"""The previous driver's container has ended, according to the kubelet."""
CREATED = "pod created"
RUNNING = "pod running"
BEGUN = "job read"
"""Python runs and has read the job; the heavy imports follow."""
SPARK_UP = "Spark up"
"""In a cluster, with the executors that Spark waits for."""
ACTIVATED = "activated"
"""A standby driver is activated, or takes over; its earlier marks may be from before :data:`ASKED`."""
PLANNED = "planned"
"""The source is made and the transform planned."""
STARTED = "engine started"
LOST = "subtask lost"
"""The driver has noticed that a subtask of the continuous engine is gone."""
CONNECTED = "subtask connected"
"""The first subtask of the continuous engine has connected to the driver."""
RESCALED = "rescaled"
"""The next checkpoint of the running attempt has the new parallelism."""
FIRST_BATCH = "first batch"
"""The first checkpoint's splits are fixed and its tasks begin."""
DECIDED = "first commit"
"""The first checkpoint's document is written; the commit of its transactions and a reader's fetch follow."""
FLOWING = "flowing"
"""A read_committed reader has got a record of the new attempt."""

CHAIN = (
    ASKED, LAST, ANSWERED, DRAINED, ENDED, CREATED, RUNNING, BEGUN, SPARK_UP, ACTIVATED, PLANNED, STARTED, LOST,
    CONNECTED, RESCALED, FIRST_BATCH, DECIDED, FLOWING,
)  # fmt: skip
"""Marks in sequence; each phase has the name of the mark that ends it."""

RECOVERED = "recovered"
"""Transactions of previous attempts are settled, while Spark starts."""
PLACED = "source placed"
"""The source knows its partitions and where they resume, and the document has it."""
EXECUTOR_CREATED = "executor created"
EXECUTOR_RUNNING = "executor running"
OFFSETS_FREE = "stable offset free"
"""No transaction of the previous attempt holds a last stable offset back any more."""

CONCURRENT = (RECOVERED, PLACED, EXECUTOR_CREATED, EXECUTOR_RUNNING, OFFSETS_FREE)
"""Marks concurrent with the chain, shown as seconds since :data:`ASKED`."""

_LINES: Sequence[tuple[str, re.Pattern[str]]] = (
    (BEGUN, re.compile(r" __main__: attempt \d+ of \S+ begins")),
    (RECOVERED, re.compile(r"sparkapp\.spark\.wiring\.start: recovered checkpoint \d+")),
    (PLACED, re.compile(r"sparkapp\.spark\.wiring\.wiring: reading \d+ partitions")),
    (SPARK_UP, re.compile(r"sparkapp\.spark\.launch\.session: Spark \S+ is up")),
    (ACTIVATED, re.compile(r"sparkapp\.spark\.driver: attempt \d+ (is activated|takes over)")),
    (DRAINED, re.compile(r"sparkapp\.spark\.attempt: the document says that nothing is open")),
    (PLANNED, re.compile(r"sparkapp\.spark\.engine\.micro_batch\.query: columns read from Kafka")),
    (STARTED, re.compile(r"sparkapp\.spark\.attempt: the \w+ engine has started")),
    (LOST, re.compile(r"continuous\.control_server: subtask \d+ (is|has been silent for \d+ s and is) disconnected")),
    (RESCALED, re.compile(r"continuous\.rescaling: rescaled in place from \d+ to \d+")),
    (CONNECTED, re.compile(r"continuous\.control_server: subtask \d+ is connected")),
)
_CHECKPOINT = re.compile(
    r"checkpoint \d+: \d+ offsets in, \d+ transactions, (?P<took>\d+) ms \(write \d+ ms, commit (?P<commit>\d+) ms\)"
)
_ANSWERED = re.compile(r"every subtask has given its last answer, after (?P<took>\d+) ms")
_STAMP = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d) ")
"""The prefix of a line of ``kubectl logs --timestamps``: RFC 3339 with nanoseconds."""


def moment_of(line: str) -> float | None:
    """The moment of a line of the driver's log: the container runtime's stamp, or else the driver's own."""
    stamp = _STAMP.match(line)
    if stamp is not None:
        whole = datetime.fromisoformat(stamp["second"] + stamp["zone"].replace("Z", "+00:00")).astimezone(UTC)
        return whole.timestamp() + float(f"0{stamp['fraction'] or '.0'}")
    time = _logged(line).get("time")
    return None if time is None else datetime.fromisoformat(time).timestamp()


def _logged(line: str) -> dict[str, str]:
    """A line of Python's or Spark's log, behind the runtime's stamp; empty for other lines."""
    try:
        found = json.loads(line[line.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def marks_of_log(lines: Iterable[str]) -> dict[str, float]:
    """Marks of one driver's log, each from the first line that matches it.

    The line of a checkpoint comes when it is complete and has its duration. So the checkpoint's start and the moment of
    its decision are known, too.
    """
    marks: dict[str, float] = {}
    for line in lines:
        at, logged = moment_of(line), _logged(line)
        if at is None or not logged:
            continue
        text = f" {logged.get('logger')}: {logged.get('message')}"
        for mark, pattern in _LINES:
            if mark not in marks and pattern.search(text):
                marks[mark] = at
        if (answered := _ANSWERED.search(text)) is not None:
            marks[LAST], marks[ANSWERED] = at - int(answered["took"]) / 1000, at
        checkpoint = _CHECKPOINT.search(text)
        if checkpoint is not None and FIRST_BATCH not in marks:
            marks[FIRST_BATCH] = at - int(checkpoint["took"]) / 1000
            marks[DECIDED] = at - int(checkpoint["commit"]) / 1000
    return marks


def marks_of_pods(
    seen: Iterable[tuple[float, Mapping[str, Any]]], job: str, ended: int, attempt: int
) -> dict[str, float]:
    """Marks of the states of a job's pods.

    :param seen: each state with the moment at which it was seen, oldest first.
    :param ended: the attempt that was ended.
    :param attempt: the new attempt.
    """
    marks: dict[str, float] = {}
    previous, new = names.driver_pod(job, ended), names.driver_pod(job, attempt)
    for at, pod in seen:
        labels = pod["metadata"].get("labels", {})
        name = pod["metadata"]["name"]
        if name == previous and has_ended(pod):
            marks.setdefault(ENDED, at)
        elif name == new:
            marks.setdefault(CREATED, at)
            if runs(pod):
                marks.setdefault(RUNNING, at)
        elif labels.get(names.LABEL_ROLE) == names.ROLE_EXECUTOR and labels.get(names.LABEL_ATTEMPT) == str(attempt):
            marks.setdefault(EXECUTOR_CREATED, at)
            if runs(pod):
                marks.setdefault(EXECUTOR_RUNNING, at)
    return marks


def runs(pod: Mapping[str, Any]) -> bool:
    """Whether all of a pod's containers run."""
    states = _states(pod)
    return bool(states) and all("running" in state for state in states)


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether all of a pod's containers have ended."""
    states = _states(pod)
    return bool(states) and all("terminated" in state for state in states)


def phases(marks: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each phase, by the name of the mark that ends it.

    The seconds of a missing mark count for the next known mark. A mark out of order counts as 0: a watch is a little
    later than a log. So the sum is the time from the first known mark to the latest.
    """
    result: dict[str, float] = {}
    now: float | None = None
    for name in CHAIN:
        if name not in marks:
            continue
        if now is not None:
            result[name] = max(0.0, marks[name] - now)
        now = marks[name] if now is None else max(now, marks[name])
    return result


def concurrent(marks: Mapping[str, float]) -> dict[str, float]:
    """Seconds from :data:`ASKED` to each known mark of :data:`CONCURRENT`."""
    return {name: marks[name] - marks[ASKED] for name in CONCURRENT if name in marks}


def free_again(samples: Sequence[tuple[float, Mapping[int, int], Mapping[int, int]]], *, begun: float) -> float | None:
    """When readers could read all records of the previous attempt; None if it left no transaction open.

    :param samples: moment, last stable offset and high watermark of each partition, oldest first.
    :param begun: when the new attempt's program began. By then the previous attempt had ended, and the new attempt had
        written and settled nothing. So the last sample before shows the previous attempt's end and open transactions.
    """
    before = [sample for sample in samples if sample[0] <= begun]
    if not before:
        return None
    last, _, ends = before[-1]

    def held(stable: Mapping[int, int]) -> bool:
        return any(stable.get(partition, 0) < end for partition, end in ends.items())

    if not held(before[-1][1]):
        return None
    return next((at for at, stable, _ in samples if at > last and not held(stable)), None)


def longest_silence(arrivals: Sequence[float], *, since: float, until: float) -> float:
    """Seconds of the longest time without a record that overlaps the window; 0 if there is none."""
    times = sorted(arrivals)
    gaps = [b - a for a, b in itertools.pairwise(times) if b >= since and a <= until]
    return max(gaps, default=0.0)


def _states(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [container.get("state", {}) for container in pod.get("status", {}).get("containerStatuses", [])]
