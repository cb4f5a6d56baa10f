"""A job on a page: what its resource and its pods say, in the order in which a person asks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Body = Mapping[str, Any]

_GOOD = {"Stalled": "False", "Reconciling": "False"}
"""The good status of conditions whose good status is not True."""
_RESTING = frozenset({"Suspended", "Finished"})


@dataclass(frozen=True, slots=True)
class Overview:
    """Rows of a title and lines of text, and the command that comes next."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    next_commands: tuple[str, ...]

    def text(self) -> str:
        """The page, without a final newline."""
        width = max(len(title) for title, _ in self.rows) + 2
        lines = [
            f"{title if number == 0 else '':<{width}}{line}"
            for title, texts in self.rows
            for number, line in enumerate(texts)
        ]
        return "\n".join([*lines, "", *(f"$ {command}" for command in self.next_commands)])


def overview(job: Body, pods: Sequence[Body], *, now: datetime, verbose: bool = False) -> Overview:
    """The page of a job.

    :param job: the resource, and ``pods`` those with its label; both as the API has them.
    :param verbose: also with conditions that are as they should be, and with the log of the last failure.
    """
    meta, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    rows = [
        ("Job", (f"{meta['namespace']}/{meta['name']}, {_age(meta.get('creationTimestamp'), now)} old",)),
        ("State", _state(status)),
        ("Data", _data(spec, status)),
        ("Attempt", _attempt(status, now)),
        ("Pods", _pods(pods)),
        ("Checkpoint", _checkpoint(status, now)),
        ("Records", _records(status)),
        ("Transactions", _transactions(status)),
        ("Conditions", _conditions(status, verbose=verbose)),
        ("Last failure", _last_failure(status, verbose=verbose)),
    ]
    shown = tuple((title, tuple(map(printable, lines))) for title, lines in rows if lines)
    return Overview(shown, _next(meta, spec, status))


def ready_of(status: Body) -> str:
    """The status of the condition Ready; Unknown where there is none."""
    found = (str(each["status"]) for each in status.get("conditions") or () if each["type"] == "Ready")
    return next(found, "Unknown")


def is_well(status: Body) -> bool:
    """Whether the job is Ready, or rests as it was asked to."""
    return ready_of(status) == "True" or status.get("state") in _RESTING


def printable(line: str, *, keep: str = "") -> str:
    """A line of text of the cluster, with a space for each control character but those to keep."""
    return "".join(letter if letter.isprintable() or letter in keep else " " for letter in line)


def _state(status: Body) -> tuple[str, ...]:
    if not status:
        return ("unknown: the operator has written no status; is it installed, and does it watch this namespace?",)
    said = status.get("reason") if status.get("reason") != status.get("state") else ""
    first = f"{status.get('state', 'unknown')}{f' ({said})' if said else ''}, Ready {ready_of(status)}"
    return (first, *_wrapped(str(status.get("message", ""))))


def _data(spec: Body, status: Body) -> tuple[str, ...]:
    source, sink, engine = spec.get("source") or {}, spec.get("sink") or {}, status.get("engine") or {}
    topics = ", ".join(source.get("topics") or ()) or str(source.get("topicPattern") or "?")
    why = f": {engine['message']}" if engine.get("message") else ""
    return (
        f"{topics} → {sink.get('topic') or '?'}, {sink.get('deliveryGuarantee', 'ExactlyOnce')}",
        *((f"engine {engine['name']}{why}",) if engine.get("name") else ()),
    )


def _attempt(status: Body, now: datetime) -> tuple[str, ...]:
    attempt = status.get("attempt") or {}
    if "id" not in attempt:
        return ()
    ended = f", ended: {attempt['outcome']}" if attempt.get("outcome") else ""
    restarts = (status.get("restarts") or {}).get("total", 0)
    next_at = (status.get("restarts") or {}).get("nextRetryTime")
    started = f"started {_age(attempt.get('startedAt'), now)} ago ({attempt.get('startReason', '')}){ended}"
    parallelism = status.get("parallelism", "?")
    waits = f"; the next attempt starts at {next_at}" if next_at else ""
    return (f"{attempt['id']} with parallelism {parallelism}, {started}; {restarts} restarts{waits}",)


def _pods(pods: Iterable[Body]) -> tuple[str, ...]:
    lines = []
    for pod in sorted(pods, key=lambda each: str(each["metadata"]["name"])):
        status, meta = pod.get("status") or {}, pod["metadata"]
        containers = status.get("containerStatuses") or ()
        waiting = [
            f"{state['waiting'].get('reason', 'waits')}: {state['waiting'].get('message', '')}".rstrip(": ")
            for state in (each.get("state") or {} for each in containers)
            if "waiting" in state
        ]
        unscheduled = [
            str(each.get("message", ""))
            for each in status.get("conditions") or ()
            if each.get("type") == "PodScheduled" and each.get("status") == "False"
        ]
        phase = "Terminating" if meta.get("deletionTimestamp") else status.get("phase", "Unknown")
        node = (pod.get("spec") or {}).get("nodeName")
        what = "; ".join([str(phase), *waiting, *unscheduled])
        lines.append(f"{meta['name']}  {what}{f' on {node}' if node else ''}")
    return tuple(lines)


def _checkpoint(status: Body, now: datetime) -> tuple[str, ...]:
    checkpoint = status.get("checkpoint") or {}
    if "id" not in checkpoint:
        return ("none is completed yet",) if status else ()
    took = f", took {checkpoint['durationMillis']} ms" if "durationMillis" in checkpoint else ""
    return (f"{checkpoint['id']}, {_age(checkpoint.get('time'), now)} ago{took}, {checkpoint.get('bytes', '?')} bytes",)


def _records(status: Body) -> tuple[str, ...]:
    source, sink = status.get("source") or {}, status.get("sink") or {}
    if not source and not sink:
        return ()
    # What is not reported is unknown, and never 0.
    lag, read, written = source.get("lagRecords", "?"), source.get("recordsIn", "?"), sink.get("recordsOut", "?")
    rates = [source.get("recordsPerSecond", "?"), sink.get("recordsPerSecond", "?")]
    apart = {"skipped": source.get("recordsSkipped"), "dead letters": sink.get("recordsDeadLettered")}
    more = "".join(f", {count} {what}" for what, count in apart.items() if count)
    return (f"lag {lag}; in {read} ({rates[0]}/s), out {written} ({rates[1]}/s){more}",)


def _transactions(status: Body) -> tuple[str, ...]:
    found = status.get("transactions") or {}
    if not found:
        return ()
    counts = ", ".join(f"{found.get(name, '?')} {name}" for name in ("open", "committed", "aborted"))
    return (f"{counts}; ids begin with {found.get('prefix', '?')}",)


def _conditions(status: Body, *, verbose: bool) -> tuple[str, ...]:
    lines: list[str] = []
    state = status.get("state")
    for condition in status.get("conditions") or ():
        kind, value = condition["type"], condition["status"]
        is_good = value == _GOOD.get(kind, "True")
        # A job at rest has no driver: what only a driver knows is unknown then, and as it should be.
        is_rest = state in _RESTING and (value == "Unknown" or condition.get("reason") == state)
        if verbose or not (is_good or is_rest or kind in {"Ready", "Reconciling"}):
            lines += (f"{kind} {value} ({condition.get('reason', '')})",)
            lines += (f"  {line}" for line in _wrapped(str(condition.get("message", ""))))
    return tuple(lines)


def _last_failure(status: Body, *, verbose: bool) -> tuple[str, ...]:
    failure = status.get("lastFailure") or {}
    if not failure:
        return ()
    kind = "fatal, " if failure.get("fatal") else ""
    first = f"attempt {failure.get('attempt', '?')}, {kind}{failure.get('reason', '?')} at {failure.get('time', '?')}"
    log = str(failure.get("log", "")).splitlines() if verbose else ()
    remedy = _wrapped(f"Remedy: {failure['remedy']}") if failure.get("remedy") else ()
    return (first, *_wrapped(str(failure.get("message", ""))), *remedy, *(f"  {line}" for line in log))


def _next(meta: Body, spec: Body, status: Body) -> tuple[str, ...]:
    name, namespace = meta["name"], meta["namespace"]
    patch = f"kubectl patch ksj {name} --namespace {namespace} --type merge --patch"
    state = status.get("state")
    if spec.get("suspend"):
        return (f'{patch} \'{{"spec":{{"suspend":false}}}}\'',)
    if state == "Failed":
        shown = f"kafkaspark status {name} --namespace {namespace} --verbose"
        if any("backTo" in each and each.get("standing") for each in status.get("refused") or ()):
            return (shown,)  # another nonce tries the refused revision, as the remedy says
        return (shown, f'{patch} "{{\\"spec\\":{{\\"restartNonce\\":$(date +%s)}}}}"')
    if not status:
        return ("kubectl get pods --all-namespaces --selector app.kubernetes.io/name=kafkaspark-operator",)
    follow = f"kafkaspark logs {name} --namespace {namespace} --follow"
    return (follow, f"kafkaspark topic tail {(spec.get('sink') or {}).get('topic') or 'TOPIC'} --follow")


def _age(time: object, now: datetime) -> str:
    """Of a time of the API, in one unit; ``?`` where it is missing or no time."""
    try:
        seconds = int((now - datetime.fromisoformat(str(time))).total_seconds())
    except (ValueError, TypeError):
        return "?"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{max(0, seconds)} s"


def _wrapped(text: str) -> tuple[str, ...]:
    """Lines of at most 100 characters, cut at spaces; commands stay as they are."""
    return tuple(textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False))
