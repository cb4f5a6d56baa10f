"""The rehearsal of a recovery: a driver that waits needs no answer of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.delivery_guarantee import OffsetCommit
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.model.job.client.config import OfClusters
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.spark.wiring.wiring import Wiring
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p", transactional=True
)


def rehearse(store: MemoryStore, *, look: Callable[[], None] = lambda: None) -> list[str]:
    """What the clients are asked.

    :param look: called with each look at the transactions.
    """
    asked: list[str] = []

    def noted(document: CheckpointDocument, **_: object) -> None:
        asked.append(f"look {document.checkpoint_id}")
        look()

    # Without offsets in the group there are no marks to ask for.
    spec = plain_spec(source=Source(topics=("in",), group_id="g", offset_commit=OffsetCommit.DISABLED))
    job = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=3, spec=spec)
    context: Any = SimpleNamespace(job=job, environment=SimpleNamespace(store=store))
    prepared: Any = SimpleNamespace(
        configs=OfClusters({}, {}), clusters=SimpleNamespace(source=None), connection=None,
        client=SimpleNamespace(describe=lambda ids, **_: asked.extend(ids)), control=SimpleNamespace(look=noted),
    )  # fmt: skip
    Wiring(context, rotate=lambda: None).rehearse(prepared)
    return asked


def test_the_rehearsal_asks_about_the_document_and_writes_nothing() -> None:
    store = MemoryStore(encode(DOCUMENT))
    before = store.read()
    assert rehearse(store) == ["look 7", "p-offsets"]
    assert store.read() == before


def test_before_the_first_document_there_is_nothing_to_ask() -> None:
    assert rehearse(MemoryStore()) == []


def test_brokers_that_do_not_answer_do_not_end_a_driver_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> None:
        raise KafkaUnreachable("no leader")

    with caplog.at_level(logging.INFO):
        assert rehearse(MemoryStore(encode(DOCUMENT)), look=look) == ["look 7"]
    assert "recovery has to make its own connections: no leader" in caplog.text
