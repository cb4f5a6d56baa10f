"""The conditions that follow from the driver's report: of Kafka, of checkpoints and of transactions."""

from __future__ import annotations

from kafkasparkjob_operator.decisions.running import MIN_STALL_SECONDS, STALL_INTERVALS, judge_checkpoints
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.ages import Ages
from kafkasparkjob_operator.status.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import DesiredJob
from sparkapp.model.event_reason import DriverEvent, Durability
from sparkapp.model.job.sections.record_errors import OnRecordError
from sparkapp.model.report import DriverState, Report

_INTERVAL_SECONDS = 10
"""The checkpoint interval that is assumed for a job without a valid spec."""

_DURABLE = {
    Durability.REPLICATED: ConditionStatus.TRUE,
    Durability.NOT_REPLICATED: ConditionStatus.FALSE,
    Durability.ENDS_NOT_PROVEN: ConditionStatus.FALSE,
    Durability.SETTINGS_UNKNOWN: ConditionStatus.UNKNOWN,
}


def judge_health(
    draft: StatusDraft, report: Report | None, desired: DesiredJob | None, job: JobKey, ages: Ages
) -> float | None:
    """Sets KafkaReachable, CheckpointHealthy, TransactionsHealthy and TransactionsDurable in each plan.

    Called by the state machine.

    :param report: of the current attempt; None where its driver does not run or has not reported yet.
    :param desired: the resource's spec; None where it is invalid. :param job: for commands.
    :param ages: of the report's values.
    :returns: seconds after which time alone changes a condition, or None.
    """
    _judge_kafka(draft, report)
    if desired is not None:
        _judge_durability(draft, report, desired)
        _judge_records(draft, report, desired)
    interval = desired.spec.checkpoint_interval if desired is not None else _INTERVAL_SECONDS
    again = (
        judge_checkpoints(draft, report, job=job, interval_seconds=interval, age=ages.progress),
        judge_transactions(draft, report, desired, job, ages),
    )
    return min((seconds for seconds in again if seconds is not None), default=None)


def _judge_kafka(draft: StatusDraft, report: Report | None) -> None:
    """Sets KafkaReachable. Why an attempt did not reach Kafka stays in it until another attempt does."""
    kind = ConditionType.KAFKA_REACHABLE
    if report is not None and report.state is not DriverState.STARTING:
        draft.condition(kind, ConditionStatus.TRUE, reason="Connected")
    elif draft.since(kind, ConditionStatus.TRUE) is not None:
        message = "no driver reports that it has reached Kafka"
        draft.condition(kind, ConditionStatus.UNKNOWN, reason="NotObserved", message=message)


def _judge_durability(draft: StatusDraft, report: Report | None, desired: DesiredJob) -> None:
    """Sets TransactionsDurable. What an attempt has found wrong stays in it until another attempt has looked."""
    kind = ConditionType.TRANSACTIONS_DURABLE
    if not desired.spec.sink.delivery_guarantee.transactional:
        draft.drop_condition(kind)
        return
    found = Durability.NOT_OBSERVED if report is None else report.durability
    if report is not None and found is not Durability.NOT_OBSERVED:
        draft.condition(kind, _DURABLE[found], reason=found, message=report.durability_message)
    elif draft.since(kind, ConditionStatus.FALSE) is None:
        message = "no driver reports the copies of the topics that the job's transactions write"
        draft.condition(kind, ConditionStatus.UNKNOWN, reason=Durability.NOT_OBSERVED, message=message)


def _judge_records(draft: StatusDraft, report: Report | None, desired: DesiredJob) -> None:
    """Sets RecordsHealthy by what the attempt has parsed and dropped. A job has it once it has read a record."""
    kind = ConditionType.RECORDS_HEALTHY
    errors = desired.spec.record_errors
    if errors.policy is OnRecordError.FAIL and errors.transform_policy is OnRecordError.FAIL:
        draft.drop_condition(kind)
    elif report is None or not report.records_judged:
        if draft.has_condition(kind):
            message = "no driver reports that it has parsed or dropped a record"
            draft.condition(kind, ConditionStatus.UNKNOWN, reason="NotObserved", message=message)
    elif report.records_dropped:
        diverted = bool(errors.dead_letter_topic)
        reason = DriverEvent.RECORDS_DEAD_LETTERED if diverted else DriverEvent.RECORDS_SKIPPED
        is_parsing = errors.transform_policy is OnRecordError.FAIL
        faulty = "spec.source.format" if is_parsing else "spec.source.format or spec.transform"
        message = f"{report.records_dropped}; correct {faulty}, or the records' producers"
        draft.condition(kind, ConditionStatus.FALSE, reason=reason, message=message)
    else:
        draft.condition(kind, ConditionStatus.TRUE, reason="RecordsParse")


def judge_transactions(
    draft: StatusDraft, report: Report | None, desired: DesiredJob | None, job: JobKey, ages: Ages
) -> float | None:
    """Sets TransactionsHealthy by the oldest open transaction. A running checkpoint has open transactions, too.

    Jobs without transactions do not have the condition. Parameters and result as for :func:`judge_health`.
    """
    kind = ConditionType.TRANSACTIONS_HEALTHY
    if desired is None or not desired.spec.sink.delivery_guarantee.transactional:
        return None
    if report is None or not report.transactions_known:
        for name in ("open", "oldestOpenTime"):
            draft.section("transactions").pop(name, None)
        message = "the open transactions are unknown: no driver reports them"
        draft.condition(kind, ConditionStatus.UNKNOWN, reason="NotObserved", message=message)
        return None
    if report.transactions_hanging:
        message = (
            f"{report.transactions_hanging} transaction(s) have ended, and partitions lack their markers."
            " Readers of committed records wait there. The job writes the markers when the partitions have leaders;"
            f" list them: `python3 -m sparkapp txn hanging --namespace {job.namespace} --job {job.name}`"
        )
        draft.condition(kind, ConditionStatus.FALSE, reason="TransactionHanging", message=message)
        draft.event(f"hanging/{report.attempt}", JobReason.TRANSACTION_HANGING, message, warning=True)
        return None
    since = report.oldest_transaction_time
    limit = max(MIN_STALL_SECONDS, STALL_INTERVALS * desired.spec.checkpoint_interval)
    # As for a stall: the verdict of an operator that has ended stays while the same transaction is open.
    known = draft.since(kind, ConditionStatus.FALSE) is not None and since in draft.message_of(kind)
    left = None if not since else 0.0 if known else limit - ages.transaction
    used = report.transaction_time_used
    runs_out = f"the oldest transaction has used {used} % of spec.sink.transactions.timeoutSeconds" if used else ""
    if left is None or left > 0:
        reason = "TransactionTimeRunsOut" if used else "NoneOverdue"
        draft.condition(kind, ConditionStatus.TRUE, reason=reason, message=runs_out)
        return left
    message = (
        f"a transaction has been open since {since} and holds back read_committed readers;"
        f" list it: `python3 -m sparkapp txn list --namespace {job.namespace} --job {job.name}`"
    )
    shown = "; ".join(filter(None, (message, runs_out)))
    draft.condition(kind, ConditionStatus.FALSE, reason="TransactionOverdue", message=shown)
    draft.event(f"overdue/{report.attempt}/{since}", JobReason.TRANSACTION_OVERDUE, message, warning=True)
    return None
