"""The deletion of a job whose open transactions no broker ends: what settles them, and what ends the wait."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.decisions.standby import STANDBY_AFTER_SECONDS
from kafkasparkjob_operator.identity import FINALIZER
from kafkasparkjob_operator.kubernetes.port import ObjectRefused
from kafkasparkjob_operator.status.events import MAX_NOTE
from sparkapp.__main__ import main
from sparkapp.cli import transactions
from sparkapp.cli.target import Target
from sparkapp.model import names
from sparkapp.model.errors import CommandRefused
from sparkapp.model.job.codec import decode_job
from sparkapp.model.report import AttemptOutcome, DriverState, Termination
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, OperatorFixture, record_name

NEVER = {"sink": {"topic": "enriched", "transactions": {"timeoutSeconds": 0}}}
STANDBY = {"restartPolicy": {"successor": "Standby"}}
SETTLED = Termination(
    outcome=AttemptOutcome.DRAINED, reason="Settled", message="1 committed, 2 aborted", checkpoint_id=10
)
COMMAND = "python3 -m sparkapp txn abort --all-lingering --bootstrap kafka:9092 --prefix team.orders --yes"


@pytest.fixture
def operator_fixture() -> OperatorFixture:
    return OperatorFixture(**NEVER)


async def crashed(operator_fixture: OperatorFixture, how: Termination | None = FAILED) -> None:
    """The first attempt has crashed, and the job is in backoff, or Failed."""
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, how)
    await operator_fixture.settle()


def settles(operator_fixture: OperatorFixture, attempt: int) -> None:
    """The attempt of a deletion has claimed the state, ended what was open, and ends."""
    operator_fixture.checkpoint(attempt, 10, drained=True)
    operator_fixture.driver_ends(attempt, SETTLED)


def finalizers(operator_fixture: OperatorFixture) -> list[str]:
    return list(operator_fixture.kubernetes.job(KEY)["metadata"].get("finalizers") or ())


def gone(operator_fixture: OperatorFixture) -> bool:
    return not operator_fixture.kubernetes.has_job(KEY)


def left_open(operator_fixture: OperatorFixture) -> list[str]:
    """Messages of the warning that transactions may be open for good."""
    events = [body for place, body in operator_fixture.kubernetes.objects.items() if place[0] == "Event"]
    return [each["message"] for each in events if each["reason"] == "TransactionsLeftOpen"]


def description(operator_fixture: OperatorFixture, attempt: int) -> Any:
    place = ("ConfigMap", KEY.namespace, record_name(attempt))
    return decode_job(operator_fixture.kubernetes.objects[place]["data"][names.JOB_KEY])


async def test_a_resource_is_held_before_its_first_attempt(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.look()
    writes = [each for each in operator_fixture.kubernetes.writes if each[1] != "Event"]
    assert writes[0] == ("patch", names.KIND, KEY.name)
    assert finalizers(operator_fixture) == [FINALIZER]
    assert operator_fixture.drivers == ["orders-1-driver"]


@pytest.mark.parametrize(
    "sink",
    [{}, {"transactions": {"timeoutSeconds": 0}, "deliveryGuarantee": "AtLeastOnce"}],
    ids=["seconds", "at-least-once"],
)
async def test_a_job_whose_transactions_end_by_themselves_is_not_held(sink: dict[str, str]) -> None:
    operator_fixture = OperatorFixture(sink={"topic": "enriched", **sink})
    await crashed(operator_fixture)
    assert finalizers(operator_fixture) == []
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert operator_fixture.kubernetes.driver_attempts == [1]


async def test_a_job_of_an_earlier_operator_is_held_while_it_runs(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.job(KEY)["metadata"]["finalizers"] = ["somebody/else"]
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert finalizers(operator_fixture) == ["somebody/else", FINALIZER]
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_job_runs_where_the_operator_lacks_the_right_to_hold_it(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.refuse_finalizers = "kafkasparkjobs is forbidden: cannot patch"
    await operator_fixture.run(1)
    assert operator_fixture.ready["status"] == "True"
    assert operator_fixture.kubernetes.events(warning=True) == ["FinalizerRefused"]


async def test_no_resource_is_held_where_a_deletion_may_not_wait(operator_fixture: OperatorFixture) -> None:
    """The operator's rights end with the namespace there, and nobody could remove the finalizer."""
    await operator_fixture.run(1)
    assert finalizers(operator_fixture) == [FINALIZER]
    operator_fixture.restart_operator(deletion_seconds=0)
    await operator_fixture.settle()
    assert finalizers(operator_fixture) == []
    assert operator_fixture.ready["status"] == "True"


async def test_a_change_to_seconds_lets_go_when_an_attempt_has_settled_what_never_left(
    operator_fixture: OperatorFixture,
) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": "enriched", "transactions": {"timeoutSeconds": 900}})
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert finalizers(operator_fixture) == [FINALIZER]
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.report(2, DriverState.RECOVERING)
    await operator_fixture.settle()
    assert finalizers(operator_fixture) == [FINALIZER]
    await operator_fixture.run(2)
    assert finalizers(operator_fixture) == []


@pytest.mark.parametrize("how", [FAILED, FATAL, None], ids=["backoff", "failed", "killed"])
async def test_a_crashed_job_that_is_deleted_has_one_more_attempt_that_settles(
    operator_fixture: OperatorFixture, how: Termination | None
) -> None:
    await crashed(operator_fixture, how)
    assert not description(operator_fixture, 1).settles_only
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert description(operator_fixture, 2).settles_only
    assert (operator_fixture.status["state"], operator_fixture.status["attempt"]["startReason"]) == (
        "Deleting",
        "Deleted",
    )
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    await operator_fixture.settle()
    assert not gone(operator_fixture)
    settles(operator_fixture, 2)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert left_open(operator_fixture) == []
    assert "TransactionsSettled" in operator_fixture.kubernetes.events(warning=False)
    assert "RestartScheduled" not in operator_fixture.kubernetes.events()[-2:]


async def test_a_job_that_was_suspended_after_a_crash_is_settled_too(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert description(operator_fixture, 2).settles_only


async def test_a_job_that_drained_is_let_go_at_once(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.look()
    assert gone(operator_fixture)
    assert left_open(operator_fixture) == []


async def test_a_job_that_never_ran_is_let_go_at_once() -> None:
    operator_fixture = OperatorFixture(**NEVER, suspend=True)
    await operator_fixture.settle()
    assert finalizers(operator_fixture) == [FINALIZER]
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.look()
    assert gone(operator_fixture)
    assert operator_fixture.kubernetes.driver_attempts == []


async def test_a_running_driver_drains_and_no_other_attempt_follows(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]["deletionTimestamp"]
    assert (operator_fixture.status["reason"], operator_fixture.status["attempt"]["stopReason"]) == (
        "Draining",
        "Delete",
    )
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert left_open(operator_fixture) == []


async def test_a_driver_that_is_killed_while_it_drains_is_followed_by_a_settling_attempt(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert description(operator_fixture, 2).settles_only


async def superseded(operator_fixture: OperatorFixture) -> None:
    """The first attempt was killed, and its standby has its turn, which the driver has not seen."""
    await operator_fixture.run(1)
    operator_fixture.wait(STANDBY_AFTER_SECONDS)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.driver_ends(1)
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["id"] == 2


@pytest.mark.parametrize(
    ("claimed", "drained"), [(1, False), (1, True), (2, False)], ids=["killed", "drained", "claimed"]
)
async def test_a_standby_that_is_stopped_before_its_recovery_settles_nothing(claimed: int, drained: bool) -> None:
    """It drains with the state of the attempt before it: only that state says whether a transaction may be open."""
    operator_fixture = OperatorFixture(**NEVER, **STANDBY)
    await superseded(operator_fixture)
    operator_fixture.checkpoint(claimed, 10, drained=drained)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    operator_fixture.driver_ends(2, DRAINED)
    await operator_fixture.settle()
    if (claimed, drained) != (1, False):
        assert gone(operator_fixture)
        assert left_open(operator_fixture) == []
        return
    assert operator_fixture.drivers == ["orders-3-driver"]
    assert description(operator_fixture, 3).settles_only
    operator_fixture.kubernetes.pod_runs("orders-3-driver")
    settles(operator_fixture, 3)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert left_open(operator_fixture) == []


async def test_a_drain_whose_state_is_unreadable_leaves_transactions_open() -> None:
    operator_fixture = OperatorFixture(**NEVER, **STANDBY)
    await superseded(operator_fixture)
    operator_fixture.checkpoint(2, 10, drained=True, uid="another-job")
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    operator_fixture.driver_ends(2, DRAINED)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert COMMAND in left_open(operator_fixture)[0]


async def test_a_job_that_is_suspended_in_its_standbys_start_says_what_may_be_left_open() -> None:
    operator_fixture = OperatorFixture(**NEVER, **STANDBY)
    await superseded(operator_fixture)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    operator_fixture.driver_ends(2, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    assert "attempt 2 did not drain in order" in operator_fixture.status["message"]
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": "enriched", "transactions": {"timeoutSeconds": 900}})
    await operator_fixture.settle()
    assert finalizers(operator_fixture) == [FINALIZER], "nobody has settled what never times out"


async def test_a_driver_that_ends_before_any_attempt_claimed_the_state_has_left_nothing(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert operator_fixture.kubernetes.driver_attempts == [1]


async def test_an_attempt_that_settles_and_fails_is_tried_again(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    for attempt in (2, 3):
        operator_fixture.kubernetes.pod_runs(f"orders-{attempt}-driver")
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()
        assert operator_fixture.drivers in ([], [f"orders-{attempt}-driver"])
        operator_fixture.wait(5)
        await operator_fixture.settle()
        assert operator_fixture.drivers == [f"orders-{attempt + 1}-driver"]
        assert description(operator_fixture, attempt + 1).settles_only
    settles(operator_fixture, 4)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert left_open(operator_fixture) == []


async def test_the_wait_ends_with_a_command_to_type(operator_fixture: OperatorFixture) -> None:
    """The image is gone: the pod never starts."""
    await crashed(operator_fixture)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    waiting = {"name": "driver", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    operator_fixture.kubernetes.objects["Pod", "team", "orders-2-driver"]["status"] = {
        "phase": "Pending",
        "containerStatuses": [waiting],
    }
    operator_fixture.wait(299)
    await operator_fixture.settle()
    assert not gone(operator_fixture)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    (message,) = left_open(operator_fixture)
    assert COMMAND in message
    assert "ErrImagePull" in message


@pytest.mark.parametrize("brokers", [1, 7, 100])
async def test_the_command_is_whole_whatever_the_cause_and_the_brokers_are(brokers: int) -> None:
    servers = ",".join(f"broker-{number}.kafka.svc:9092" for number in range(brokers))[:2048]
    prefix = "team." + "p" * 244
    operator_fixture = OperatorFixture(
        kafka={"bootstrapServers": servers},
        sink={"topic": "enriched", "transactions": {"timeoutSeconds": 0, "idPrefix": prefix}},
    )
    await crashed(operator_fixture)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.driver_ends(2, replace(FATAL, message="no module enrich " * 500))
    await operator_fixture.settle()
    (message,) = left_open(operator_fixture)
    assert len(message) <= MAX_NOTE
    assert "attempt 2 failed: InvalidTransform: no module enrich" in message or len(servers) > 300
    about, _, command = message.partition(" Abort them: ")
    assert about.startswith(f"transactions with ids that begin with '{prefix}' may stay open")
    words = shlex.split(command)
    assert words[:7] == ["python3", "-m", "sparkapp", "txn", "abort", "--all-lingering", "--bootstrap"]
    assert words[8:] == ["--prefix", prefix, "--yes"]
    assert servers.startswith(words[7])
    assert all(server.endswith(":9092") for server in words[7].split(",")), "whole addresses"


def test_the_command_is_one_that_the_program_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def target_of(options: argparse.Namespace) -> Target:
        taken.append(options)
        raise CommandRefused("no cluster is asked here")

    monkeypatch.setattr(transactions, "target_of", target_of)
    assert main(shlex.split(COMMAND)[3:]) == 1
    (options,) = taken
    assert (options.bootstrap, options.prefix, options.yes) == ("kafka:9092", "team.orders", True)


async def test_a_failure_that_no_retry_heals_ends_the_wait(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    (message,) = left_open(operator_fixture)
    assert "no module enrich" in message


async def test_a_namespace_that_is_deleted_is_not_held_up(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.refuse_pods = (
        'pods "orders-2-driver" is forbidden: unable to create new content in namespace team because it is being'
        " terminated"
    )
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.look(2)
    with pytest.raises(ObjectRefused):
        await operator_fixture.look()
    assert gone(operator_fixture)
    assert len(left_open(operator_fixture)) == 1


async def test_a_quota_is_tried_again_until_the_time_is_over(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.refuse_pods = "exceeded quota"
    operator_fixture.kubernetes.delete_job(KEY)
    for _ in range(3):
        await operator_fixture.settle_or_refused()
        assert not gone(operator_fixture)
        operator_fixture.wait(99)
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert len(left_open(operator_fixture)) == 1


@pytest.mark.parametrize("spoilt", ["state", "spec"])
async def test_without_state_or_spec_nothing_is_tried(operator_fixture: OperatorFixture, spoilt: str) -> None:
    await crashed(operator_fixture)
    if spoilt == "state":
        operator_fixture.kubernetes.remove(("ConfigMap", "team", "orders-state"))
    else:
        operator_fixture.kubernetes.edit_job(KEY, sink={"topic": ""})
        operator_fixture.kubernetes.remove(("ConfigMap", "team", record_name(1)))
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert COMMAND in left_open(operator_fixture)[0]


async def test_an_invalid_edit_leaves_the_last_attempts_spec(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": ""})
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert description(operator_fixture, 2).spec.sink.topic == "enriched"


@pytest.mark.parametrize("state", ["crashed", "running"])
async def test_a_foreground_deletion_is_let_go_at_once(operator_fixture: OperatorFixture, state: str) -> None:
    """Kubernetes deletes what the job owns before the job: an attempt would lose its pod and its ConfigMaps."""
    if state == "crashed":
        await crashed(operator_fixture)
    else:
        await operator_fixture.run(1)
    operator_fixture.kubernetes.delete_job(KEY, foreground=True)
    await operator_fixture.look()
    assert finalizers(operator_fixture) == ["foregroundDeletion"]
    assert len(left_open(operator_fixture)) == (1 if state == "crashed" else 0)


async def test_an_operator_that_restarts_continues_where_the_cluster_is(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.delete_job(KEY)
    for _ in range(12):
        operator_fixture.restart_operator()
        await operator_fixture.look()
        operator_fixture.kubernetes.kubelet()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    operator_fixture.kubernetes.job(KEY)["status"]["attempt"] = {
        "id": 1,
        "outcome": "Failed",
    }  # the write of the start was lost
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    settles(operator_fixture, 2)
    await operator_fixture.settle()
    assert gone(operator_fixture)
    assert left_open(operator_fixture) == []


async def test_the_record_says_what_the_attempt_is_for(operator_fixture: OperatorFixture) -> None:
    await crashed(operator_fixture)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    data = operator_fixture.kubernetes.objects["ConfigMap", "team", record_name(2)]["data"]
    assert json.loads(data["resource-spec.json"])["settles"] is True
