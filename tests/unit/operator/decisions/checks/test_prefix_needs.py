"""Two jobs never write under the same transactional ids of one Kafka cluster, and a prefix is its namespace's."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.checks import prefix_needs
from kafkasparkjob_operator.decisions.checks.prefix_needs import (
    GROUP_IN_USE,
    GROUP_NOT_ALLOWED,
    IN_USE,
    NOT_ALLOWED,
    PrefixNeeds,
    claims,
    need_of,
)
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.workload import NO_SETTINGS
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, job_body

OTHER = JobKey("team", "other")


def body(key: JobKey, since: str = "2026-11-21T12:00:00Z", **spec: Any) -> dict[str, Any]:
    made = job_body(**spec)
    made["metadata"] |= {"namespace": key.namespace, "name": key.name, "creationTimestamp": since}
    return made


def needs_of(*bodies: dict[str, Any], **allowed: tuple[str, ...]) -> PrefixNeeds:
    """Jobs that come in this order."""
    jobs = {JobKey(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in bodies}
    needs = PrefixNeeds(allowed, claims=lambda key: claims(jobs[key], NO_SETTINGS))
    for key, each in jobs.items():
        needs.put(key, need_of(each, NO_SETTINGS))
    return needs


def rival(first: dict[str, Any], second: dict[str, Any]) -> JobKey | None:
    needs = needs_of(first, second)
    refusal = needs.refusal(KEY)
    assert refusal is None or (refusal.reason, f"in use by job {OTHER};" in refusal.message) == (IN_USE, True)
    return None if refusal is None else OTHER


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
        (body(KEY, sink=sink("team.p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p")), OTHER),
        (body(KEY, sink=sink("team.p")), body(OTHER, "2026-11-21T13:00:00Z", sink=sink("team.p")), None),
        # Nor does another naming make the prefix another one: a start looks for both.
        (
            body(KEY, sink=sink("team.p", naming="SubtaskAndSlot")),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p")),
            OTHER,
        ),
        # Another one's default is a prefix as any other.
        (body(KEY, sink=sink("team.other")), body(OTHER, "2026-11-21T11:00:00Z"), OTHER),
        (body(KEY, sink=sink("team.p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p-1")), None),
        (body(KEY, sink=sink("team.p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p", "AtLeastOnce")), None),
        # Two sinks without transactions need no prefix of their own.
        (
            body(KEY, sink=sink("team.p", "AtLeastOnce")),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p", "AtLeastOnce")),
            None,
        ),
        (
            body(KEY, sink=sink("team.p"), kafka={"bootstrapServers": "a:1,b:1"}),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"), kafka={"bootstrapServers": "b:1,c:1"}),
            OTHER,
        ),
        (
            body(KEY, sink=sink("team.p"), kafka={"bootstrapServers": "a:1"}),
            body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"), kafka={"bootstrapServers": "c:1"}),
            None,
        ),
    ],
)
def test_I08_the_older_claim_counts(mine: dict[str, Any], theirs: dict[str, Any], found: JobKey | None) -> None:
    assert rival(mine, theirs) == rival(theirs, mine) == found


def test_a_claim_ends_with_its_job() -> None:
    older = body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"))
    needs = needs_of(older, body(KEY, sink=sink("team.p")))
    needs.drop(OTHER)
    assert needs.refusal(KEY) is None


STARTED = {"attempt": {"id": 1}}
FAR = JobKey("elsewhere", "other")


def refusal_of(mine: dict[str, Any], theirs: dict[str, Any], **allowed: tuple[str, ...]) -> tuple[str, str]:
    """Reason and message of the refusal of ``mine``; empty where there is none."""
    refusal = needs_of(theirs, mine, **allowed).refusal(KEY)
    return ("", "") if refusal is None else (refusal.reason, refusal.message)


@pytest.mark.parametrize(
    "theirs",
    [
        body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"), suspend=True),
        body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"), parallelism=0),
        body(FAR, "2026-11-21T11:00:00Z", sink=sink("team.p")),
    ],
    ids=["suspended", "invalid", "of another namespace"],
)
def test_only_an_accepted_job_claims(theirs: dict[str, Any]) -> None:
    mine = body(KEY, sink=sink("team.p"))
    assert refusal_of(mine, theirs) == ("", "")
    # A job that has run keeps its prefix, whatever becomes of its spec.
    assert refusal_of(mine, {**theirs, "status": STARTED})[0] == IN_USE


def test_a_resource_that_nobody_can_read_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error would end the look of another job."""
    monkeypatch.setattr(prefix_needs, "accepted_job", lambda *_, **__: {}["unforeseen"])
    older = body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"))
    assert refusal_of(body(KEY, sink=sink("team.p")), older) == ("", "")


def test_the_spec_of_another_job_is_read_once_for_each_of_its_versions() -> None:
    asked: list[JobKey] = []

    def asks(key: JobKey) -> bool:
        asked.append(key)
        return True

    needs = PrefixNeeds(claims=asks)
    for key, since in ((OTHER, "2026-11-21T11:00:00Z"), (KEY, "2026-11-21T12:00:00Z")):
        needs.put(key, need_of(body(key, since, sink=sink("team.p")), NO_SETTINGS))
    refusals = [needs.refusal(KEY) for _ in range(3)]
    assert (len(set(refusals)), asked) == (1, [OTHER])
    needs.put(OTHER, need_of(body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p")), NO_SETTINGS))
    needs.refusal(KEY)
    assert asked == [OTHER, OTHER]


def test_a_job_without_a_rival_is_not_read() -> None:
    needs = PrefixNeeds(claims=lambda key: pytest.fail(f"{key} is read"))
    for key in (KEY, OTHER):
        needs.put(key, need_of(body(key), NO_SETTINGS))
    assert [needs.refusal(key) for key in (KEY, OTHER)] == [None, None]


def test_a_job_that_has_started_keeps_its_prefix_from_an_older_job() -> None:
    mine, theirs = body(KEY, sink=sink("team.p")), body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p"))
    assert refusal_of(mine, theirs)[0] == IN_USE
    assert refusal_of({**mine, "status": STARTED}, theirs) == ("", "")


@pytest.mark.parametrize(
    ("prefix", "allowed", "reason"),
    [
        ("team.p", (), ""),
        ("team", (), NOT_ALLOWED),
        ("teams.p", (), NOT_ALLOWED),
        ("team-p", (), NOT_ALLOWED),
        ("elsewhere.p", (), NOT_ALLOWED),
        ("legacy-p", ("legacy-", "other-"), ""),
        ("p", ("legacy-",), NOT_ALLOWED),
    ],
)
def test_a_prefix_begins_with_its_namespace(prefix: str, allowed: tuple[str, ...], reason: str) -> None:
    assert refusal_of(body(KEY, sink=sink(prefix)), body(OTHER), team=allowed)[0] == reason


@pytest.mark.parametrize("prefix", ["team.p", "elsewhere.p"])
def test_a_refusal_has_a_command_that_works_on_an_existing_job(prefix: str) -> None:
    """The API server refuses a change of the prefix, so the job is deleted and created again."""
    theirs = body(OTHER, "2026-11-21T11:00:00Z", sink=sink(prefix))
    _, message = refusal_of(body(KEY, sink=sink(prefix)), theirs)
    assert "kubectl delete ksj orders -n team && kubectl apply -f FILE" in message


def test_a_refusal_says_nothing_of_another_namespace() -> None:
    theirs = body(FAR, "2026-11-21T11:00:00Z", sink=sink("legacy"))
    reason, message = refusal_of(body(KEY, sink=sink("legacy")), theirs, team=("legacy",), elsewhere=("legacy",))
    assert reason == IN_USE
    assert "in use by another job;" in message
    assert "elsewhere" not in message


async def test_a_job_with_a_foreign_prefix_does_not_start() -> None:
    operator_fixture = OperatorFixture(sink=sink("elsewhere.p"))
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", NOT_ALLOWED)
    assert operator_fixture.kubernetes.driver_attempts == []


async def test_I08_the_younger_job_waits_and_names_the_older_job() -> None:
    operator_fixture = OperatorFixture(sink=sink("team.p"))
    operator_fixture.cache.put_job(body(OTHER, "2026-11-21T11:00:00Z", sink=sink("team.p")) | {"status": {}})
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "PrefixInUse")
    assert "in use by job team/other" in operator_fixture.status["message"]
    assert operator_fixture.kubernetes.driver_attempts == []
    operator_fixture.cache.drop_job(OTHER)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


def group(name: str, mode: str = "Assign", **source: Any) -> dict[str, Any]:
    return {"topics": ["orders"], "groupId": name, "groupMembership": {"mode": mode}, **source}


AT_LEAST_ONCE = {"topic": "t", "deliveryGuarantee": "AtLeastOnce"}
EARLIER = "2026-11-21T11:00:00Z"


@pytest.mark.parametrize(
    ("mine", "theirs", "reason"),
    [
        (body(KEY), body(OTHER, EARLIER), ""),
        (body(KEY, source=group("g")), body(OTHER, EARLIER, source=group("g")), GROUP_IN_USE),
        (body(KEY, source=group("g")), body(OTHER, "2026-11-21T13:00:00Z", source=group("g")), ""),
        (body(KEY, source=group("g")), body(FAR, EARLIER, source=group("g")), GROUP_IN_USE),
        (body(KEY, source=group("team.other")), body(OTHER, EARLIER), GROUP_IN_USE),
        (body(KEY, source=group("g")), body(OTHER, EARLIER, source=group("g"), sink=AT_LEAST_ONCE), GROUP_IN_USE),
        (body(KEY, source=group("g"), sink=AT_LEAST_ONCE), body(OTHER, EARLIER, source=group("g")), GROUP_IN_USE),
        (body(KEY, source=group("g")), {**body(OTHER, EARLIER, source=group("g"), suspend=True)}, ""),
        (
            body(KEY, source=group("g")),
            {**body(OTHER, EARLIER, source=group("g"), suspend=True), "status": STARTED},
            GROUP_IN_USE,
        ),
        (
            body(KEY, source=group("g"), kafka={"bootstrapServers": "a:1"}),
            body(OTHER, EARLIER, source=group("g"), kafka={"bootstrapServers": "c:1"}),
            "",
        ),
        # Members of a group share it. A job that assigns partitions itself does not share.
        (
            body(KEY, source=group("g", "Subscribe"), sink=AT_LEAST_ONCE),
            body(OTHER, EARLIER, source=group("g", "Subscribe"), sink=AT_LEAST_ONCE),
            "",
        ),
        (
            body(KEY, source=group("g")),
            body(OTHER, EARLIER, source=group("g", "Subscribe"), sink=AT_LEAST_ONCE),
            GROUP_IN_USE,
        ),
        # Without commits the group's offsets are nobody's.
        (
            body(KEY, source=group("g")),
            body(OTHER, EARLIER, source=group("g", offsetCommit="Disabled"), sink=AT_LEAST_ONCE),
            "",
        ),
    ],
)
def test_a_group_belongs_to_a_single_job(mine: dict[str, Any], theirs: dict[str, Any], reason: str) -> None:
    found, message = refusal_of(mine, theirs)
    assert found == reason
    assert not reason or "spec.source.groupId" in message
    assert "elsewhere" not in message


@pytest.mark.parametrize(
    ("name", "allowed", "reason"),
    [
        ("elsewhere.other", (), GROUP_NOT_ALLOWED),
        ("elsewhere.any", (), GROUP_NOT_ALLOWED),
        ("elsewhere.any", ("elsewhere.a",), ""),
        ("elsewhere", (), ""),
        ("com.example.orders", (), ""),
        ("team.any", (), ""),
    ],
)
def test_a_group_of_another_namespaces_shape_is_refused(name: str, allowed: tuple[str, ...], reason: str) -> None:
    """Also where its job does not exist yet: whoever comes first would keep the owner out."""
    theirs = body(FAR, source=group("g"))
    assert refusal_of(body(KEY, source=group(name)), theirs, team=allowed)[0] == reason


def test_a_squatter_does_not_keep_the_owner_out() -> None:
    theirs = {**body(FAR, EARLIER, source=group("team.orders")), "status": STARTED}
    assert refusal_of(body(KEY), theirs) == ("", "")


async def test_a_second_job_of_a_group_does_not_start() -> None:
    operator_fixture = OperatorFixture(source=group("g"))
    operator_fixture.cache.put_job(body(OTHER, EARLIER, source=group("g")) | {"status": {}})
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "GroupIdInUse")
    assert "consumer group 'g' is in use by job team/other" in operator_fixture.status["message"]
    operator_fixture.cache.drop_job(OTHER)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


def of_clusters(key: JobKey, source: str, to: str, since: str = "2026-11-21T12:00:00Z") -> dict[str, Any]:
    """A job with the same prefix and group as another, from one cluster to another."""
    return body(
        key, since, kafka={"bootstrapServers": source}, source={"topics": ["in"], "groupId": "shared"},
        sink={**sink("team.p"), **({"kafka": {"bootstrapServers": to}} if to else {})},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "theirs", "reason"),
    [
        (("a:1", "b:1"), ("c:1", "b:1"), IN_USE),
        (("a:1", "b:1"), ("b:1", ""), IN_USE),
        (("a:1", "b:1"), ("a:1", "c:1"), GROUP_IN_USE),
        (("a:1", "b:1"), ("a:1", ""), GROUP_IN_USE),
        (("a:1", "b:1"), ("b:1", "a:1"), None),
    ],
)
def test_a_prefix_is_of_the_sinks_cluster_and_a_group_of_the_sources(
    mine: tuple[str, str], theirs: tuple[str, str], reason: object
) -> None:
    older = of_clusters(OTHER, *theirs, since="2026-11-21T11:00:00Z")
    refusal = needs_of(of_clusters(KEY, *mine), older).refusal(KEY)
    assert (refusal and refusal.reason) == reason
