"""The reaction to a record that fails: ``spec.onRecordError``, ``spec.onTransformError`` and ``spec.deadLetter``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from sparkapp.model.encoding.schema import Described, at, part
from sparkapp.model.job.forms import TOPIC


class OnRecordError(StrEnum):
    """``spec.onRecordError`` and ``spec.onTransformError``; a null key or value is no error under any policy."""

    FAIL = "Fail"
    """The attempt ends before anything of the checkpoint is committed, naming topic, partition and offset."""
    SKIP = "Skip"
    """The record is skipped and counted."""
    DEAD_LETTER = "DeadLetter"
    """The record is written to ``deadLetter.topic`` unchanged, in the transaction of its checkpoint."""


@part
class RecordErrors:
    """The policies; ``dead_letter_topic`` is set where one of them is DEAD_LETTER, and only there."""

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "deadLetter": Described(
            "Destination of records that do not parse or that the transform fails for, written in a transaction of"
            " their checkpoint."
        )
    }

    policy: OnRecordError = at(
        "Reaction to a record whose key or value does not parse. Fail fails the job, Skip skips the"
        " record, DeadLetter writes it to deadLetter.topic. A null is no error.",
        default=OnRecordError.FAIL,
        path="onRecordError",
    )
    transform_policy: OnRecordError = at(
        "Reaction to a record for which the transform raises an exception. Fail fails the checkpoint, Skip skips the"
        " record, DeadLetter writes it to deadLetter.topic. With transform.python and transform.sql, Skip and"
        " DeadLetter need a transform without state and without a shuffle.",
        default=OnRecordError.FAIL,
        path="onTransformError",
    )
    dead_letter_topic: str = at(
        "Name of the topic, which must exist.", default="", path="deadLetter.topic", required=True, form=TOPIC
    )

    @property
    def topics(self) -> tuple[str, ...]:
        """The dead letter topic, if there is one."""
        return (self.dead_letter_topic,) if self.dead_letter_topic else ()
