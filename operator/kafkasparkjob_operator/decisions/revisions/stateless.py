"""Which attempts begin without the checkpoint: those of a new revision under ``upgrade.mode: Stateless`` (ADR 97).

The request has the number of the first attempt of the revision. The attempts that follow repeat it, and the document
says whether it was served. So a start that fails at any step is asked again, and no start is stateless twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.decisions.attempts import current_attempt, record_of
from kafkasparkjob_operator.decisions.revisions.refusal import has_gone_back
from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.observation.observation import Live, Observation
from kafkasparkjob_operator.status.status import StatusDraft
from kafkasparkjob_operator.workload import DesiredJob, JobSettings, UpgradeMode, desired_from_resource
from sparkapp.model.errors import ConfigurationError

_ANY_IMAGE = JobSettings(default_image="default")


def stateless_of(
    draft: StatusDraft,
    observation: Observation,
    live: Live,
    desired: DesiredJob,
    *,
    spec: Mapping[str, Any],
    number: int,
    code: str,
) -> int:
    """The first attempt that was to begin without the checkpoint; 0 where the next attempt resumes.

    Called where an attempt is started. The user's own part of a revision counts: another default image, or another
    template of the administrator, leaves no checkpoint behind. A rollback never does.

    :param spec: that the attempt runs, and ``desired`` that spec as it was read. :param number: of the attempt.
    :param code: digest of the user's modules; empty where it is unknown, or there are none.
    """
    if desired.upgrade.mode is not UpgradeMode.STATELESS or has_gone_back(draft):
        return 0
    job, document = observation.job.identity, live.state.document
    last = max(current_attempt(observation), document.attempt if document is not None else 0)
    before = record_of(live, last, job.uid)
    if before is None:
        return 0  # the first attempt; or nobody knows what ran before
    other_code = bool(code) and bool(before.code) and code != before.code
    return number if other_code or not _same_job(before.spec, spec, job) else before.stateless


def _same_job(before: Mapping[str, Any], after: Mapping[str, Any], job: JobIdentity) -> bool:
    """Whether an attempt's spec asks for the same revision. Both are read by this release, with the same defaults."""
    try:
        read = [
            desired_from_resource(
                {**spec, "parallelism": after.get("parallelism", 1)}, namespace=job.namespace, name=job.name,
                settings=_ANY_IMAGE,
            )
            for spec in (before, after)
        ]  # fmt: skip
    except ConfigurationError:
        return False  # an earlier release has taken a spec that this release refuses
    return read[0].same_revision(read[1])
