"""Transactional id prefixes of all jobs: two jobs with one prefix on one Kafka cluster fence each other without end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.identity import JobKey
from sparkapp.model import names

EXACTLY_ONCE = "EXACTLY_ONCE"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job claims.

    :param brokers: addresses of its Kafka cluster; clusters are taken for the same if they share one.
    :param since: creation of the resource; the older claim counts.
    """

    prefix: str
    brokers: frozenset[str]
    since: str


def claim_of(body: Mapping[str, Any]) -> Claim | None:
    """The claim of a resource; None for one that opens no transactions, or that cannot be read."""
    meta, spec = body["metadata"], body.get("spec")
    if not isinstance(spec, Mapping):
        return None
    sink, kafka = spec.get("sink"), spec.get("kafka")
    if not isinstance(sink, Mapping) or not isinstance(kafka, Mapping):
        return None
    if sink.get("semantic", EXACTLY_ONCE) != EXACTLY_ONCE:
        return None
    prefix = sink.get("transactionalIdPrefix") or names.default_transactional_id_prefix(meta["namespace"], meta["name"])
    return Claim(
        prefix=str(prefix),
        brokers=frozenset(str(kafka.get("bootstrapServers", "")).split(",")),
        since=str(meta.get("creationTimestamp", "")),
    )


class PrefixClaims:
    """The claims of all jobs that the watch has told of.

    Called by the cache. It may be behind: Kafka's own fencing is the second wall, this is the one that explains itself.
    """

    def __init__(self) -> None:
        self._claims: dict[JobKey, Claim] = {}
        self._by_prefix: dict[str, set[JobKey]] = {}

    def put(self, key: JobKey, claim: Claim | None) -> None:
        if self._claims.get(key) == claim:
            return
        self.drop(key)
        if claim is not None:
            self._claims[key] = claim
            self._by_prefix.setdefault(claim.prefix, set()).add(key)

    def drop(self, key: JobKey) -> None:
        claim = self._claims.pop(key, None)
        if claim is not None:
            keys = self._by_prefix[claim.prefix]
            keys.discard(key)
            if not keys:
                del self._by_prefix[claim.prefix]

    def older_claimant(self, key: JobKey) -> JobKey | None:
        """The job that claimed the same prefix on the same Kafka cluster before this one."""
        mine = self._claims.get(key)
        if mine is None:
            return None
        rivals = [
            other
            for other in self._by_prefix[mine.prefix]
            if other != key
            and self._claims[other].brokers & mine.brokers
            and (self._claims[other].since, other) < (mine.since, key)
        ]
        return min(rivals, default=None)
