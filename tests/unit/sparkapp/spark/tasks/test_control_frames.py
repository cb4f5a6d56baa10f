"""Orders and reports of the local pace, over the wire and back."""

from __future__ import annotations

import json

import pytest

from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.encoding.json_parts import decode_part, encode_part
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.tasks.control_frames import (
    Answer,
    InstanceOrder,
    SubtaskReport,
    decode_instance_order,
    encode_instance_order,
    encode_stop,
)

ONE, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)


@pytest.mark.parametrize(
    "order",
    [
        InstanceOrder(instance=1, open="prefix-0.0"),
        InstanceOrder(instance=2, place={ONE: 5, OTHER: 0}, mark="uid/1/0"),
        InstanceOrder(instance=3, read=(KafkaPartitionSplit(ONE, 5, ENDLESS),)),
        InstanceOrder(instance=4, drop=(OTHER,)),
    ],
)
def test_orders(order: InstanceOrder) -> None:
    assert decode_instance_order(json.loads(encode_instance_order(order))) == order


def test_the_order_to_end() -> None:
    assert decode_instance_order(json.loads(encode_stop())) is None


@pytest.mark.parametrize(
    "report",
    [
        SubtaskReport(instance=0, waits=True),
        SubtaskReport(instance=7, waits=True, failure="ValueError: no", reading=(KafkaPartitionSplit(ONE, 3, 9),)),
        SubtaskReport(instance=7, opened=True),
        SubtaskReport(instance=7, placed={ONE: 3}),
        SubtaskReport(instance=7, offsets={ONE: 9}, totals={"records_out": 4}, clients={"host/1": {"fetches": 2}}),
    ],
)
def test_reports(report: SubtaskReport) -> None:
    answer = Answer(1, report=report)
    assert decode_part(Answer, json.loads(json.dumps(encode_part(answer))), "") == answer
