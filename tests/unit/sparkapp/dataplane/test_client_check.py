"""A property that librdkafka refuses is reported with its name and its field, before any broker is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from sparkapp.dataplane.client_check import check_consumer, check_producer
from sparkapp.model.errors import ConfigurationError

CONSUMER = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
PRODUCER = {
    "bootstrap.servers": "127.0.0.1:1", "transaction.timeout.ms": "900000", "acks": "all", "enable.idempotence": "true",
    "transactional.id": "t",
}  # fmt: skip


@pytest.mark.parametrize(
    ("check", "properties", "expected"),
    [
        (check_consumer, {"fetch.min.byte": "1"}, r"source\.properties: fetch\.min\.byte: No such configuration"),
        (check_consumer, {"fetch.min.bytes": "many"}, r"source\.properties: fetch\.min\.bytes: Invalid value"),
        (check_consumer, {"fetch.min.bytes": "-1"}, r"source\.properties: fetch\.min\.bytes: .*outside"),
        (check_consumer, {"error_cb": "print"}, r"source\.properties: error_cb: "),
        (check_consumer, {"on_commit": "print"}, r"source\.properties: on_commit: "),
        (check_consumer, {"security.protocol": "ssl", "ssl.ca.location": "/none"}, r"source\.properties: .*ssl\.ca\."),
        (check_producer, {"linger": "5", "acks": "all"}, r"sink\.properties: linger: No such configuration property"),
        (check_producer, {"compression.type": "rar"}, r'sink\.properties: compression\.type: Invalid value "rar"'),
        (check_producer, {"message.timeout.ms": "900001"}, r"sink\.properties: message\.timeout\.ms: .*transaction"),
    ],
)
def test_D15_a_refused_property_is_named(
    check: Callable[[Mapping[str, str], Mapping[str, str]], None], properties: Mapping[str, str], expected: str
) -> None:
    base = CONSUMER if check is check_consumer else PRODUCER
    with pytest.raises(ConfigurationError, match=rf"^spec\.{expected}") as caught:
        check({**base, **properties}, properties)
    assert caught.value.fatal
    assert "correct or remove the property" in caught.value.remedy


def test_D15_what_librdkafka_knows_is_accepted() -> None:
    source = {"client.rack": "a", "fetch.max.bytes": "33554432", "max.partition.fetch.bytes": "1000"}
    check_consumer({**CONSUMER, **source}, source)
    sink = {"compression.type": "zstd", "linger.ms": "20"}
    check_producer({**PRODUCER, **sink}, sink)
