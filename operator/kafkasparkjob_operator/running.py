"""The status of a job whose driver is alive: by the kubelet's account until it reports, then by its report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from kafkasparkjob_operator.clock import format_time, parse_time
from kafkasparkjob_operator.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.executors import executors_waiting, without_executors
from kafkasparkjob_operator.pod_view import PodView
from kafkasparkjob_operator.status import JobState, StatusDraft
from sparkapp.model.report import DriverState, Report

SLOW_STOP_SECONDS = 30
"""After a pod's time of deletion, which includes its grace period."""
MIN_STALL_SECONDS = 60
STALL_INTERVALS = 5
"""A checkpoint this many intervals late, with records waiting, is stalled."""


def show_waiting(draft: StatusDraft, driver: PodView) -> None:
    """The pod does not run yet: say why, once as an event if something is wrong."""
    reason = driver.waiting_reason or "DriverPending"
    message = (
        f"the driver pod {driver.name} waits to be scheduled and started; if that lasts, kubectl describe pod"
        f" {driver.name} tells what it lacks, a ConfigMap or a Secret for instance"
    )
    if driver.waiting_reason:
        message = f"the driver pod {driver.name} does not start: {driver.waiting_reason}: {driver.waiting_message}"
        draft.event(f"waiting/{driver.attempt}/{reason}", reason, message, warning=True)
    draft.set_state(_starting_state(draft), reason=reason, message=message)


def show_report(
    draft: StatusDraft, driver: PodView, executors: Sequence[PodView], report: Report | None, *, current: bool
) -> None:
    """The container runs: what it reports, or that it has not reported yet.

    :param current: the attempt runs the resource's current generation.
    """
    if report is None or report.state is DriverState.STARTING:
        reason, message = "DriverStarting", "the driver checks Kafka and code, and Spark comes up"
        draft.set_state(_starting_state(draft), reason=reason, message=message + executors_waiting(executors))
        return
    _kafka_reachable(draft)
    if report.state is DriverState.RECOVERING:
        message = "the driver settles the transactions of former attempts"
        draft.set_state(_starting_state(draft), reason="Recovering", message=message + executors_waiting(executors))
    elif report.state is DriverState.DRAINING:
        draft.set_state(
            JobState.RUNNING, reason="Draining", message="the driver was asked to stop and finishes its checkpoint"
        )
    else:
        _show_running(draft, driver, executors, report, current=current)


def _show_running(
    draft: StatusDraft, driver: PodView, executors: Sequence[PodView], report: Report, *, current: bool
) -> None:
    message = f"attempt {driver.attempt} runs" + executors_waiting(executors)
    draft.section("attempt").setdefault("runningSince", format_time(draft.now))
    pending = without_executors(draft, driver, executors)
    if draft.former_state == JobState.RESCALING:
        draft.event(f"rescaled/{driver.attempt}", "Rescaled", f"runs with parallelism {draft.parallelism} again")
    if current and pending:
        draft.set_state(JobState.RUNNING, reason="ExecutorsPending", message=pending)
    elif current:
        draft.set_state(JobState.RUNNING, reason="Running", message=message, ready=True)
    else:
        draft.set_state(
            JobState.RUNNING,
            reason="InvalidSpec",
            message=f"{message}; the resource was changed to something invalid since: see condition ConfigValid",
        )


def warn_of_slow_stop(draft: StatusDraft, pods: Sequence[PodView]) -> None:
    """Names a pod that has been terminating too long; the next attempt starts after it is gone."""
    for pod in pods:
        if pod.gone_by is None or (draft.now - pod.gone_by).total_seconds() < SLOW_STOP_SECONDS:
            continue
        message = (
            f"pod {pod.name} on node {pod.node or '?'} has been terminating too long; the next attempt starts after it"
            f" is gone. If the node is lost for good: kubectl delete pod {pod.name} --force"
        )
        draft.event(f"slow/{pod.uid}", "PodNotTerminating", message, warning=True)
        draft.set_state(JobState(draft.state or JobState.RESTARTING), reason="PodNotTerminating", message=message)
        return


def show_numbers(draft: StatusDraft, report: Report) -> None:
    """Copies the report's numbers; they change with every checkpoint, so their writing is throttled."""
    if report.checkpoint_id:
        draft.section("checkpoint").update(
            id=report.checkpoint_id,
            time=report.checkpoint_time or draft.section("checkpoint").get("time", ""),
            durationMillis=report.checkpoint_duration_millis,
            bytes=report.checkpoint_bytes,
        )
    source = draft.section("source")
    if report.lag_records is None:
        source.pop("lagRecords", None)
    else:
        source["lagRecords"] = report.lag_records
    source.update(
        partitions=report.partitions, recordsIn=report.records_in,
        commitsSucceeded=report.commits_succeeded, commitsFailed=report.commits_failed,
        recordsSkipped=report.records_skipped,
    )  # fmt: skip
    draft.section("sink").update(
        recordsOut=report.records_out, recordsDeadLettered=report.records_dead_lettered,
        recordsPerSecond=report.records_per_second,
    )  # fmt: skip
    transactions = draft.section("transactions")
    transactions.update(committed=report.transactions_committed, aborted=report.transactions_aborted)
    # What is not known is not shown, and never as an old number.
    for name, value in (("open", report.transactions_open), ("oldestOpenTime", report.oldest_transaction_time)):
        transactions.pop(name, None)
        if report.transactions_known and value != "":
            transactions[name] = value


def judge_checkpoints(
    draft: StatusDraft, report: Report | None, *, interval_seconds: int, now: datetime
) -> float | None:
    """Sets CheckpointHealthy. Until an attempt's first checkpoint the time counts from when it was first seen running.

    :returns: seconds after which time alone would change the answer, or None.
    """
    kind = ConditionType.CHECKPOINT_HEALTHY
    if report is None or report.state is not DriverState.RUNNING:
        draft.condition(kind, ConditionStatus.UNKNOWN, reason="NotRunning", message="no checkpoints are expected now")
        return None
    since = report.checkpoint_time or draft.section("attempt").get("runningSince")
    last = parse_time(since)
    limit = timedelta(seconds=max(MIN_STALL_SECONDS, STALL_INTERVALS * interval_seconds))
    if report.lag_records is None and last is not None and last + limit <= now:
        message = f"the last checkpoint completed at {since}, and the driver cannot measure whether records wait"
        draft.condition(kind, ConditionStatus.UNKNOWN, reason="LagUnknown", message=message)
        return None
    if report.lag_records and last is not None:
        left = (last + limit - now).total_seconds()
        if left <= 0:
            what = (
                f"checkpoint {report.checkpoint_id} is the last since {since}"
                if report.checkpoint_time
                else f"attempt {report.attempt} has completed no checkpoint since it began to run, at {since}"
            )
            message = f"{what}, although {report.lag_records} records wait; read the driver's log"
            draft.condition(kind, ConditionStatus.FALSE, reason="CheckpointStalled", message=message)
            draft.event(f"stalled/{report.attempt}/{report.checkpoint_id}", "CheckpointStalled", message, warning=True)
            return None
        draft.condition(kind, ConditionStatus.TRUE, reason="CheckpointsComplete")
        return left
    draft.condition(kind, ConditionStatus.TRUE, reason="CheckpointsComplete")
    return None


def _kafka_reachable(draft: StatusDraft) -> None:
    draft.condition(ConditionType.KAFKA_REACHABLE, ConditionStatus.TRUE, reason="Connected")


def _starting_state(draft: StatusDraft) -> JobState:
    """A job that was rescaled or restarted is called so until it runs again."""
    former = draft.former_state
    return JobState(former) if former in {JobState.RESCALING, JobState.RESTARTING} else JobState.STARTING
