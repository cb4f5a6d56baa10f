"""The end of the continuous engine: every subtask confirms that its records were sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import PreCommitFailed
from sparkapp.model.job.spec import Engine, Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.spark.engine.continuous import engine as module
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.engine import ContinuousEngine
from sparkapp.spark.tasks.control_channel import Address, SubtaskChannel
from sparkapp.spark.tasks.write_task import printed

PARALLELISM = 2
LastWords = Callable[[SubtaskChannel, int], None]


class Subtasks:
    """Spark's job at its end: it counts as ended, and the subtasks' last answers may still be on their way.

    :param last_words: what a subtask says when it is asked to end.
    """

    ended = True
    count = PARALLELISM

    def __init__(self, address: Address, last_words: LastWords) -> None:
        self.last_words = last_words
        for subtask in range(PARALLELISM):
            threading.Thread(
                target=self.run, args=(SubtaskChannel(address, subtask=subtask, task=subtask), subtask)
            ).start()

    def run(self, channel: SubtaskChannel, subtask: int) -> None:
        with channel:
            assert channel.receive() is None
            self.last_words(channel, subtask)

    def failure(self) -> None:
        return None


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[[DeliveryGuarantee, LastWords], None]:
    """Stops an engine whose subtasks end as the test says."""

    def stop(guarantee: DeliveryGuarantee, last_words: LastWords) -> None:
        servers: list[ControlServer] = []

        def server(host: str) -> ControlServer:
            servers.append(ControlServer(host))
            return servers[-1]

        monkeypatch.setattr(module, "ControlServer", server)
        monkeypatch.setattr(module, "Subtasks", lambda _, *, spark, address: Subtasks(address, last_words))
        sink = Sink(topic="out", transactional_id_prefix="p", delivery_guarantee=guarantee)
        job = Job(
            namespace="n", name="job", uid="uid", generation=1, attempt=2,
            spec=JobSpec(
                kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(topics=("in",), group_id="g"),
                transform=Transform(), sink=sink, parallelism=PARALLELISM, engine=Engine.CONTINUOUS,
            ),
        )  # fmt: skip
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))
        parts: Any = {"enumerator": SimpleNamespace(finished=False), "coordinator": None, "announcements": None}
        parts |= {"scale": lambda: None, "report": lambda **_: None}
        engine = ContinuousEngine(job, spark=spark, completed=lambda *_: None, **parts)
        connected = threading.Event()
        while len(servers[0].connected) < PARALLELISM:
            connected.wait(0.01)
        engine.drain()
        engine.await_end()

    return stop


def test_a_failure_that_arrives_after_the_end_of_sparks_job_is_reported(
    stopped: Callable[[DeliveryGuarantee, LastWords], None],
) -> None:
    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        channel.stopped(printed(PreCommitFailed("1 records failed")) if subtask else "")

    with pytest.raises(PreCommitFailed, match="1 records failed"):
        stopped(DeliveryGuarantee.NONE, last_words)


def test_a_subtask_that_says_nothing_may_have_lost_records(
    stopped: Callable[[DeliveryGuarantee, LastWords], None],
) -> None:
    def last_words(channel: SubtaskChannel, subtask: int) -> None:
        if not subtask:
            channel.stopped("")

    with pytest.raises(PreCommitFailed, match=r"subtasks \[1\] did not confirm"):
        stopped(DeliveryGuarantee.NONE, last_words)
    stopped(DeliveryGuarantee.EXACTLY_ONCE, last_words)


def test_a_job_of_spark_that_has_ended_is_not_waited_for(
    stopped: Callable[[DeliveryGuarantee, LastWords], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda _: pytest.fail("the engine waits"))
    stopped(DeliveryGuarantee.EXACTLY_ONCE, lambda channel, _: channel.stopped(""))
