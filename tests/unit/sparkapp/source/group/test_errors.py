"""The table of a group's errors."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sparkapp.clients.errors import error_for
from sparkapp.model.errors import (
    AuthorizationFailed,
    GroupFull,
    GroupMemberFenced,
    GroupProtocolMismatch,
    SessionTimeoutRefused,
)
from sparkapp.source.group.errors import Reaction, cause_of, reaction_to


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (KafkaError.FENCED_INSTANCE_ID, Reaction.FAIL),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Reaction.FAIL),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, Reaction.FAIL),
        (KafkaError.UNKNOWN_MEMBER_ID, Reaction.REJOIN),
        (KafkaError.ILLEGAL_GENERATION, Reaction.REJOIN),
        (KafkaError._MAX_POLL_EXCEEDED, Reaction.REJOIN),
        (KafkaError.REBALANCE_IN_PROGRESS, Reaction.RETRY),
        (KafkaError.NOT_COORDINATOR, Reaction.RETRY),
        (KafkaError._ALL_BROKERS_DOWN, Reaction.RETRY),
        (KafkaError.OFFSET_METADATA_TOO_LARGE, Reaction.COUNT),
    ],
)
def test_the_reaction_to_a_code(code: int, reaction: Reaction) -> None:
    assert reaction_to(KafkaError(code)) is reaction


def test_the_cause_of_a_fatal_error_is_in_its_text() -> None:
    text = (
        "Fatal error: Broker: Static consumer fenced by other consumer with same group.instance.id:"
        " Fatal consumer error: Broker: Static consumer fenced by other consumer with same group.instance.id"
    )
    fatal = KafkaError(KafkaError._FATAL, text)
    assert reaction_to(fatal) is Reaction.FAIL
    assert cause_of(fatal).code() == KafkaError.FENCED_INSTANCE_ID
    assert cause_of(KafkaError(KafkaError._FATAL, "Fatal error: something new")).code() == KafkaError._FATAL
    other = KafkaError(KafkaError.ILLEGAL_GENERATION)
    assert cause_of(other) is other


def test_what_the_client_calls_fatal_ends_the_attempt() -> None:
    assert reaction_to(KafkaError(KafkaError.OFFSET_METADATA_TOO_LARGE, "", fatal=True)) is Reaction.FAIL


@pytest.mark.parametrize(
    ("code", "kind", "fatal"),
    [
        (KafkaError.FENCED_INSTANCE_ID, GroupMemberFenced, True),
        (KafkaError.INVALID_SESSION_TIMEOUT, SessionTimeoutRefused, True),
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, GroupProtocolMismatch, False),
        (KafkaError.GROUP_MAX_SIZE_REACHED, GroupFull, False),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed, False),
    ],
)
def test_the_error_names_the_remedy_and_whether_a_restart_can_help(
    code: int, kind: type[Exception], fatal: bool
) -> None:
    error = error_for(KafkaError(code), "joining")
    assert type(error) is kind
    assert error.fatal is fatal
    assert "kubectl logs" not in error.remedy
