"""Errors that belong to no call: which surface at once, which explain a deadline, which are forgotten."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sparkapp.dataplane.client_errors import ClientErrors
from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    KafkaUnreachable,
    ReadTimedOut,
    TopicNotFound,
    TransactionFenced,
)


def test_nothing_noted() -> None:
    errors = ClientErrors()
    errors.raise_final("reading")
    errors.raise_fenced("flushing")
    assert str(errors.explain("no progress", ReadTimedOut)) == "no progress"
    assert type(errors.explain("no progress", ReadTimedOut)) is ReadTimedOut


def test_a_lost_connection_alone_only_adds_to_the_message() -> None:
    errors = ClientErrors()
    errors.add(KafkaError._TRANSPORT, "broker 3 disconnected")
    errors.raise_final("reading")
    error = errors.explain("no progress", ReadTimedOut)
    assert type(error) is ReadTimedOut
    assert str(error) == "no progress; broker 3 disconnected (_TRANSPORT)"


@pytest.mark.parametrize("code", [KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._SSL])
def test_no_broker_at_all_is_unreachable_at_the_deadline(code: int) -> None:
    errors = ClientErrors()
    errors.add(code, "nobody")
    errors.add(KafkaError._TRANSPORT, "broker 3 disconnected")
    errors.raise_final("reading")
    assert type(errors.explain("no progress", ReadTimedOut)) is KafkaUnreachable


@pytest.mark.parametrize(
    ("code", "kind"),
    [(KafkaError._AUTHENTICATION, AuthenticationFailed), (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicNotFound)],
)
def test_what_waiting_cannot_heal_is_raised_until_something_goes_well(code: int, kind: type[Exception]) -> None:
    errors = ClientErrors()
    errors.add(code, "no")
    with pytest.raises(kind, match="reading: no"):
        errors.raise_final("reading")
    errors.raise_fenced("flushing")
    errors.clear()
    errors.raise_final("reading")


def test_a_fenced_producer_stays_fenced() -> None:
    errors = ClientErrors()
    errors.add(KafkaError._FENCED, "newer instance")
    errors.clear()
    with pytest.raises(TransactionFenced, match="newer instance"):
        errors.raise_fenced("flushing")
    with pytest.raises(TransactionFenced):
        errors.raise_final("flushing")


def test_what_does_not_concern_the_client_is_not_noted() -> None:
    errors = ClientErrors(ignored=frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED}))
    errors.add(KafkaError.GROUP_AUTHORIZATION_FAILED, "not our group")
    errors.raise_final("reading")
    errors.add(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not our topic")
    with pytest.raises(AuthorizationFailed, match="not our topic"):
        errors.raise_final("reading")
