"""The parallelism that a job is to have: that of the autoscaler's last decision, or the resource's. Derived here alone.

Every other decision reads a resource whose ``spec.parallelism`` is that number.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasparkjob_operator.decisions.lifecycle.autoscaling.history import history_of
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.workload import Autoscaler
from kafkasparkjob_operator.workload.fields import OperatorSpec
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.spec import DEFAULT_PARALLELISM


def own_parallelism(job: JobResource) -> int:
    """``spec.parallelism`` as its owner has written it."""
    own = job.spec.get("parallelism", DEFAULT_PARALLELISM)
    return own if type(own) is int else 0


def with_effective_parallelism(job: JobResource) -> JobResource:
    """The resource with the parallelism that its job is to have; called by the state machine for each plan.

    A decision holds until ``spec.parallelism`` changes. A number that a person, an autoscaler of Kubernetes or a
    manifest writes there is carried out within the bounds.
    """
    policy, own = _policy(job), own_parallelism(job)
    if policy is None or not own:
        return job
    history = history_of(job.status.get("autoscaler"))
    decided = history.parallelism if history.of_spec == own else 0
    wanted = decided or own
    if not policy.dry_run:
        wanted = policy.bounded(wanted)
    return job if wanted == own else replace(job, spec={**job.spec, "parallelism": wanted})


def _policy(job: JobResource) -> Autoscaler | None:
    if "autoscaler" not in job.spec:
        return None
    try:
        return read_part(OperatorSpec, Fields({"autoscaler": job.spec["autoscaler"]}, "spec")).autoscaler
    except ConfigurationError:
        return None  # the condition ConfigValid says so
