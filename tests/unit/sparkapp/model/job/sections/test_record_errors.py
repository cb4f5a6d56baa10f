"""``onRecordError`` and ``deadLetter``: what goes together, and what the counters make of it."""

from __future__ import annotations

import json

import pytest

from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointCorrupt, ConfigurationError, InvalidArgument
from sparkapp.model.job.codec import decode_job, encode_job
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.partition import TopicPartition

BASE = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}}
LETTERS = {"onRecordError": "DeadLetter", "deadLetter": {"topic": "dlq"}}
ARROW = {"transform": {"arrow": {"function": "a:b"}}}
CAUGHT = {"onTransformError": "DeadLetter", "deadLetter": {"topic": "dlq"}, **ARROW}


def parsed(**fields):
    return spec_from_resource({**BASE, **fields}, namespace="shop", name="orders")


def test_the_default_fails():
    assert parsed().record_errors == RecordErrors(
        policy=OnRecordError.FAIL, transform_policy=OnRecordError.FAIL, dead_letter_topic=""
    )


@pytest.mark.parametrize(
    "fields", [{}, {"onRecordError": "Skip"}, LETTERS, CAUGHT], ids=["fail", "skip", "letters", "of the transform"]
)
def test_the_driver_reads_back_what_the_operator_wrote(fields):
    job = Job(namespace="shop", name="orders", uid="uid", generation=3, attempt=2, spec=parsed(**fields))
    assert decode_job(encode_job(job)) == job
    assert decode_job(encode_job(job)).spec.record_errors.policy is job.spec.record_errors.policy
    assert decode_job(encode_job(job)).spec.record_errors.transform_policy is job.spec.record_errors.transform_policy


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {**LETTERS, "deadLetter": {"topic": "p"}, "source": {"partitions": [{"topic": "p", "partitions": [0]}]}},
            "also a source topic",
        ),
        ({**LETTERS, "deadLetter": {"topic": "a b"}}, "not a topic name"),
        ({**LETTERS, "deadLetter": {"topic": "x" * 250}}, "not a topic name"),
        ({**LETTERS, "deadLetter": {"topic": 7}}, "spec.deadLetter.topic must be"),
        ({**LETTERS, "deadLetter": {"tpoic": "dlq"}}, "spec.deadLetter.topic is missing"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_work_is_refused(fields, message):
    with pytest.raises(ConfigurationError) as caught:
        parsed(**fields)
    assert message in f"{caught.value.message}; {caught.value.remedy}"


def document(**changes):
    splits = (KafkaPartitionSplit(TopicPartition("in", 0), 0, 9),)
    committable = KafkaCommittable(
        transactional_id="p-0", producer_id=1, producer_epoch=0, checkpoint_id=3, subtask=0,
        records=0, dead_letters=4, ranges=splits,
    )  # fmt: skip
    base = {
        "job_uid": "u", "attempt": 1, "checkpoint_id": 3, "created_at": "t", "parallelism": 1, "prefix": "p",
        "splits": splits, "committables": (committable,),
        "counters": Counters(records_in=9, records_out=2, records_skipped=3, records_dead_lettered=4),
    }  # fmt: skip
    return CheckpointDocument(**{**base, **changes})


def test_the_document_carries_the_totals_and_each_transactions_letters():
    assert decode(encode(document()), job_uid="u") == document()


def test_a_document_of_a_previous_release_has_none():
    body = json.loads(encode(document(committables=())))
    del body["counters"]["recordsSkipped"], body["counters"]["recordsDeadLettered"]
    assert decode(json.dumps(body), job_uid="u").counters == Counters(records_in=9, records_out=2)


@pytest.mark.parametrize("value", [-1, "4", True, None, 1.5])
def test_totals_that_are_no_counts_are_refused(value):
    body = json.loads(encode(document()))
    body["counters"]["recordsDeadLettered"] = value
    with pytest.raises(CheckpointCorrupt, match="recordsDeadLettered"):
        decode(json.dumps(body), job_uid="u")


def test_totals_grow_and_a_lost_transaction_takes_its_letters_back():
    grown = Counters().plus(records_in=9, skipped=3, dead_lettered=4)
    assert (grown.records_skipped, grown.records_dead_lettered) == (3, 4)
    assert grown.plus(dead_lettered=-4).records_dead_lettered == 0


def test_a_committable_has_no_negative_letters():
    with pytest.raises(InvalidArgument):
        KafkaCommittable(
            transactional_id="p-0", producer_id=1, producer_epoch=0, checkpoint_id=3,
            subtask=0, records=0, dead_letters=-1,
        )  # fmt: skip
