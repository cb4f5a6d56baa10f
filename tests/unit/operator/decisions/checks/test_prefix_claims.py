"""Two jobs never write under the same transactional ids of one Kafka cluster: the older one does."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.checks.prefix_claims import PrefixClaims, claim_of
from kafkasparkjob_operator.identity import JobKey
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, job_body

OTHER = JobKey("team", "other")


def body(key: JobKey, since: str = "2026-11-21T12:00:00Z", **spec: Any) -> dict[str, Any]:
    made = job_body(**spec)
    made["metadata"] |= {"namespace": key.namespace, "name": key.name, "creationTimestamp": since}
    return made


def rival(first: dict[str, Any], second: dict[str, Any]) -> JobKey | None:
    claims = PrefixClaims()
    for one in (first, second):
        claims.put(JobKey(one["metadata"]["namespace"], one["metadata"]["name"]), claim_of(one))
    return claims.older_claimant(KEY)


def sink(prefix: str, delivery_guarantee: str = "ExactlyOnce", naming: str = "Hint") -> dict[str, Any]:
    return {
        "topic": "t",
        "transactions": {"idPrefix": prefix, "naming": naming},
        "deliveryGuarantee": delivery_guarantee,
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        (body(KEY), body(OTHER), None),
        (body(KEY, sink=sink("p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p")), OTHER),
        (body(KEY, sink=sink("p")), body(OTHER, "2026-11-21T13:00:00Z", sink=sink("p")), None),
        # Nor does another naming make the prefix another one: a start looks for both.
        (
            body(KEY, sink=sink("p", naming="SubtaskAndSlot")),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p")),
            OTHER,
        ),
        # Another one's default is a prefix as any other.
        (body(KEY, sink=sink("team.other")), body(OTHER, "2026-11-21T11:00:00Z"), OTHER),
        (body(KEY, sink=sink("p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p-1")), None),
        (body(KEY, sink=sink("p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p", "AtLeastOnce")), None),
        # Two sinks without transactions need no prefix of their own.
        (
            body(KEY, sink=sink("p", "AtLeastOnce")),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p", "AtLeastOnce")),
            None,
        ),
        (
            body(KEY, sink=sink("p"), kafka={"bootstrapServers": "a:1,b:1"}),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p"), kafka={"bootstrapServers": "b:1,c:1"}),
            OTHER,
        ),
        (
            body(KEY, sink=sink("p"), kafka={"bootstrapServers": "a:1"}),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p"), kafka={"bootstrapServers": "c:1"}),
            None,
        ),
    ],
)
def test_I08_the_older_claim_counts(mine: dict[str, Any], theirs: dict[str, Any], found: JobKey | None) -> None:
    assert rival(mine, theirs) == rival(theirs, mine) == found


def test_a_claim_ends_with_its_job() -> None:
    claims = PrefixClaims()
    claims.put(OTHER, claim_of(body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p"))))
    claims.put(KEY, claim_of(body(KEY, sink=sink("p"))))
    claims.drop(OTHER)
    assert claims.older_claimant(KEY) is None


async def test_I08_the_younger_job_waits_and_names_the_older_job() -> None:
    operator_fixture = OperatorFixture(sink=sink("p"))
    operator_fixture.cache.put_job(body(OTHER, "2026-11-21T11:00:00Z", sink=sink("p")) | {"status": {}})
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "PrefixInUse")
    assert "in use by job team/other" in operator_fixture.status["message"]
    assert operator_fixture.kubernetes.driver_attempts == []
    operator_fixture.cache.drop_job(OTHER)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
