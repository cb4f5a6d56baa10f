"""The status of a job whose driver exists: from the pod until the driver reports, then from its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.decisions.attempts import (
    CODE_DIGEST,
    REVISION,
    first_report_by,
    record_of,
    show_spec,
    show_start,
    spec_of,
    start_reason,
)
from kafkasparkjob_operator.decisions.executors import (
    PENDING,
    Missing,
    missing_executors,
    tell_refusal,
    without_executors,
)
from kafkasparkjob_operator.decisions.revisions.refusal import OF_THE_IMAGE, image_remedy, is_refused
from kafkasparkjob_operator.identity import JobIdentity, JobKey
from kafkasparkjob_operator.observation.observation import Live
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.events import REMEMBER_SECONDS
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.reasons import JobReason, StartReason, StopReason
from kafkasparkjob_operator.status.status import INVALID_SPEC, JobState, StatusDraft
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import names
from sparkapp.model.checkpoint.naming import MAX_PARALLELISM
from sparkapp.model.errors import RecordError, RecordRefused, TransformFailed
from sparkapp.model.report import DriverState, Report

_AT_A_RECORD = frozenset({TransformFailed.reason, RecordError.reason, RecordRefused.reason})
"""Reasons of failures that the same record causes again."""
SLOW_STOP_SECONDS = 30
"""After a pod's time of deletion, which includes its grace period."""
LOOK_AGAIN_WHILE_WAITING = 10.0
"""Pod events usually come sooner; this covers a lost event."""
MIN_STALL_SECONDS = 60
STALL_INTERVALS = 5
"""A checkpoint that is late by this number of intervals, with records waiting, is stalled."""
STALLED = JobReason.CHECKPOINT_STALLED
LAG_UNKNOWN = "LagUnknown"


def adopt(
    draft: StatusDraft, driver: PodView, look: Callable[[], Live], job: JobIdentity, settings: JobSettings
) -> None:
    """Records a driver whose start is not in the status: the status was lost, or the operator stopped in between.

    Called before the driver's report is shown, which is newer than its start.

    :param look: returns the live part of the observation; called where it is needed.
    """
    section = draft.section("attempt")
    if section.get("id") == driver.attempt and section.get("driverPodUID") == driver.uid:
        return
    if section.get("id") != driver.attempt:
        live = look()
        found = record_of(live, driver.attempt, job.uid)
        generation = found.generation if found is not None else 0
        reason = None
        if found is not None and found.settles:
            reason = StartReason.DELETED
        elif section.get("id") or driver.attempt == 1:
            reason = start_reason(draft, generation)
        section.clear()
        section.update(id=driver.attempt, generation=generation, startedAt=format_time(draft.now))
        if reason is not None:
            section["startReason"] = str(reason)
        if found is not None and found.code:
            section[CODE_DIGEST] = found.code
        if driver.revision:
            section[REVISION] = driver.revision
        draft.section("lastFailure").pop("fatal", None)  # or the attempt would not have been started
        show_start(draft, driver.attempt, reason)
        spec = spec_of(live, driver.attempt, job, settings, parallelism=driver.asked_parallelism)
        if spec is not None:
            show_spec(draft, spec)
    section.update(driverPod=driver.name, driverPodUID=driver.uid)


def relay_events(draft: StatusDraft, report: Report) -> None:
    """Publishes each event of the current attempt's driver once.

    An event that is published again within :data:`REMEMBER_SECONDS` is a duplicate by its name. Kubernetes has
    forgotten older events, so they are not published at all.
    """
    for event in report.events:
        time = parse_time(event.time)
        if time is None or abs((draft.now - time).total_seconds()) >= REMEMBER_SECONDS:
            continue
        occurrence = f"report/{report.attempt}/{event.sequence}"
        draft.event(occurrence, event.reason, event.message, warning=event.type == "Warning", reported=True)


def show_waiting(draft: StatusDraft, driver: PodView, job: JobKey, *, default_image: bool) -> None:
    """Writes why the pod does not run yet, with an event where Kubernetes names a cause.

    :param default_image: the resource names no image, so the operator's default is pulled.
    """
    reason = driver.waiting_reason or JobReason.DRIVER_PENDING
    message = (
        f"the driver pod {driver.name} waits to be scheduled and started; if this lasts, look for a missing ConfigMap"
        f" or Secret: kubectl describe pod {driver.name} -n {job.namespace}"
    )
    if driver.waiting_reason:
        message = f"the driver pod {driver.name} does not start: {driver.waiting_reason}: {driver.waiting_message}"
        if driver.waiting_reason in OF_THE_IMAGE:
            message += f"; {image_remedy(default_image=default_image)}"
        draft.event(f"waiting/{driver.attempt}/{reason}", reason, message, warning=True)
        draft.set_state(_starting_state(draft), reason=reason, message=message, phase=Phase.SCHEDULING)
    else:
        draft.set_starting(_starting_state(draft), reason=reason, message=message, phase=Phase.SCHEDULING)


def show_report(
    draft: StatusDraft,
    driver: PodView,
    executors: Sequence[PodView],
    report: Report | None,
    *,
    job: JobKey,
    current: bool,
    idle: str = "",
) -> None:
    """Writes what a running driver reports, or that it has not reported yet.

    Called after the report's conditions are set: an attempt whose checkpoints stall is not ready.

    :param job: for commands. :param current: the attempt runs the resource's current generation.
    :param idle: the message about subtasks that read nothing; empty where there are none.
    """
    missing = missing_executors(draft, executors, report)
    tell_refusal(draft, driver, missing)
    if report is None or report.state in {DriverState.STARTING, DriverState.RECOVERING}:
        reason, message = JobReason.DRIVER_STARTING, "the driver checks Kafka and the code, and starts Spark"
        if report is not None and report.state is DriverState.RECOVERING:
            reason, message = JobReason.RECOVERING, "the driver settles the transactions of previous attempts"
        reason = PENDING if missing.refused else reason
        phase, ends = Phase.RECOVERING, None
        if report is None:
            phase, ends = Phase.STARTING, first_report_by(draft, driver)
        text = message + missing.cause
        draft.set_starting(_starting_state(draft), reason=reason, message=text, phase=phase, deadline=ends)
    elif report.state is DriverState.DRAINING:
        draft.set_state(
            JobState.RUNNING, reason=JobReason.DRAINING, message="the driver is stopping and finishes its checkpoint",
            phase=Phase.RUNNING,
        )  # fmt: skip
    else:
        text = "; ".join(filter(None, (f"attempt {driver.attempt} runs{missing.cause}", idle)))
        _show_running(draft, driver, missing, text, failure=_failure_ahead(draft, report), job=job, current=current)


def _show_running(
    draft: StatusDraft, driver: PodView, missing: Missing, message: str, *, failure: str, job: JobKey, current: bool
) -> None:
    first = "runningSince" not in draft.section("attempt")
    draft.section("attempt").setdefault("runningSince", format_time(draft.now))
    # An attempt whose replacement is refused runs what the job has.
    refused = is_refused(draft)
    current = current or refused
    pending = without_executors(draft, driver, missing, job)
    if first and draft.section("attempt").get("startReason") == StartReason.RESCALED:
        draft.event(
            f"rescaled/{driver.attempt}", JobReason.RESCALED, f"the job runs with parallelism {draft.parallelism}"
        )
    if current and pending:
        draft.set_state(JobState.RUNNING, reason=PENDING, message=pending, phase=Phase.RUNNING)
    elif current and draft.reason_of(ConditionType.CHECKPOINT_HEALTHY) == STALLED:
        stall = draft.message_of(ConditionType.CHECKPOINT_HEALTHY)
        draft.set_state(JobState.RUNNING, reason=STALLED, message=f"{message}; {stall}", phase=Phase.RUNNING)
    elif current and failure:
        reason = str(draft.section("lastFailure").get("reason"))
        draft.set_state(JobState.RUNNING, reason=reason, message=f"{message}; {failure}", phase=Phase.RUNNING)
    elif current:
        reason = draft.refusal_reason if refused else JobReason.RUNNING
        text = "; ".join(filter(None, (message, draft.refusal.get("message"))))
        reason = PENDING if missing.cause else reason
        draft.set_state(JobState.RUNNING, reason=reason, message=text, ready=True, phase=Phase.RUNNING)
    else:
        draft.set_state(
            JobState.RUNNING,
            reason=INVALID_SPEC,
            message=f"{message} with the last valid spec; correct the spec: see condition ConfigValid",
            phase=Phase.RUNNING,
        )


def _failure_ahead(draft: StatusDraft, report: Report) -> str:
    """The message about a record that the attempt has still ahead; empty where there is none.

    The last attempt failed at a record, and this attempt reads it again. It is ready when it has completed a
    checkpoint, or has nothing to read. A restart for another cause usually heals it, so it does not count here.
    """
    failure, restarts = draft.section("lastFailure"), draft.section("restarts")
    failed = restarts.get("consecutiveFailures") and restarts.get("lastReason") == failure.get("reason")
    if not failed or failure.get("reason") not in _AT_A_RECORD or report.checkpoint_time or report.lag_records == 0:
        return ""
    return f"it has completed no checkpoint, and attempt {failure.get('attempt')} failed: {failure.get('message')}"


def show_stopping(draft: StatusDraft, driver: PodView, *, suspend: bool) -> None:
    """Writes what follows a driver whose pod is being deleted: what its stop was for, unless the resource has changed.

    :param suspend: of the resource. The end of a pod that somebody else deletes is then that of a suspended attempt.
    """
    attempt = draft.section("attempt")
    why = "" if attempt.get("stopReason") else ", not by the operator"
    message = f"the driver pod {driver.name} is being deleted{why}"
    draft.enter(Phase.STOPPING, deadline=driver.gone_by)
    if suspend:
        attempt.setdefault("stopReason", str(StopReason.SUSPEND))
        if draft.state != JobState.SUSPENDING:
            message += "; no attempt follows: spec.suspend is true"
            draft.set_state(
                JobState.SUSPENDING, reason=JobReason.SUSPENDING, message=message, phase=Phase.STOPPING,
                deadline=driver.gone_by,
            )  # fmt: skip
    elif why or draft.state == JobState.SUSPENDING:
        message += "; the next attempt follows"
        draft.set_state(
            JobState.RESTARTING, reason=JobReason.DRIVER_STOPPING, message=message, phase=Phase.STOPPING,
            deadline=driver.gone_by,
        )  # fmt: skip


def warn_of_slow_stop(draft: StatusDraft, pods: Sequence[PodView], job: JobKey) -> float:
    """Names a pod that has been terminating for too long; the next attempt starts after the pod is gone.

    :returns: seconds to the next look.
    """
    for pod in pods:
        if pod.gone_by is None or (draft.now - pod.gone_by).total_seconds() < SLOW_STOP_SECONDS:
            continue
        message = (
            f"pod {pod.name} on node {pod.node or '?'} has been terminating for too long; the next attempt starts after"
            f" it is gone. If the node is lost: kubectl delete pod {pod.name} -n {job.namespace} --force"
        )
        draft.event(f"slow/{pod.uid}", JobReason.POD_NOT_TERMINATING, message, warning=True)
        draft.set_state(
            JobState(draft.state or JobState.RESTARTING), reason=JobReason.POD_NOT_TERMINATING, message=message,
            phase=draft.phase,
        )  # fmt: skip
        break
    return LOOK_AGAIN_WHILE_WAITING


def forget_rates(draft: StatusDraft) -> None:
    """No driver reports what is read and written at the moment. Called where none runs."""
    draft.section("source").pop("lagRecords", None)
    for section in ("source", "sink"):
        draft.section(section).pop("recordsPerSecond", None)


def show_numbers(draft: StatusDraft, report: Report) -> None:
    """Copies the report's numbers. They change with every checkpoint, so the reconciler throttles their writes.

    A number that the attempt does not know yet keeps its value: totals count from the job's first start.
    """
    if report.engine:
        draft.replace("engine", {"name": report.engine, "message": report.engine_message})
    if report.checkpoint_id:
        draft.section("checkpoint")["id"] = report.checkpoint_id
    if report.checkpoint_time:
        draft.section("checkpoint").update(
            time=report.checkpoint_time, durationMillis=report.checkpoint_duration_millis,
            bytes=report.checkpoint_bytes,
        )  # fmt: skip
    if report.rescales and report.parallelism:
        draft.replace("parallelism", min(report.parallelism, MAX_PARALLELISM))
    source = draft.section("source")
    if report.lag_records is None:
        source.pop("lagRecords", None)
    else:
        source["lagRecords"] = report.lag_records
    if report.partitions:
        source["partitions"] = report.partitions
    source.update(commitsSucceeded=report.commits_succeeded, commitsFailed=report.commits_failed)
    sink, transactions = draft.section("sink"), draft.section("transactions")
    sink["recordsPerSecond"], source["recordsPerSecond"] = report.records_per_second, report.records_in_per_second
    if report.totals_known:
        source.update(recordsIn=report.records_in, recordsSkipped=report.records_skipped)
        sink.update(recordsOut=report.records_out, recordsDeadLettered=report.records_dead_lettered)
        transactions.update(committed=report.transactions_committed, aborted=report.transactions_aborted)
    # An unknown number is absent; an old number would be wrong.
    for name, value in (("open", report.transactions_open), ("oldestOpenTime", report.oldest_transaction_time)):
        transactions.pop(name, None)
        if report.transactions_known and value != "":
            transactions[name] = value


def judge_checkpoints(
    draft: StatusDraft, report: Report | None, *, job: JobKey, interval_seconds: float, age: float
) -> float | None:
    """Sets CheckpointHealthy. Until an attempt's first checkpoint the time counts from its first running report.

    :param age: seconds since this operator saw the attempt progress, or saw that there was nothing to read.
    :returns: seconds after which time alone changes the condition, or None.
    """
    kind = ConditionType.CHECKPOINT_HEALTHY
    if report is None or report.state is not DriverState.RUNNING:
        draft.condition(
            kind,
            ConditionStatus.UNKNOWN,
            reason="NotRunning",
            message="no driver reports to run, so no checkpoints are expected",
        )
        return None
    left = max(MIN_STALL_SECONDS, STALL_INTERVALS * interval_seconds) - age
    # An operator that has just started cannot know the age. What another operator saw ends with a checkpoint.
    judged = draft.reason_of(kind) if draft.previous_checkpoint == report.checkpoint_id else ""
    if report.lag_records is None and (left <= 0 or judged == LAG_UNKNOWN):
        message = f"the lag is unknown: the last checkpoint completed at {report.checkpoint_time or 'no time'}"
        draft.condition(kind, ConditionStatus.UNKNOWN, reason=LAG_UNKNOWN, message=message)
        return None
    if not report.lag_records:
        draft.condition(kind, ConditionStatus.TRUE, reason="CheckpointsComplete")
        return left if report.lag_records is None else None
    if left > 0 and judged != STALLED:
        draft.condition(kind, ConditionStatus.TRUE, reason="CheckpointsComplete")
        return left
    since = draft.section("attempt").get("runningSince")
    what = (
        f"no checkpoint has completed since {report.checkpoint_time} (checkpoint {report.checkpoint_id})"
        if report.checkpoint_time
        else f"attempt {report.attempt} has completed no checkpoint since it began to run at {since}"
    )
    message = f"{what}: {report.lag_records} records wait; read the driver's log: {log_of(job, report.attempt)}"
    draft.condition(kind, ConditionStatus.FALSE, reason=STALLED, message=message)
    draft.event(f"stalled/{report.attempt}/{report.checkpoint_id}", STALLED, message, warning=True)
    return None


def log_of(job: JobKey, attempt: int) -> str:
    """The command that shows the log of a driver that runs."""
    return f"kubectl logs {names.driver_pod(job.name, attempt)} -n {job.namespace}"


def _starting_state(draft: StatusDraft) -> JobState:
    """A rescaled or restarted job keeps its state until it runs again."""
    before = draft.previous_state
    return JobState(before) if before in {JobState.RESCALING, JobState.RESTARTING} else JobState.STARTING
