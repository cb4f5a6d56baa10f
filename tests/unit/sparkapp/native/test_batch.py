"""Which implementation is chosen."""

from __future__ import annotations

import pytest

from sparkapp.native import batch


def test_the_switch_forces_the_plain_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(batch.SWITCH, "0")
    assert batch.implementation() == "plain"
    consumer, producer = batch.open_consumer({}), batch.open_producer({})
    try:
        assert type(consumer).__name__ == "PlainConsumer"
        assert type(producer).__name__ == "PlainProducer"
    finally:
        consumer.close()
        producer.close()


def test_the_extension_is_chosen_where_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(batch.SWITCH, raising=False)
    pytest.importorskip("sparkapp.native._kafka_arrow")
    assert batch.implementation() == "native"
    consumer, producer = batch.open_consumer({}), batch.open_producer({})
    try:
        assert type(consumer).__name__ == "NativeConsumer"
        assert type(producer).__name__ == "NativeProducer"
    finally:
        consumer.close()
        producer.close()


def test_without_the_extension_the_plain_implementation_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(batch.SWITCH, raising=False)
    monkeypatch.setattr(batch, "_is_built", lambda: False)
    assert batch.implementation() == "plain"
