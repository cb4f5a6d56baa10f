"""What is wrong with the spec's client properties ends the attempt before a broker, the state or Spark is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkapp.checkpoint.store import MemoryStore
from sparkapp.model.job import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.report import Outcome
from sparkapp.spark.driver import Driver, Surroundings

SPEC = JobSpec(
    kafka=KafkaCluster(bootstrap_servers="127.0.0.1:1"), source=Source(topics=("in",), group_id="g"),
    transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p"),
)  # fmt: skip


@pytest.mark.parametrize("side", ["source", "sink"])
def test_D15_an_unknown_client_property_ends_the_job_with_its_name(tmp_path: Path, side: str) -> None:
    of_side = replace(getattr(SPEC, side), properties={"fetch.min.byte": "1"})
    job = Job(
        namespace="n", name="job", uid="u", generation=1, attempt=1, spec=replace(SPEC, **{side: of_side})
    )  # fmt: skip
    store = MemoryStore()
    around = Surroundings(
        store=store, write_report=lambda _: None, open_session=pytest.fail, close_session=lambda _: None,
        folder=tmp_path, stateful_allowed=False, credentials=tmp_path,
    )  # fmt: skip
    said = Driver(job, around).run()
    assert (said.outcome, said.reason, said.fatal) == (Outcome.FAILED, "InvalidSpec", True)
    assert said.message.startswith(f"spec.{side}.properties: fetch.min.byte: No such configuration property")
    assert "CONFIGURATION.md" in said.remedy
    assert store.read().text is None
