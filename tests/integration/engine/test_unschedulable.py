"""A stop of a job whose executors have never come is orderly at once, and loses nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model import names
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import produce, settings_of_a_cluster
from tests.support.kafka import visibility
from tests.support.patience import until

pytestmark = pytest.mark.spark

_UNDER_WAY = {
    Engine.MICRO_BATCH: ("assigned splits to", 2.0),
    # The attempt first waits 30 s for an executor.
    Engine.CONTINUOUS: ("the Continuous engine has started", 35.0),
}
"""A line of the log, and seconds behind it: a checkpoint is under way then."""
STOP_SECONDS = 40
"""The stop of Spark and its master is among them, on a busy machine. It took 120 s before, and then a kill."""


@pytest.mark.parametrize("engine", _UNDER_WAY)
def test_a_stop_does_not_wait_for_executors(
    local_job: LocalJobs, broker: str, client: TransactionClient, tmp_path: Path, engine: Engine
) -> None:
    """Workers of a core each have no room for an executor of four."""
    job = local_job(engine=engine)
    produce(broker, job.spec.source.topics[0], 0, 100)
    with pytest.MonkeyPatch.context() as patch:
        variables = settings_of_a_cluster(
            tmp_path, master="local-cluster[1,1,1024]", **{"spark.executor.cores": "4", "spark.executor.memory": "512m"}
        )
        for name, value in variables.items():
            patch.setenv(name, value)
        job.start(alone=True)
        line, seconds = _UNDER_WAY[engine]
        until(lambda: line in job.log(10_000))
        time.sleep(seconds)
        began = time.monotonic()
        assert job.drain() == 0, job.log()
    assert time.monotonic() - began < STOP_SECONDS
    assert "is given up: no executor has come" in job.log(10_000)
    termination = job.termination()
    assert termination is not None
    assert termination.reason == "Drained", termination
    document = job.document()
    assert document is not None
    assert document.drained
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []

    (tmp_path / names.SPARK_CONF_KEY).unlink()
    job.start()
    job.await_records_in(100)
    assert job.drain() == 0, job.log()
    assert sorted(visibility.numbers(broker, job.spec.sink.topic)) == list(range(100))
