"""Orders and reports of the local pace, over the wire and back."""

from __future__ import annotations

import json

import pytest

from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.tasks.control_channel import encode_stop
from sparkapp.spark.tasks.local.local_frames import (
    InstanceOrder,
    SubtaskReport,
    decode_instance_order,
    decode_subtask_report,
    encode_instance_order,
    subtask_report_body,
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
    assert decode_subtask_report(json.loads(json.dumps(subtask_report_body(report)))) == report


def test_the_end_of_a_subtask_is_no_report() -> None:
    assert decode_subtask_report({"stopped": True, "failure": ""}) is None
