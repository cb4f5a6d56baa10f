"""When a resource has the operator's finalizer, so that its deletion waits."""

from __future__ import annotations

from kafkasparkjob_operator.decisions.attempts import REVISION, has_recovered
from kafkasparkjob_operator.decisions.endings import ORDERLY
from kafkasparkjob_operator.decisions.plan import Action, HoldResource, ReleaseResource
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.status.status import TARGET, StatusDraft
from kafkasparkjob_operator.workload import DeletionPolicy, DesiredJob, StateOnDelete
from sparkapp.model.report import Report


def hold_change(
    draft: StatusDraft, job: JobResource, desired: DesiredJob | None, report: Report | None, *, limit: float
) -> tuple[Action, ...]:
    """Adds or removes the finalizer; called for a resource that is not being deleted.

    The finalizer stays after a change to a job that needs none, until an attempt with the changed resource has settled
    all earlier transactions. ``Orphan`` removes it at once.

    :param desired: of the next attempt, which is that of an earlier revision where the job has gone back. None where it
        is not known: nothing changes then.
    :param limit: the longest time that a deletion may wait; no resource is held where it is 0.
    """
    if limit <= 0:
        return (ReleaseResource(),) if job.held else ()
    if desired is None:
        return ()
    sink, attempt, deletion = desired.spec.sink, draft.section("attempt"), desired.deletion
    if deletion is not None and deletion.policy is DeletionPolicy.ORPHAN:
        return (ReleaseResource(),) if job.held else ()
    removes = deletion is not None and deletion.state is StateOnDelete.DELETE and desired.spec.may_keep_state
    snapshot = deletion is not None and deletion.snapshot
    if (
        snapshot
        or removes
        or (sink.delivery_guarantee.transactional and (deletion is not None or not sink.transactions_expire))
    ):
        return () if job.held else (HoldResource(),)
    # The attempt that a job goes back from has the present generation, and another revision than the target.
    runs = attempt.get("generation") == job.generation and attempt.get(REVISION) == draft.section(TARGET).get(REVISION)
    recovered = runs and has_recovered(report, attempt.get("id"))
    settled = recovered or not attempt.get("id") or attempt.get("outcome") in ORDERLY
    return (ReleaseResource(),) if job.held and settled else ()
