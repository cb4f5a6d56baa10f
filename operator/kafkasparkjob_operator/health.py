"""The conditions that time alone can change: whether checkpoints complete, and whether transactions end."""

from __future__ import annotations

from datetime import timedelta

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.conditions import ConditionStatus, ConditionType
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.running import MIN_STALL_SECONDS, STALL_INTERVALS, judge_checkpoints
from kafkasparkjob_operator.status import StatusDraft
from kafkasparkjob_operator.workload import Wanted
from sparkapp.model.report import Report
from sparkapp.model.semantic import Semantic

_INTERVAL_SECONDS = 10
"""Of a job whose spec is not valid, so that nothing is known of it."""


def judge_health(draft: StatusDraft, report: Report | None, wanted: Wanted | None, job: JobKey) -> float | None:
    """Sets CheckpointHealthy and TransactionsHealthy; called by the state machine in each plan.

    :param report: of the current attempt, None where its driver does not run or has not reported yet.
    :param wanted: the resource's valid spec, if it is one. :param job: for commands to paste.
    :returns: seconds after which time alone would change the answer, or None.
    """
    interval = wanted.spec.checkpoint_interval_seconds if wanted is not None else _INTERVAL_SECONDS
    again = (
        judge_checkpoints(draft, report, interval_seconds=interval, now=draft.now),
        judge_transactions(draft, report, wanted, job),
    )
    return min((seconds for seconds in again if seconds is not None), default=None)


def judge_transactions(draft: StatusDraft, report: Report | None, wanted: Wanted | None, job: JobKey) -> float | None:
    """Sets TransactionsHealthy by the oldest open transaction; a checkpoint's own ones are open while it runs.

    Jobs without transactions do not have the condition. Parameters and result as for :func:`judge_health`.
    """
    kind = ConditionType.TRANSACTIONS_HEALTHY
    if wanted is None or wanted.spec.sink.semantic is not Semantic.EXACTLY_ONCE:
        return None
    if report is None or not report.transactions_known:
        for name in ("open", "oldestOpenTime"):
            draft.section("transactions").pop(name, None)
        message = "only a running driver knows which transactions are open"
        draft.condition(kind, ConditionStatus.UNKNOWN, reason="NotObserved", message=message)
        return None
    began = parse_time(report.oldest_transaction_time)
    limit = timedelta(seconds=max(MIN_STALL_SECONDS, STALL_INTERVALS * wanted.spec.checkpoint_interval_seconds))
    left = None if began is None else (began + limit - draft.now).total_seconds()
    used = report.transaction_time_used
    runs_out = f"the oldest one has used {used} % of spec.sink.transactionTimeoutSeconds" if used else ""
    if left is None or left > 0:
        reason = "TransactionTimeRunsOut" if used else "NoneOverdue"
        draft.condition(kind, ConditionStatus.TRUE, reason=reason, message=runs_out)
        return left
    since = report.oldest_transaction_time
    message = (
        f"a transaction is open since {since}: read_committed readers wait behind it;"
        f" `python -m sparkapp txn list --namespace {job.namespace} --job {job.name}` names it"
    )
    shown = "; ".join(filter(None, (message, runs_out)))
    draft.condition(kind, ConditionStatus.FALSE, reason="TransactionOverdue", message=shown)
    draft.event(f"overdue/{report.attempt}/{since}", "TransactionOverdue", message, warning=True)
    return None
