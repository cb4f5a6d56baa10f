"""The table of what Kafka's error codes mean."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from sparkapp.clients.errors import MEANING, OUT_OF_REACH, RETRIED, error_for, error_of
from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    KafkaAccessError,
    KafkaUnreachable,
    OffsetsWentBackwards,
    PreCommitFailed,
    TlsFailed,
    TopicNotFound,
    TransactionFenced,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._AUTHENTICATION, AuthenticationFailed),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AuthenticationFailed),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicNotFound),
        (KafkaError._ALL_BROKERS_DOWN, KafkaUnreachable),
        (KafkaError._RESOLVE, KafkaUnreachable),
        (KafkaError._FENCED, TransactionFenced),
        (KafkaError.PRODUCER_FENCED, TransactionFenced),
        (KafkaError.INVALID_PRODUCER_EPOCH, TransactionFenced),
        (KafkaError._AUTO_OFFSET_RESET, OffsetsWentBackwards),
        (KafkaError.OFFSET_OUT_OF_RANGE, OffsetsWentBackwards),
        (KafkaError.MSG_SIZE_TOO_LARGE, PreCommitFailed),
        (KafkaError.POLICY_VIOLATION, KafkaAccessError),
    ],
)
def test_the_class_of_a_code(code: int, kind: type[Exception]) -> None:
    assert type(error_of(code, "words", "reading")) is kind


def test_the_message_says_what_was_done_and_both_names() -> None:
    error = error_for(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no such topic"), "reading orders-3 at 17")
    assert str(error) == "reading orders-3 at 17: no such topic (UNKNOWN_TOPIC_OR_PART)"
    assert "create the topic" in error.remedy
    assert str(error_of(KafkaError._TRANSPORT, "", "x")) == "x: Local: Broker transport failure (_TRANSPORT)"


def test_what_is_retried_or_out_of_reach_is_never_fatal() -> None:
    for code in RETRIED | OUT_OF_REACH:
        assert MEANING.get(code, KafkaUnreachable) is KafkaUnreachable
    assert OUT_OF_REACH <= RETRIED


def test_a_certificate_that_is_not_verified_is_no_passing_failure_of_the_network() -> None:
    text = "ssl://b:1/bootstrap: SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker"
    assert isinstance(error_of(KafkaError._SSL, text, "reading"), TlsFailed)
    assert isinstance(error_of(KafkaError._SSL, "SSL handshake failed: Disconnected", "reading"), KafkaUnreachable)
