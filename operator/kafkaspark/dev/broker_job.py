"""The job of a resource as a developer runs it on a broker: under names of its own."""

from __future__ import annotations

import os
from dataclasses import replace

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition

SUFFIX = "-dev"


def broker_job(job: Job, *, bootstrap: str, as_is: bool, writes_source: bool) -> Job:
    """The job with another group, transactional id prefix and broker than those of its resource.

    With the resource's own the job of the cluster would be fenced, and its group's offsets would move.

    :param bootstrap: address of the broker, without TLS and authentication.
    :param as_is: write to the topics of the resource.
    :param writes_source: the records of a file are written to the source's topics.
    :raises ConfigurationError: topics of the resource would be written that :data:`SUFFIX` cannot rename.
    """
    user = os.environ.get("USER") or os.getuid()
    spec, name = job.spec, f"dev.{user}.{job.namespace}.{job.name}"
    if spec.sink.topic_from is TopicFrom.COLUMN and not as_is:
        msg = "sink.topicFrom is Column: the transform chooses topics that the job of the cluster may write, too"
        raise ConfigurationError(msg, remedy="add --as-is to write to these topics")
    source = replace(spec.source, group_id=name)
    if writes_source and not as_is:
        source = _renamed(source)
    letters = spec.record_errors.dead_letter_topic
    if not as_is:
        letters = letters and letters + SUFFIX
    return replace(
        job,
        spec=replace(
            spec, kafka=KafkaCluster(bootstrap_servers=bootstrap), metrics_port=0,
            source=source,
            sink=replace(
                spec.sink, kafka=None, transactional_id_prefix=name,
                topic=spec.sink.topic if as_is else spec.sink.topic + SUFFIX,
            ),
            record_errors=replace(spec.record_errors, dead_letter_topic=letters),
        ),
    )  # fmt: skip


def _renamed(source: Source) -> Source:
    """
    :raises ConfigurationError: the source has a pattern.
    """
    if source.topic_pattern:
        msg = "--input writes records to the source's topics, and source.topicPattern names none"
        raise ConfigurationError(msg, remedy="set source.topics, or remove --input and write the records yourself")
    return replace(
        source, topics=tuple(topic + SUFFIX for topic in source.topics),
        partitions=tuple(TopicPartition(each.topic + SUFFIX, each.partition) for each in source.partitions),
    )  # fmt: skip
