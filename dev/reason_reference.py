"""The tables of reasons in the documentation, generated from errors and reasons: ``make generate`` writes them.

``docs/reasons.md`` has a table between two comments for each of :data:`TABLES`. A test holds that the tables are what
this module generates, so that code and page cannot differ. A row is a class of :mod:`sparkapp.model.errors`, a
:class:`DriverEvent` or a :class:`JobReason`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from kafkasparkjob_operator.status.phases import TRANSITIONS, Bound
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.scaling_reason import ScalingReason
from kafkasparkjob_operator.status.snapshot_fields import SnapshotReason
from sparkapp.model.errors import CommandRefused, KafkaSparkJobError, ListingUnsupported, kinds_of
from sparkapp.model.event_reason import DriverEvent, ExplainedReason

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "reasons.md"

NEVER_SHOWN = frozenset({CommandRefused, ListingUnsupported})
"""Errors of commands for people, and of what a job always does without: neither ends an attempt."""

GUIDES: Mapping[str, str] = {
    "AuthorizationFailed": "[Kafka ACLs](kafka-acls.md)",
    "CheckpointNotRetained": "[Checkpoints](checkpoints.md)",
    "CheckpointRefused": "[The state ConfigMap](state.md#the-state-configmap)",
    "CheckpointStoreUnavailable": "[The state ConfigMap](state.md#the-state-configmap)",
    "CheckpointTooLarge": "[The state ConfigMap](state.md#the-state-configmap)",
    "CheckpointUnusable": "[Checkpoints](checkpoints.md)",
    "ClusterChanged": "[Another Kafka cluster](state.md#another-kafka-cluster)",
    "CodeChanged": "[Changed code](operations.md#changed-code)",
    "CodeMissing": "[Changed code](operations.md#changed-code)",
    "CredentialsChanged": "[Rotation](security.md#rotation)",
    "Deleting": "[Delete](operations.md#rescale-suspend-delete)",
    "ExecutorsFailed": "[Lost executors](operations.md#lost-executors)",
    "ExecutorsPending": "[ADR 65](adr/0065-refused-executors-are-a-state.md)",
    "ExtensionMissing": "[Build your image](build-your-image.md)",
    "ForeignObject": "[ADR 30](adr/0030-what-makes-an-attempt.md)",
    "GroupOffsetsBehind": "[The group after a crash](checkpoints.md#the-group-after-a-crash)",
    "GroupOffsetsMissing": "[The group after a crash](checkpoints.md#the-group-after-a-crash)",
    "GroupOffsetsMoved": "[The group after a crash](checkpoints.md#the-group-after-a-crash)",
    "HeartbeatTimeout": "[Silent drivers](operations.md#silent-drivers)",
    "IncarnationMismatch": "[A job that is created again](state.md#a-job-that-is-created-again)",
    "InternalError": "[The log of the last failure](#the-log-of-the-last-failure); please report it.",
    "InvalidArgument": "[The log of the last failure](#the-log-of-the-last-failure); please report it.",
    "NameNotAllowed": "[Tenants](security.md#tenants)",
    "NotDrained": "[Transactions by hand](state.md#transactions-by-hand)",
    "PreCommitFailed": "[Refused records](sink.md#refused-records)",
    "QueryStateIncompatible": "[Stateful transforms](stateful.md#refusals)",
    "QueryStateMissing": "[Stateful transforms](stateful.md#refusals)",
    "RecordError": "[Formats](formats.md)",
    "RecordsDeadLettered": "[Formats](formats.md#onrecorderror-and-deadletter)",
    "RecordsSkipped": "[Formats](formats.md#onrecorderror-and-deadletter)",
    "ReleaseMismatch": "[Upgrading](operations.md#upgrading)",
    "RollbackRefused": "[Changes and rollback](operations.md#changes-and-rollback)",
    "RolledBack": "[Changes and rollback](operations.md#changes-and-rollback)",
    "RescaleRefused": "[Rescale in place](operations.md#rescale-in-place)",
    "RescalingInPlace": "[Rescale in place](operations.md#rescale-in-place)",
    "RepartitionRefused": "[Stateful transforms](stateful.md#rescale)",
    "RestoreRefused": "[Checkpoints](checkpoints.md)",
    "StateRepartitioned": "[Stateful transforms](stateful.md#rescale)",
    "StateCorrupt": "[The state ConfigMap](state.md#the-state-configmap)",
    "StateEdited": "[Edited offsets](state.md#edited-offsets)",
    "StateForeign": "[The state ConfigMap](state.md#the-state-configmap)",
    "StateMissing": "[When the state is gone](state.md#when-the-state-is-gone)",
    "StateRolledBack": "[An earlier state](state.md#an-earlier-state)",
    "StateUncertain": "[Expired ids](internals/exactly-once.md#limits)",
    "StreamStalled": "[The log of the last failure](#the-log-of-the-last-failure)",
    "ScalingAdvised": "[The autoscaler](operations.md#the-autoscaler)",
    "ScalingBlocked": "[Findings of the autoscaler](#findings-of-the-autoscaler)",
    "ScalingDown": "[The autoscaler](operations.md#the-autoscaler)",
    "ScalingUp": "[The autoscaler](operations.md#the-autoscaler)",
    "SubtasksIdle": "[Rates and parallelism](source.md#rates-and-parallelism)",
    "Superseded": "[The state ConfigMap](state.md#the-state-configmap)",
    "TopicNotFound": "[Sink](sink.md)",
    "TopicRecreated": "[Source](source.md#records-and-topics-that-are-gone)",
    "TransactionFailed": "[The log of the last failure](#the-log-of-the-last-failure); please report it.",
    "TransactionHanging": "[Transactions by hand](state.md#transactions-by-hand)",
    "TransactionLost": "[Sink](sink.md#transactions-that-were-lost)",
    "TransactionsNotDurable": "[Copies of topics](operations.md#copies-of-topics)",
}
"""Where the documentation has more about a reason."""

RESTARTS: Mapping[str, str] = {"no": "no", "yes": "yes", "no/yes": "by its cause"}
"""The cell of a reason by the fatality of its errors, from the base class on."""

_FOR_DEVELOPERS = re.compile(r"\s*\((?:cases? [A-Z]\d+[^)]*|ADR \d+|KIP-\d+|GroupMetadataManager)\)")
_COMMAND = re.compile(
    r"`[^`]*`|\b(?:kubectl|openssl|make|kafka-[a-z-]+\.sh) .+?(?=;|\. | \(or | lists| shows|, and |\)(?:[, ]|$)|$)"
)
_FIELD = re.compile(r"\b(?:spec|source|sink|status|restartPolicy)(?:\.\w+)+|\b\w+\.(?:\w+\.)+(?:ms|bytes|size)\b")


def page(text: str) -> str:
    """The page with its tables; called by :func:`main` and by the drift test.

    :param text: the present page, whose prose stays.
    """
    for name, rows in TABLES.items():
        begin, end = f"<!-- table: {name} -->\n", f"<!-- end: {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            msg = f"{PAGE.name} lacks the comments of table {name}"
            raise ValueError(msg)
        text = f"{before}{begin}\n{chr(10).join(rows())}\n\n{end}{after}"
    return text


def failures() -> Iterator[str]:
    """A row for each error that can end an attempt."""
    yield "| reason | condition | restarts | cause | remedy |"
    yield "|---|---|---|---|---|"
    kinds = {kind for kind in kinds_of() if kind.__module__.startswith("sparkapp.model.errors")} - NEVER_SHOWN
    by_reason: dict[str, list[type[KafkaSparkJobError]]] = {}
    for kind in sorted(kinds, key=lambda kind: (len(kind.__mro__), kind.__name__)):
        by_reason.setdefault(kind.reason, []).append(kind)
    for reason, same in sorted(by_reason.items()):
        condition = f"`{same[0].condition}`" if same[0].condition else ""
        restarts = "/".join(dict.fromkeys("no" if kind.fatal else "yes" for kind in same))
        causes = " Or: ".join(map(_cause, same))
        remedies = " Or: ".join(dict.fromkeys(_sentences(kind.default_remedy) for kind in same))
        yield _row(f"`{reason}`", condition, RESTARTS[restarts], causes, _with_guide(reason, remedies))


def operators() -> Iterator[str]:
    """A row for each reason of the operator with something to do."""
    return _explained(JobReason)


def drivers() -> Iterator[str]:
    """A row for each event of a driver with something to do."""
    return _explained(DriverEvent)


def snapshots() -> Iterator[str]:
    """A row for each reason of a snapshot with something to do."""
    return _explained(SnapshotReason)


def phases() -> Iterator[str]:
    """A row for each transition of the state machine."""
    yield "| phase | reasons | limit | follows | otherwise | awaits |"
    yield "|---|---|---|---|---|---|"
    for row in TRANSITIONS:
        reasons = ", ".join(f"`{reason}`" for reason in sorted(row.reasons)) or "every other"
        seconds = "" if row.seconds is None else f" {row.seconds:.0f} s"
        limit = {Bound.DEADLINE: "deadline", Bound.PROGRESS: "without progress", Bound.OUTSIDE: "none"}[row.bound]
        follows = ", ".join(f"`{phase}`" for phase in row.success) or "the end of the resource"
        yield _row(f"`{row.phase}`", reasons, f"{limit}{seconds}", follows, row.otherwise, f"`{row.actor}`")


def scalings() -> Iterator[str]:
    """A row for each finding of the autoscaler."""
    yield "| finding | meaning | remedy |"
    yield "|---|---|---|"
    for reason in sorted(ScalingReason, key=str):
        yield _row(f"`{reason}`", reason.meaning, reason.remedy or "Nothing to do.")


def healthy() -> Iterator[str]:
    """A row for each reason without a remedy, of operator and driver."""
    yield "| reason | of | meaning |"
    yield "|---|---|---|"
    reasons: dict[str, ExplainedReason] = {str(reason): reason for kind in (DriverEvent, JobReason) for reason in kind}
    for name, reason in sorted(reasons.items()):
        if not reason.remedy:
            whose = "operator" if isinstance(reason, JobReason) else "driver, an event"
            yield _row(f"`{name}`", whose, _with_guide(name, reason.meaning))


TABLES: Mapping[str, Callable[[], Iterable[str]]] = {
    "failures": failures,
    "operator": operators,
    "driver": drivers,
    "snapshots": snapshots,
    "autoscaler": scalings,
    "healthy": healthy,
    "phases": phases,
}


def _explained(kind: type[ExplainedReason]) -> Iterator[str]:
    yield "| reason | meaning | remedy |"
    yield "|---|---|---|"
    for reason in sorted(kind, key=str):
        if reason.remedy:
            yield _row(f"`{reason}`", reason.meaning, _with_guide(reason, reason.remedy))


def _cause(kind: type[KafkaSparkJobError]) -> str:
    """The class's docstring, without what it says to developers, as Markdown."""
    if kind is KafkaSparkJobError:
        return "No rule covers the error."
    text = " ".join((inspect.getdoc(kind) or "").partition("\n:ivar")[0].split())
    return _FOR_DEVELOPERS.sub("", text).replace("``", "`")


def _with_guide(reason: str, text: str) -> str:
    parts = (_sentences(text), GUIDES.get(str(reason), ""))
    return " ".join(part for part in parts if part) or "The message has the cause."


def _sentences(text: str) -> str:
    """A remedy as sentences, with its commands and fields as code."""
    if not text:
        return ""
    parts = _COMMAND.split(text)
    commands = [found if found.startswith("`") else f"`{found}`" for found in _COMMAND.findall(text)]
    prose = [_FIELD.sub(lambda found: f"`{found.group()}`", part) for part in parts]
    whole = prose[0] + "".join(command + part for command, part in zip(commands, prose[1:], strict=True))
    return whole[0].upper() + whole[1:] + ("" if whole[-1] in ".?!" else ".")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    """Writes the page; the exit status is 0."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(REPOSITORY)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
