"""Transactional id prefixes of all jobs. Two jobs with the same prefix on a Kafka cluster fence each other forever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkasparkjob_operator.identity import JobKey
from sparkapp.model import names

EXACTLY_ONCE = "ExactlyOnce"


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim of a job.

    :param brokers: bootstrap addresses; two jobs with a common address are on the same cluster.
    :param since: creation time of the resource; the older claim wins.
    """

    prefix: str
    brokers: frozenset[str]
    since: str


def claim_of(body: Mapping[str, Any]) -> Claim | None:
    """The claim of a resource; None where it opens no transactions or is unreadable."""
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
    return Claim(
        prefix=str(prefix),
        brokers=frozenset(str(kafka.get("bootstrapServers", "")).split(",")),
        since=str(meta.get("creationTimestamp", "")),
    )


class PrefixClaims:
    """The claims of all watched jobs.

    Called by the cache, which may be behind. Kafka's fencing protects the jobs then; this check names the cause.
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
        """The job that claimed the same prefix on the same Kafka cluster earlier; None where there is none."""
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
