"""Transactional id prefixes and consumer groups of all jobs: two jobs with the same would take them from each other."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, JobKey
from kafkasparkjob_operator.observation.observation import PrefixRefusal, cluster_id_of
from kafkasparkjob_operator.resources.acceptance import accepted_job
from kafkasparkjob_operator.status.reasons import JobReason
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import names
from sparkapp.model.delivery_guarantee import OffsetCommit
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.group_membership import MembershipMode

LOG = logging.getLogger(__name__)

EXACTLY_ONCE = "ExactlyOnce"
NOT_ALLOWED = JobReason.PREFIX_NOT_ALLOWED
IN_USE = JobReason.PREFIX_IN_USE
GROUP_NOT_ALLOWED = JobReason.GROUP_ID_NOT_ALLOWED
GROUP_IN_USE = JobReason.GROUP_ID_IN_USE
PREFIX, GROUP = "prefix", "group"
"""Kinds of names at Kafka that a job needs for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixNeed:
    """The prefix and the consumer group that a job needs.

    :param prefix: empty for a job that opens no transactions.
    :param group: that the job commits offsets to; empty where it commits none.
    :param shares: the job is a member of the group, as other jobs may be.
    :param brokers: bootstrap addresses of the group's cluster; two jobs with a common address are on the same cluster.
    :param sink_brokers: likewise, of the cluster of the transactions.
    :param since: creation time of the resource; of two jobs that have not started the older job has the prefix.
    :param started: the job has had an attempt, so transactions may be open under the prefix.
    """

    prefix: str = ""
    group: str = ""
    shares: bool = False
    brokers: frozenset[str]
    sink_brokers: frozenset[str]
    since: str
    started: bool


def need_of(body: Mapping[str, Any], settings: JobSettings) -> PrefixNeed | None:
    """The need of a resource; None where it needs neither a prefix nor a group, or is unreadable.

    :param settings: the administrator's, for names at Kafka.
    """
    meta, spec = body["metadata"], body.get("spec")
    if not isinstance(spec, Mapping):
        return None
    sink, kafka, source = spec.get("sink"), spec.get("kafka"), spec.get("source")
    if not isinstance(sink, Mapping) or not isinstance(kafka, Mapping):
        return None
    settings = _with_own_names(body, settings)
    default = names.default_group_id(meta["namespace"], meta["name"], settings.cluster_id)
    prefix, (group, shares) = _prefix_of(sink, default), _group_of(source, default)
    if not prefix and not group:
        return None
    return PrefixNeed(
        prefix=prefix,
        group=group,
        shares=shares,
        brokers=_addresses(kafka),
        sink_brokers=_addresses(sink.get("kafka") or kafka),
        since=str(meta.get("creationTimestamp", "")),
        started=_has_started(body.get("status")),
    )


def claims(body: Mapping[str, Any], settings: JobSettings) -> bool:
    """Whether the job has started or would start. Another job needs nothing.

    Called where another job wants the same name: it reads the whole spec.

    :param settings: the administrator's: a job that they refuse needs none.
    """
    if _has_started(body.get("status")):
        return True
    spec = body.get("spec")
    if not isinstance(spec, Mapping) or spec.get("suspend") is True:
        return False
    return _is_valid(spec, body["metadata"], _with_own_names(body, settings))


def _with_own_names(body: Mapping[str, Any], settings: JobSettings) -> JobSettings:
    status = body.get("status")
    own = cluster_id_of(status) if isinstance(status, Mapping) else ""
    return replace(settings, cluster_id=own) if own or _has_started(status) else settings


def _addresses(kafka: object) -> frozenset[str]:
    servers = kafka.get("bootstrapServers", "") if isinstance(kafka, Mapping) else ""
    return frozenset(str(servers).split(","))


def _prefix_of(sink: Mapping[str, Any], default: str) -> str:
    if sink.get("deliveryGuarantee", EXACTLY_ONCE) != EXACTLY_ONCE:
        return ""
    transactions = sink.get("transactions")
    named = transactions.get("idPrefix") if isinstance(transactions, Mapping) else ""
    return str(named or default)


def _group_of(source: object, default: str) -> tuple[str, bool]:
    if not isinstance(source, Mapping) or source.get("offsetCommit") == OffsetCommit.DISABLED:
        return "", False
    membership = source.get("groupMembership")
    shares = isinstance(membership, Mapping) and membership.get("mode") == MembershipMode.SUBSCRIBE
    return str(source.get("groupId") or default), shares


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
        # The job's own look fails, too, and is repeated. Here it would end the look of another job.
        LOG.exception("job %s cannot be read", identity)
        return False
    return True


class PrefixNeeds:
    """The needs of all watched jobs.

    Called by the cache, which may be behind. Kafka's fencing protects the jobs then; this check names the cause.

    :param allowed: beginnings of prefixes and groups that a namespace may use in addition to its own.
    :param claims: :func:`claims` of a job; asked once after each :meth:`put`.
    """

    def __init__(
        self, allowed: Mapping[str, tuple[str, ...]] | None = None, *, claims: Callable[[JobKey], bool]
    ) -> None:
        self._allowed = allowed or {}
        self._claims = claims
        self._known_claims: dict[JobKey, bool] = {}
        self._needs: dict[JobKey, PrefixNeed] = {}
        self._by_name: dict[tuple[str, str], set[JobKey]] = {}
        self._namespaces: Counter[str] = Counter()

    def put(self, key: JobKey, need: PrefixNeed | None) -> None:
        """The resource has changed."""
        self._known_claims.pop(key, None)
        if self._needs.get(key) == need:
            return
        self.drop(key)
        if need is not None:
            self._needs[key] = need
            self._namespaces[key.namespace] += 1
            for name in _names_of(need):
                self._by_name.setdefault(name, set()).add(key)

    def drop(self, key: JobKey) -> None:
        self._known_claims.pop(key, None)
        need = self._needs.pop(key, None)
        if need is None:
            return
        self._namespaces[key.namespace] -= 1
        for name in _names_of(need):
            keys = self._by_name[name]
            keys.discard(key)
            if not keys:
                del self._by_name[name]

    def refusal(self, key: JobKey) -> PrefixRefusal | None:
        """Why the job may not have its prefix, or its group; None where it may have both.

        The message names no other namespace and nothing in it.
        """
        mine = self._needs.get(key)
        if mine is None:
            return None
        return (self._prefix_refusal(key, mine) if mine.prefix else None) or (
            self._group_refusal(key, mine) if mine.group else None
        )

    def _prefix_refusal(self, key: JobKey, mine: PrefixNeed) -> PrefixRefusal | None:
        if not self._belongs(mine.prefix, key.namespace):
            message = (
                f"transactional id prefix {mine.prefix!r} does not begin with '{key.namespace}.';"
                " the administrator can allow it by operator.transactionalIdPrefixes of the chart."
                f" Or remove spec.sink.transactions.idPrefix from the manifest and {_again(key)}"
            )
            return PrefixRefusal(NOT_ALLOWED, message)
        rivals = [other for other in self._rivals(key, (PREFIX, mine.prefix)) if self._is_before(other, key)]
        if not rivals:
            return None
        message = (
            f"transactional id prefix {mine.prefix!r} is in use by {_nearest(rivals, key)};"
            f" write another spec.sink.transactions.idPrefix into the manifest of either job and {_again(key)}"
        )
        return PrefixRefusal(IN_USE, message)

    def _group_refusal(self, key: JobKey, mine: PrefixNeed) -> PrefixRefusal | None:
        owner, has_shape, _ = mine.group.partition(".")
        foreign = has_shape and owner != key.namespace and self._namespaces[owner] > 0
        if foreign and not mine.group.startswith(self._allowed.get(key.namespace, ())):
            message = (
                f"consumer group {mine.group!r} begins as the groups of another namespace do; the administrator can"
                " allow it by operator.transactionalIdPrefixes of the chart. Or write another spec.source.groupId into"
                f" the manifest and {_again(key)}"
            )
            return PrefixRefusal(GROUP_NOT_ALLOWED, message)
        rivals = [
            other
            for other in self._rivals(key, (GROUP, mine.group))
            if not (mine.shares and self._needs[other].shares)
            # A group of a namespace's own shape is that namespace's, whoever came first.
            and not (has_shape and owner == key.namespace != other.namespace)
            and self._comes_before(other, key)
            and self._is_claimed(other)
        ]
        if not rivals:
            return None
        message = (
            f"consumer group {mine.group!r} is in use by {_nearest(rivals, key)};"
            f" write another spec.source.groupId into the manifest of either job and {_again(key)}"
        )
        return PrefixRefusal(GROUP_IN_USE, message)

    def _rivals(self, key: JobKey, name: tuple[str, str]) -> list[JobKey]:
        """The other jobs with the name on the same cluster: the sink's for a prefix, the source's for a group."""
        brokers = _brokers_of(self._needs[key], name)
        return [
            other for other in self._by_name[name] if other != key and _brokers_of(self._needs[other], name) & brokers
        ]

    def _belongs(self, prefix: str, namespace: str) -> bool:
        # A namespace has no period in its name, so the prefixes of two namespaces are never equal.
        return prefix.startswith((f"{namespace}.", *self._allowed.get(namespace, ())))

    def _is_before(self, other: JobKey, key: JobKey) -> bool:
        theirs = self._needs[other]
        if not (theirs.started or self._belongs(theirs.prefix, other.namespace)):
            return False
        return self._comes_before(other, key) and self._is_claimed(other)

    def _is_claimed(self, other: JobKey) -> bool:
        if other not in self._known_claims:
            self._known_claims[other] = self._claims(other)
        return self._known_claims[other]

    def _comes_before(self, other: JobKey, key: JobKey) -> bool:
        theirs, mine = self._needs[other], self._needs[key]
        return (not theirs.started, theirs.since, other) < (not mine.started, mine.since, key)


def _brokers_of(need: PrefixNeed, name: tuple[str, str]) -> frozenset[str]:
    kind, _ = name
    return need.sink_brokers if kind == PREFIX else need.brokers


def _names_of(need: PrefixNeed) -> list[tuple[str, str]]:
    return [(kind, name) for kind, name in ((PREFIX, need.prefix), (GROUP, need.group)) if name]


def _nearest(rivals: list[JobKey], key: JobKey) -> str:
    near = min((rival for rival in rivals if rival.namespace == key.namespace), default=None)
    return "another job" if near is None else f"job {near}"


def _again(key: JobKey) -> str:
    """The API server refuses another prefix of an existing job."""
    return f"create it again: kubectl delete ksj {key.name} -n {key.namespace} && kubectl apply -f FILE"
