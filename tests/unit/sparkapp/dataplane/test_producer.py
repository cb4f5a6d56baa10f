"""How long each call of a client may take, and what its failures mean: no client, only its answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from sparkapp.dataplane import producer as checked_producer
from sparkapp.dataplane.client_errors import ClientFailure, Deliveries
from sparkapp.dataplane.interface import GivenUp
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.dataplane.producer import CheckedProducer, Step
from sparkapp.model.errors import (
    AuthorizationFailed,
    KafkaSparkJobError,
    KafkaUnreachable,
    PreCommitFailed,
    TransactionError,
)
from sparkapp.model.partition import TopicPartition

SECONDS = 0.3
RECORD = pa.RecordBatch.from_pydict({"value": [b"1"]})


class Answers(CheckedProducer):
    """Answers as scripted, call by call; then every call succeeds."""

    def __init__(self, *answers: ClientFailure) -> None:
        super().__init__({})
        self.answers = list(answers)
        self.given: list[float] = []
        self.ended = False
        self.rejoined = 0
        self.flushed: list[float] = []
        self.left: list[int] = []
        self.deliveries: list[Deliveries] = []

    def _answer(self, seconds: float) -> None:
        self.given.append(seconds)
        if self.answers:
            raise self.answers.pop(0)

    def _step(self, step: Step, seconds: float) -> None:
        self._answer(seconds)

    def _send_offsets(
        self, offsets: Mapping[TopicPartition, int], group_id: str, metadata: str, seconds: float
    ) -> None:
        self._answer(seconds)

    def _look_at_errors(self) -> None: ...

    def _take_sent(self) -> Mapping[int, int]:
        return {}

    def _rejoin(self) -> None:
        self.rejoined += 1

    def _end(self) -> None:
        self.ended = True

    def _begin(self) -> None: ...

    def _produce(self, output: OutputBatch, topic: str) -> None: ...

    def _flush(self, seconds: float) -> int:
        assert not self.ended
        self.flushed.append(seconds)
        return self.left.pop(0) if self.left else 0

    def _take_deliveries(self) -> Deliveries:
        return self.deliveries.pop(0) if self.deliveries else Deliveries(0, 0)

    def take_partitions(self) -> frozenset[TopicPartition]:
        return frozenset()


def send(producer: CheckedProducer, timeout: float = SECONDS) -> None:
    producer.send_offsets({TopicPartition("in", 0): 1}, group_id="g", metadata="", timeout=timeout)


def test_offsets_are_sent_with_all_their_time_at_once() -> None:
    """librdkafka gives the transaction up at the end of that time: a coordinator that is slower than a slice is not
    slower than it may be."""
    producer = Answers()
    send(producer, timeout=45)
    assert producer.given == [pytest.approx(45, abs=1)]


def test_other_calls_continue_where_a_slice_ended() -> None:
    producer = Answers(*[ClientFailure(KafkaError._TIMED_OUT, "slice")] * 3)
    producer.init_transactions(45)
    assert producer.given == [checked_producer.SLICE] * 4


def test_a_call_that_is_not_wanted_any_more_ends_between_two_slices() -> None:
    producer = Answers(*[ClientFailure(KafkaError._TIMED_OUT, "slice")] * 3)
    with pytest.raises(GivenUp):
        producer.init_transactions(45, wanted=lambda: len(producer.given) < 2)
    assert producer.given == [checked_producer.SLICE] * 2


def test_an_answer_to_come_again_is_heeded_with_the_time_that_is_left() -> None:
    producer = Answers(ClientFailure(KafkaError.REQUEST_TIMED_OUT, "again", is_retriable=True))
    send(producer, timeout=45)
    assert len(producer.given) == 2
    assert producer.given[1] < producer.given[0]


def test_a_record_that_failed_before_a_call_is_the_cause_of_the_calls_failure() -> None:
    producer = Answers(ClientFailure(KafkaError._STATE, "erroneous state"))
    too_large = Deliveries(0, 2, KafkaError.MSG_SIZE_TOO_LARGE, "message too large")
    producer._take_deliveries = lambda: too_large  # type: ignore[method-assign]
    with pytest.raises(PreCommitFailed, match="2 records failed; the first failure: message too large"):
        send(producer)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (KafkaError._TIMED_OUT, KafkaUnreachable),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaUnreachable),
        (KafkaError.NOT_COORDINATOR, KafkaUnreachable),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
        (KafkaError._STATE, TransactionError),
    ],
)
def test_what_the_end_of_its_time_means(code: int, error: type[KafkaSparkJobError]) -> None:
    producer = Answers(ClientFailure(code, "the end"))
    with pytest.raises(error, match="offsets of group g"):
        send(producer)
    assert len(producer.given) == 1


class Stuck(Answers):
    def _send_offsets(
        self, offsets: Mapping[TopicPartition, int], group_id: str, metadata: str, seconds: float
    ) -> None:
        threading.Event().wait()


def test_a_client_that_does_not_come_back_is_left_to_itself() -> None:
    producer = Stuck()
    with pytest.raises(KafkaUnreachable, match=r"no answer from the client for 0\.3 s"):
        send(producer)
    producer.close()
    assert not producer.ended, "ending it under its call would end the process"


@pytest.mark.parametrize("transactional", [False, True])
def test_records_of_a_transaction_reach_their_broker_before_the_client_is_closed(transactional: bool) -> None:
    """librdkafka aborts the process that closes a client whose partitions wait to join the transaction (ADR 31)."""
    producer = Answers()
    if transactional:
        producer.begin_transaction()
    producer.produce(RECORD, topic="out")
    producer.close()
    assert producer.ended
    assert producer.flushed == ([checked_producer._REGISTRATION_SECONDS] if transactional else [])


def test_a_client_whose_records_are_acknowledged_is_closed_at_once() -> None:
    producer = Answers()
    producer.begin_transaction()
    producer.produce(RECORD, topic="out")
    producer.flush(SECONDS)
    producer.close()
    assert producer.ended
    assert len(producer.flushed) == 1


def test_a_flush_waits_for_no_record_behind_one_that_failed() -> None:
    """librdkafka holds the records of a transaction back behind a failure: a refusal was known after two minutes."""
    producer = Answers()
    producer.left = [7, 7]
    producer.deliveries = [Deliveries(90, 0), Deliveries(2, 1, KafkaError.MSG_SIZE_TOO_LARGE, "too large")]
    with pytest.raises(KafkaSparkJobError, match=r"1 records failed, up to 7 are left.*too large"):
        producer.flush(120)
    assert producer.flushed == [checked_producer.SLICE] * 2


def test_a_flush_counts_the_records_of_all_its_slices() -> None:
    producer = Answers()
    producer.left = [1]
    producer.deliveries = [Deliveries(90, 0), Deliveries(8, 0)]
    assert producer.flush(SECONDS) == 98
