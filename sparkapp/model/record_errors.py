"""What becomes of a record that does not parse: ``spec.onRecordError`` and ``spec.deadLetter``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.fields import Fields


class RecordErrorPolicy(StrEnum):
    """The user's choice in ``onRecordError``; a null key or value is no error under any of them."""

    FAIL = "Fail"
    """The attempt ends before anything of the checkpoint is committed, naming topic, partition and offset."""
    SKIP = "Skip"
    """The record is left out and counted."""
    DEAD_LETTER = "DeadLetter"
    """The record goes to ``deadLetter.topic`` as it was, in the transaction of its neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordErrors:
    """The policy; ``dead_letter_topic`` is set with DEAD_LETTER and only there."""

    policy: RecordErrorPolicy = RecordErrorPolicy.FAIL
    dead_letter_topic: str = ""


def record_errors_from_resource(root: Fields) -> RecordErrors:
    """Reads the two fields of ``spec``.

    :raises ConfigurationError: naming the field and what it takes.
    """
    letters = root.child("deadLetter")
    return RecordErrors(
        policy=root.choice("onRecordError", RecordErrorPolicy, RecordErrorPolicy.FAIL),
        dead_letter_topic="" if letters.empty else letters.string("topic"),
    )


def check_record_errors(errors: RecordErrors, *, topics: Collection[str], sink: str) -> None:
    """The rules between the policy and the topics; the topic's name itself is checked with the others'.

    :param topics: every source topic that has a name: of ``source.topics`` or of ``source.partitions``.
    :raises ConfigurationError: naming the field and what to type instead.
    """
    topic = errors.dead_letter_topic
    if (errors.policy is RecordErrorPolicy.DEAD_LETTER) != bool(topic):
        msg = (
            "spec.deadLetter.topic: needed with onRecordError: DeadLetter, and only there; "
            "write onRecordError: DeadLetter and deadLetter: {topic: NAME}, or neither"
        )
        raise ConfigurationError(msg)
    if topic and topic in topics:
        msg = f"spec.deadLetter.topic: {topic!r} is also a source topic: the job would read its own letters forever"
        raise ConfigurationError(msg)
    if topic and topic == sink:
        msg = f"spec.deadLetter.topic: {topic!r} is the sink topic: name another one, or readers would get both"
        raise ConfigurationError(msg)
