"""What every fault's rig has: a job on topics of its own, and what a test asks of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.client import TransactionClient
from tests.integration.faults.matrix import Cell
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import End, Loss
from tests.support.protocol.story import Story

PARTITIONS = 3


class Rig:
    """Where stories with one kind of fault are played.

    :param cell: which one. :param folder: of whatever has to be on a disk.
    """

    bootstrap: str
    abreast = False
    """Whether all tasks of the checkpoint are at the moment of a task when it strikes; otherwise one is."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.cell = cell
        self.folder = folder
        self.struck = False

    @contextmanager
    def story(self) -> Iterator[Story]:
        """A job on topics of its own."""
        name = self._name()
        source, sink = f"{name}.in", f"{name}.out"
        self._make_topic(source, PARTITIONS)
        self._make_topic(sink, 2)
        client = TransactionClient({"bootstrap.servers": self.bootstrap})
        story = Story(
            bootstrap=self.bootstrap, source=source, sink=sink, prefix=name, client=client, partitions=PARTITIONS,
            engine=self.cell.engine,
        )  # fmt: skip
        self._furnish(story)
        try:
            yield story
        finally:
            self._clean_up()
            story.close()
            client.close()

    def strike(self, story: Story) -> End | Loss | None:
        """The incident; called in the attempt's thread."""
        self.struck = True
        return self._strike(story)

    def aftermath(self, story: Story) -> None:
        """What follows the checkpoint that was hit, before the job continues to its end."""

    def judge(self, story: Story) -> None:
        """What beyond the records this fault may have cost."""

    def _strike(self, story: Story) -> End | Loss | None:
        """Breaks it; returns how the attempt ends or what it loses, None if it continues with all it has."""
        raise NotImplementedError

    def _furnish(self, story: Story) -> None:
        """Changes what the story has before its first attempt."""

    def _clean_up(self) -> None:
        """Everything works again; called after success and failure."""

    def _name(self) -> str:
        """Of a job, which no other job has: its prefix and group."""
        return f"{self.cell.name}.{uuid.uuid4().hex[:6]}"

    def _make_topic(self, name: str, partitions: int) -> None:
        create_topics(self.bootstrap, NewTopic(name, partitions, 1))
