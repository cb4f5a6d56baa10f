"""The partitions that a job's transactions can have written to."""

from __future__ import annotations

from collections.abc import Iterable

from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.model.delivery_guarantee import OffsetCommit
from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.spec import JobSpec


def log_scope(spec: JobSpec, *, earlier_topics: Iterable[str] = (), earlier_group: str = "") -> LogScope:
    """The scope by the spec and by the checkpoint document, which knows what earlier specs named. Pure.

    Where a column names the topics, any topic can be among them. The group of a job with two clusters is in no
    transaction.

    :param earlier_topics: and ``earlier_group``: of the document; empty for none.
    """
    has_offsets = spec.sink.kafka is None and spec.source.offset_commit is not OffsetCommit.DISABLED
    offsets = spec.source.group_id if has_offsets else ""
    topics = frozenset([*sink_topics(spec), *earlier_topics])
    return LogScope(
        topics=None if spec.sink.topic_from is TopicFrom.COLUMN else topics,
        groups=frozenset({offsets, earlier_group} - {""}),
    )


def sink_topics(spec: JobSpec) -> frozenset[str]:
    """The topics that the spec names for records and dead letters. Pure."""
    return frozenset([spec.sink.topic, *spec.record_errors.topics])
