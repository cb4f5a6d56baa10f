"""The writer's dead letters: one transaction with its records, counted apart, acknowledged together."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.sink.dead_letter import LETTER_SCHEMA
from tests.support.jobs.sink_harness import Harness
from tests.support.kafka import visibility
from tests.support.kafka.topic_scope import TopicScope


def letters(*values: bytes) -> pa.RecordBatch:
    rows = [{"key": b"k", "value": each, "headers": [{"key": "h", "value": b"v"}]} for each in values]
    return pa.RecordBatch.from_pylist(rows, schema=LETTER_SCHEMA)


def test_records_and_letters_become_visible_together(
    broker: str, harness: Callable[..., Harness], make_topic: Callable[..., str], topic_scope: TopicScope
) -> None:
    dlq = make_topic(1, "dlq")
    each = harness().open()
    each.write(1, 2)
    each.writer.write_dead_letters(letters(b"bad"), topic=dlq)
    assert (each.writer.records, each.writer.dead_letters) == (2, 1)
    state = each.snapshot(1)
    (committable,) = state.pending
    assert (committable.records, committable.dead_letters) == (2, 1)
    assert visibility.records(broker, each.topic) == visibility.records(broker, dlq) == []
    each.notify(1)
    topic_scope.await_ended()
    assert visibility.numbers(broker, each.topic) == [1, 2]
    (letter,) = visibility.messages(broker, dlq)
    assert (letter.key(), letter.value(), letter.headers()) == (b"k", b"bad", [("h", b"v")])


def test_a_checkpoint_of_letters_alone_has_a_transaction(
    broker: str, harness: Callable[..., Harness], make_topic: Callable[..., str], topic_scope: TopicScope
) -> None:
    dlq = make_topic(1, "dlq")
    each = harness().open()
    each.writer.begin(1)
    each._begun = True
    each.writer.write_dead_letters(letters(b"a", b"b"), topic=dlq)
    (committable,) = each.snapshot(1).pending
    assert (committable.records, committable.dead_letters) == (0, 2)
    each.notify(1)
    topic_scope.await_ended()
    assert visibility.records(broker, dlq) == [b"a", b"b"]


def test_without_transactions_letters_are_awaited_too(
    broker: str, harness: Callable[..., Harness], make_topic: Callable[..., str]
) -> None:
    dlq = make_topic(1, "dlq")
    each = harness(delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE).open()
    each.writer.begin(1)
    each.writer.write_dead_letters(letters(b"a"), topic=dlq)
    assert each.writer.pre_commit((), group_id=None) is None
    assert visibility.records(broker, dlq) == [b"a"]
