"""From what is seen of a restart (pods, the driver's log, readers) to seconds of each of its phases. Pure.

All moments are seconds since 1970 on the clock of the machine, which a local cluster's pods share.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sparkapp.model import names

ASKED = "asked"
"""The signal is sent, or ``kubectl scale`` has begun."""
ENDED = "ended"
"""The former driver's container has ended, by the kubelet's account."""
CREATED = "pod created"
RUNNING = "pod running"
BEGUN = "job read"
"""Python runs and has read the job; what is heavy is not imported yet."""
SPARK_UP = "Spark up"
"""In a cluster, with the executors that Spark waits for."""
TURN = "turn given"
"""An attempt that came up beside the former one goes on; the marks before this one may be from before :data:`ASKED`."""
PLANNED = "planned"
"""The source is made and the transform planned."""
STARTED = "query started"
FIRST_BATCH = "first batch"
"""The first checkpoint's splits are fixed and its tasks begin."""
DECIDED = "first commit"
"""The first checkpoint's document is written; what follows is its transactions' commit and a reader's fetch."""
FLOWING = "flowing"
"""A read_committed reader has got a record that the new life has written."""

CHAIN = (ASKED, ENDED, CREATED, RUNNING, BEGUN, SPARK_UP, TURN, PLANNED, STARTED, FIRST_BATCH, DECIDED, FLOWING)
"""What happens one after the other; each phase is called by the mark that ends it."""

RECOVERED = "recovered"
"""Former attempts' transactions are settled; goes on beside Spark's start."""
EXECUTOR_CREATED = "executor created"
EXECUTOR_RUNNING = "executor running"
OFFSETS_FREE = "stable offset free"
"""No partition's last stable offset is held back by the former life any more."""

BESIDE = (RECOVERED, EXECUTOR_CREATED, EXECUTOR_RUNNING, OFFSETS_FREE)
"""What goes on beside the chain; told as seconds since :data:`ASKED`."""

_LINES: Sequence[tuple[str, re.Pattern[str]]] = (
    (BEGUN, re.compile(r" __main__: attempt \d+ of \S+ begins")),
    (RECOVERED, re.compile(r"sparkapp\.spark\.driver: goes on after checkpoint \d+")),
    (SPARK_UP, re.compile(r"sparkapp\.spark\.session: Spark \S+ is up")),
    (TURN, re.compile(r"sparkapp\.spark\.driver: attempt \d+ has its turn")),
    (PLANNED, re.compile(r"sparkapp\.spark\.engine: columns read from Kafka")),
    (STARTED, re.compile(r"sparkapp\.spark\.driver: the query runs")),
)
_CHECKPOINT = re.compile(
    r"checkpoint \d+: \d+ offsets in, \d+ transactions, (?P<took>\d+) ms \(write \d+ ms, commit (?P<commit>\d+) ms\)"
)
_STAMP = re.compile(r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d\d:\d\d) ")
"""What ``kubectl logs --timestamps`` puts before each line: RFC 3339 with nanoseconds."""
_LOGGED = re.compile(r"(?P<second>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<millis>\d{3}) ")
"""What the driver puts before each line, in the zone of its machine."""


def moment_of(line: str) -> float | None:
    """When a line of the driver's log was written: the container runtime's stamp if there is one, else its own."""
    stamp = _STAMP.match(line)
    if stamp is not None:
        whole = datetime.fromisoformat(stamp["second"] + stamp["zone"].replace("Z", "+00:00")).astimezone(UTC)
        return whole.timestamp() + float(f"0{stamp['fraction'] or '.0'}")
    logged = _LOGGED.match(line)
    if logged is None:
        return None
    whole = datetime.strptime(logged["second"], "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 (the machine's own zone)
    return whole.timestamp() + int(logged["millis"]) / 1000


def marks_of_log(lines: Iterable[str]) -> dict[str, float]:
    """Marks that the log of one driver tells; each is set by the first line that tells it.

    The line about a checkpoint comes when it is complete and says how long it took, so its beginning and the moment of
    its decision are known, too.
    """
    marks: dict[str, float] = {}
    for line in lines:
        at = moment_of(line)
        if at is None:
            continue
        for mark, pattern in _LINES:
            if mark not in marks and pattern.search(line):
                marks[mark] = at
        checkpoint = _CHECKPOINT.search(line)
        if checkpoint is not None and FIRST_BATCH not in marks:
            marks[FIRST_BATCH] = at - int(checkpoint["took"]) / 1000
            marks[DECIDED] = at - int(checkpoint["commit"]) / 1000
    return marks


def marks_of_pods(
    seen: Iterable[tuple[float, Mapping[str, Any]]], job: str, ended: int, attempt: int
) -> dict[str, float]:
    """Marks that states of a job's pods tell.

    :param seen: each state with the moment at which it was seen, oldest first.
    :param ended: the attempt whose life was ended.
    :param attempt: the new one.
    """
    marks: dict[str, float] = {}
    former, new = names.driver_pod(job, ended), names.driver_pod(job, attempt)
    for at, pod in seen:
        labels = pod["metadata"].get("labels", {})
        name = pod["metadata"]["name"]
        if name == former and has_ended(pod):
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
    return bool(states) and all("running" in one for one in states)


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether all of a pod's containers have ended."""
    states = _states(pod)
    return bool(states) and all("terminated" in one for one in states)


def phases(marks: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each phase, called by the mark that ends it.

    A mark that is not known leaves its seconds to the next one that is. What is seen out of order (a watch tells a
    little later than a log) counts as 0, so that the sum is the whole, from the first known mark to the latest.
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


def beside(marks: Mapping[str, float]) -> dict[str, float]:
    """Seconds from :data:`ASKED` to each mark beside the chain that is known."""
    return {name: marks[name] - marks[ASKED] for name in BESIDE if name in marks}


def free_again(samples: Sequence[tuple[float, Mapping[int, int], Mapping[int, int]]], *, begun: float) -> float | None:
    """When readers could pass all that the former life had written; None where it had left nothing open.

    :param samples: moment, last stable offset and high watermark of each partition, oldest first.
    :param begun: when the new life's program began. It had written and settled nothing, and the former life was gone:
        what was the end in the last sample before is the former life's, and what held readers back then is, too.
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
    """Seconds of the longest time without a record for a reader, of those that overlap the window; 0 without any."""
    times = sorted(arrivals)
    gaps = [b - a for a, b in itertools.pairwise(times) if b >= since and a <= until]
    return max(gaps, default=0.0)


def _states(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one.get("state", {}) for one in pod.get("status", {}).get("containerStatuses", [])]
