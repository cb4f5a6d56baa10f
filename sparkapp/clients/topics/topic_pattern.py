"""``source.topicPattern``: a user's regular expression, matched by RE2 in time that is linear in the name.

Python's engine backtracks: ``(a+)+b`` against 200 times ``a`` never ends. The operator matches no pattern. CEL does at
apply, by RE2 as well, and driver and executors do here.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import JobSpec

_FIELD = "spec.source.topicPattern"


class TopicPattern:
    """A regular expression that the whole name of a topic must match.

    Called by the subscriber for each discovery, and by the sink's router.

    :param expression: RE2 syntax: no look-around and no references back.
    :raises ConfigurationError: RE2 refuses it; names the field and RE2's reason.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression
        # By itself first: "a)|(b" is whole only inside of other parentheses.
        for whole in (expression, rf"\A(?:{expression})\z"):
            try:
                pc.match_substring_regex(pa.array([""]), whole)
            except pa.ArrowInvalid as error:
                reason = str(error).removeprefix("Invalid regular expression: ")
                msg = f"{_FIELD} {expression!r} is not a regular expression of RE2: {reason}"
                raise ConfigurationError(
                    msg, remedy="write it without look-around and references back, or name source.topics instead"
                ) from error
        self._whole = whole

    def matching(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics whose whole name matches, in their order."""
        names = pa.array(list(topics), pa.string())
        return [str(name) for name in names.filter(pc.match_substring_regex(names, self._whole)).to_pylist()]

    def matches(self, topic: str) -> bool:
        """Whether the whole name matches."""
        return bool(self.matching([topic]))


def is_read(source: Source, topic: str) -> bool:
    """Whether the job reads the topic, as far as its spec says. Called by the sink's router."""
    named = topic in source.topics or any(partition.topic == topic for partition in source.partitions)
    return named or bool(source.topic_pattern and TopicPattern(source.topic_pattern).matches(topic))


def check_no_loop(spec: JobSpec) -> None:
    """The job does not read what it writes. Topics that the source names are checked with the spec's other rules.

    Called by the driver before anything is started; the CRD's CEL rules say the same at apply. What is written to
    another cluster is not read.

    :raises ConfigurationError: naming the field and what to type instead.
    """
    if not spec.source.topic_pattern or spec.sink.kafka is not None:
        return
    pattern = TopicPattern(spec.source.topic_pattern)
    written = {"spec.sink.topic": (spec.sink.topic,), "spec.deadLetter.topic": spec.record_errors.topics}
    for field, topics in written.items():
        for topic in pattern.matching(topics):
            msg = f"{field}: {topic!r} matches source.topicPattern: the job would read its own output forever"
            raise ConfigurationError(msg, remedy=f"set {field[5:]} to a topic that source.topicPattern does not match")
