"""Subtasks that read nothing, because the job has more subtasks than its source has partitions."""

from __future__ import annotations

from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import DesiredJob
from sparkapp.model.report import DriverState, Report


def tell_idle_subtasks(draft: StatusDraft, report: Report | None, desired: DesiredJob | None) -> str:
    """The message about them, with an event for each attempt and parallelism; empty where no subtask is idle.

    Called by the state machine after the report's numbers are shown, because a rescale in place changes the
    parallelism. The job works, so its conditions stay as they are.

    :param desired: the resource's spec; None where it is invalid.
    """
    if report is None or report.state is not DriverState.RUNNING or not report.partitions or desired is None:
        return ""
    idle = draft.parallelism - report.partitions
    # Several subtasks read the pieces of a partition.
    if idle <= 0 or desired.spec.source.max_records_per_split:
        return ""
    message = (
        f"at least {idle} of {draft.parallelism} subtasks read nothing: one subtask reads a partition,"
        f" and the source has {report.partitions}"
    )
    remedy = "lower spec.parallelism, or add partitions to the source's topics"
    draft.event(
        f"idle/{report.attempt}/{draft.parallelism}", JobReason.SUBTASKS_IDLE, f"{message}; {remedy}", warning=True
    )
    return message
