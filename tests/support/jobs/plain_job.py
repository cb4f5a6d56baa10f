"""The job of units that are about something else: one source topic, one sink topic, all else by default."""

from __future__ import annotations

from typing import Any

from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import JobSpec


def plain_spec(**fields: Any) -> JobSpec:
    """From ``in`` to ``out``, with the group ``g`` and the prefix ``p``.

    :param fields: of the spec, in place of these or of the defaults.
    """
    plain = {
        "kafka": KafkaCluster(bootstrap_servers="b:1"),
        "source": Source(topics=("in",), group_id="g"),
        "transform": Transform(),
        "sink": Sink(topic="out", transactional_id_prefix="p"),
    }
    return JobSpec(**plain | fields)
