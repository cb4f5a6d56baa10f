"""The broker and the topics of a bench."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def broker_at(bootstrap: str | None, *, overrides: Mapping[str, str] | None = None) -> Iterator[str]:
    """The bootstrap address of the given broker, or of a temporary broker that this starts.

    :param overrides: properties of the temporary broker that win over the defaults.
    """
    if bootstrap:
        yield bootstrap
        return
    from localcluster.kafka.broker import Broker
    from localcluster.kafka.distribution import THROUGHPUT

    with (
        tempfile.TemporaryDirectory() as directory,
        Broker.ephemeral(Path(directory), heap="1g", options=THROUGHPUT, overrides=overrides) as broker,
    ):
        yield broker.bootstrap


def make_topic(bootstrap: str, partitions: int) -> str:
    """Creates a topic and returns its name."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
    return name


def drop_topic(bootstrap: str, topic: str) -> None:
    """Deletes a topic, so that the next run has the disk and the page cache."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(60)
