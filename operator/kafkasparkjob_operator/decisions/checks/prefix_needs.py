"""Transactional id prefixes of all jobs. Two jobs with the same prefix on a Kafka cluster fence each other forever."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, JobKey
from kafkasparkjob_operator.observation.observation import PrefixRefusal
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError

LOG = logging.getLogger(__name__)

EXACTLY_ONCE = "ExactlyOnce"
NOT_ALLOWED = JobReason.PREFIX_NOT_ALLOWED
IN_USE = JobReason.PREFIX_IN_USE


@dataclass(frozen=True, slots=True)
class PrefixNeed:
    """The prefix that a job needs.

    :param brokers: bootstrap addresses; two jobs with a common address are on the same cluster.
    :param since: creation time of the resource; of two jobs that have not started the older job has the prefix.
    :param started: the job has had an attempt, so transactions may be open under the prefix.
    :param accepted: the job has started or would start. Another job needs none.
    """

    prefix: str
    brokers: frozenset[str]
    since: str
    started: bool
    accepted: bool


def need_of(body: Mapping[str, Any], settings: JobSettings) -> PrefixNeed | None:
    """The need of a resource; None where it opens no transactions or is unreadable.

    :param settings: the administrator's: a job that they refuse needs none.
    """
    meta, spec = body["metadata"], body.get("spec")
    if not isinstance(spec, Mapping):
        return None
    sink, kafka = spec.get("sink"), spec.get("kafka")
    if not isinstance(sink, Mapping) or not isinstance(kafka, Mapping):
        return None
    if sink.get("deliveryGuarantee", EXACTLY_ONCE) != EXACTLY_ONCE:
        return None
    transactions = sink.get("transactions")
    named = transactions.get("idPrefix") if isinstance(transactions, Mapping) else ""
    prefix = named or names.default_transactional_id_prefix(meta["namespace"], meta["name"])
    started = _has_started(body.get("status"))
    return PrefixNeed(
        prefix=str(prefix),
        brokers=frozenset(str(kafka.get("bootstrapServers", "")).split(",")),
        since=str(meta.get("creationTimestamp", "")),
        started=started,
        accepted=started or (spec.get("suspend") is not True and _is_valid(spec, meta, settings)),
    )


def _has_started(status: object) -> bool:
    attempt = status.get("attempt") if isinstance(status, Mapping) else None
    return isinstance(attempt, Mapping) and bool(attempt.get("id"))


def _is_valid(spec: Mapping[str, Any], meta: Mapping[str, Any], settings: JobSettings) -> bool:
    identity = JobIdentity(meta["namespace"], meta["name"], str(meta.get("uid", "")))
    try:
        accepted_job(spec, job=identity, settings=settings)
    except ConfigurationError:
        return False
    except Exception:
        # The job's own look fails, too, and is repeated. Here it would end the watch or the sweep of all jobs.
        LOG.exception("job %s cannot be read", identity)
        return False
    return True


class PrefixNeeds:
    """The needs of all watched jobs.

    Called by the cache, which may be behind. Kafka's fencing protects the jobs then; this check names the cause.

    :param allowed: beginnings of prefixes that a namespace may use in addition to its own.
    """

    def __init__(self, allowed: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._allowed = allowed or {}
        self._needs: dict[JobKey, PrefixNeed] = {}
        self._by_prefix: dict[str, set[JobKey]] = {}

    def put(self, key: JobKey, need: PrefixNeed | None) -> None:
        if self._needs.get(key) == need:
            return
        self.drop(key)
        if need is not None:
            self._needs[key] = need
            self._by_prefix.setdefault(need.prefix, set()).add(key)

    def drop(self, key: JobKey) -> None:
        need = self._needs.pop(key, None)
        if need is not None:
            keys = self._by_prefix[need.prefix]
            keys.discard(key)
            if not keys:
                del self._by_prefix[need.prefix]

    def refusal(self, key: JobKey) -> PrefixRefusal | None:
        """Why the job may not have its prefix; None where it may.

        The message names no other namespace and nothing in it.
        """
        mine = self._needs.get(key)
        if mine is None:
            return None
        if not self._belongs(mine.prefix, key.namespace):
            message = (
                f"transactional id prefix {mine.prefix!r} does not begin with '{key.namespace}.';"
                " the administrator can allow it by operator.transactionalIdPrefixes of the chart."
                f" Or remove spec.sink.transactions.idPrefix from the manifest and {_again(key)}"
            )
            return PrefixRefusal(NOT_ALLOWED, message)
        rivals = [
            other
            for other in self._by_prefix[mine.prefix]
            if other != key and self._needs[other].brokers & mine.brokers and self._is_before(other, key)
        ]
        if not rivals:
            return None
        near = min((rival for rival in rivals if rival.namespace == key.namespace), default=None)
        message = (
            f"transactional id prefix {mine.prefix!r} is in use by {'another job' if near is None else f'job {near}'};"
            f" write another spec.sink.transactions.idPrefix into the manifest of either job and {_again(key)}"
        )
        return PrefixRefusal(IN_USE, message)

    def _belongs(self, prefix: str, namespace: str) -> bool:
        # A namespace has no period in its name, so the prefixes of two namespaces are never equal.
        return prefix.startswith((f"{namespace}.", *self._allowed.get(namespace, ())))

    def _is_before(self, other: JobKey, key: JobKey) -> bool:
        theirs, mine = self._needs[other], self._needs[key]
        if not theirs.accepted or not (theirs.started or self._belongs(theirs.prefix, other.namespace)):
            return False
        return (not theirs.started, theirs.since, other) < (not mine.started, mine.since, key)


def _again(key: JobKey) -> str:
    """The API server refuses another prefix of an existing job."""
    return f"create it again: kubectl delete ksj {key.name} -n {key.namespace} && kubectl apply -f FILE"
