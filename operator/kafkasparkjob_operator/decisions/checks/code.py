"""The ConfigMap of the user's modules: its change starts another attempt, as a change of the spec does.

Pods mount a copy of it (:mod:`~kafkasparkjob_operator.resources.revisions`), so an attempt has one version.

Another name in the resource is a change of the spec, so contents are compared only under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.decisions.attempts import CODE_DIGEST, current_attempt, record_of
from kafkasparkjob_operator.decisions.revisions.refusal import Cause, has_gone_back
from kafkasparkjob_operator.observation.observation import AttemptRecord, Live, Observation
from kafkasparkjob_operator.observation.pod_view import PodView
from kafkasparkjob_operator.resources.revisions import modules_name
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.status.status import StatusDraft


def config_map_of(spec: Mapping[str, Any]) -> str:
    """``configMapRef.name`` of ``spec.transform.python`` or ``arrow``; empty without one or in an unreadable spec."""
    for kind in ("python", "arrow"):
        found: Any = spec
        for name in ("transform", kind, "configMapRef", "name"):
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, str):
            return found
    return ""


def changed_code(draft: StatusDraft, observation: Observation, imported: str) -> str:
    """The message about modules that changed since the attempt was started; empty where they are the same.

    :param imported: the ConfigMap that the attempt has imported.
    """
    before, now, name = draft.section("attempt").get(CODE_DIGEST), observation.code, config_map_of(observation.job.spec)
    if not before or not now or before == now or name != imported or has_gone_back(draft):
        return ""
    return f"the driver drains at a checkpoint: ConfigMap {name} of its modules has changed"


def digest_of_start(
    draft: StatusDraft, observation: Observation, live: Live, spec: Mapping[str, Any], standby: AttemptRecord | None
) -> str:
    """The digest of the modules that the next attempt imports; empty where they have to be read.

    Where the resource's ConfigMap is gone, or the attempt has the spec of an earlier attempt, there may be a copy.

    :param spec: the spec that the next attempt runs, which may name another ConfigMap than the resource.
    :param standby: of the standby driver that is activated: it has imported the modules of its own start.
    """
    name = config_map_of(spec)
    if standby is not None and standby.code:
        return standby.code
    job = observation.job
    if standby is None and observation.code and name == config_map_of(job.spec):
        return observation.code
    current = record_of(live, current_attempt(observation), job.identity.uid)
    digest = str(draft.section("attempt").get(CODE_DIGEST, ""))
    known = current is not None and config_map_of(current.spec) == name
    copied = modules_name(job.identity, digest) in {kept.name for kept in live.modules}
    return digest if known and (copied or standby is not None) else ""


def missing_code(draft: StatusDraft, observation: Observation, live: Live) -> Cause | None:
    """Why the resource's spec cannot replace an attempt: its modules do not exist. None where they do.

    Called by the state machine before it stops an attempt for a changed spec.
    """
    job = observation.job
    name = config_map_of(job.spec)
    if not name or digest_of_start(draft, observation, live, job.spec, None):
        return None
    return Cause(reason=JobReason.CODE_MISSING, message=message_of_missing(name, job.identity.namespace))


def message_of_missing(name: str, namespace: str) -> str:
    """:param name: of the ConfigMap that does not exist."""
    return (
        f"ConfigMap {name} of spec.transform does not exist; create it: kubectl create configmap {name} -n {namespace}"
        " --from-file=FILE"
    )


def note_code(draft: StatusDraft, observation: Observation, driver: PodView) -> None:
    """Records the digest for an attempt of an earlier release, which was started before its ConfigMap existed.

    Called by the state machine at each look. The driver's pod waits for the ConfigMap, so the first content that the
    operator sees is taken for the content that the driver imports.
    """
    attempt = draft.section("attempt")
    if not attempt.get(CODE_DIGEST) and observation.code and driver.code == config_map_of(observation.job.spec):
        attempt[CODE_DIGEST] = observation.code
