"""A checkpoint over subtasks: all must pre-commit, and one that fails tries again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import ConfigurationError, KafkaUnreachable, SubtaskDisconnected
from sparkapp.model.job.spec import Engine, Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.spark.engine.continuous.checkpoint_runner import CheckpointRunner
from sparkapp.spark.engine.continuous.control_server import Answer
from sparkapp.spark.tasks.control_channel import Work
from sparkapp.spark.tasks.write_task import WriteResult, encode_result, printed

PARALLELISM = 2
SPLITS = tuple(KafkaPartitionSplit(TopicPartition("in", number), 10, 20 + number) for number in range(4))
JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=2,
    spec=JobSpec(
        kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(topics=("in",), group_id="g"),
        transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p"), parallelism=PARALLELISM,
        engine=Engine.CONTINUOUS,
    ),
)  # fmt: skip


class Server:
    """Subtasks that answer at once; each takes its next failure from ``failures``."""

    def __init__(self, **failures: list[str]) -> None:
        self.failures = {int(name.removeprefix("subtask_")): texts for name, texts in failures.items()}
        self.given: list[Work] = []
        self.answers: list[Answer] = []

    def give(self, work: dict[int, Work]) -> None:
        for subtask, one in work.items():
            self.given.append(one)
            number = one.order.checkpoint_id
            failures = self.failures.get(subtask, [])
            if failures:
                self.answers.append(Answer(subtask, number, "", failures.pop(0)))
                continue
            result = WriteResult(
                index=subtask, records=sum(split.size for split in one.splits), dead_letters=1, skipped=2,
                committable=None, clients={f"worker-{subtask}": {"fetched": 1}},
            )  # fmt: skip
            # An answer to an earlier checkpoint counts for nothing.
            self.answers += [
                Answer(subtask, number - 1, "", "late"),
                Answer(subtask, number, encode_result(result), ""),
            ]

    def answer(self, _seconds: float) -> Answer | None:
        return self.answers.pop(0) if self.answers else None


def runner(server: Server, log: list[Any]) -> CheckpointRunner:
    def ended() -> None:
        raise SubtaskDisconnected("the subtasks have ended")

    coordinator: Any = SimpleNamespace(
        document=SimpleNamespace(checkpoint_id=6), mode=OffsetCommitMode.IN_TRANSACTION, next_free=4,
        prepare=lambda splits: log.append(("prepare", splits)), before_flush=log.append,
        complete=log.append,
    )  # fmt: skip
    enumerator: Any = SimpleNamespace(topic_ids={"in": "id"}, complete=lambda splits: log.append(("complete", splits)))
    subtasks: Any = server
    return CheckpointRunner(
        JOB, server=subtasks, enumerator=enumerator, coordinator=coordinator, await_subtasks=ended
    )  # fmt: skip


def test_each_subtask_reads_its_own_partitions_and_the_checkpoint_has_all() -> None:
    server, log = Server(), list[Any]()
    made = runner(server, log)
    made.run(SPLITS)
    assert [one.order.subtask for one in server.given] == [0, 1]
    for one in server.given:
        assert one.splits == one.order.ranges
        assert {split_owner("in", split.partition.partition, PARALLELISM) for split in one.splits} == {
            one.order.subtask
        }
        assert (one.order.checkpoint_id, one.order.settled, one.order.next_free) == (7, 6, 4)
        assert one.order.group_id == "g"
    assert log[:2] == [("prepare", SPLITS), 7]
    (checkpoint,) = (entry for entry in log if isinstance(entry, PreCommitted))
    assert (checkpoint.checkpoint_id, checkpoint.splits, checkpoint.aligned) == (7, SPLITS, True)
    assert (checkpoint.records_dead_lettered, checkpoint.records_skipped) == (PARALLELISM, 2 * PARALLELISM)
    assert checkpoint.records_out == sum(split.size for split in SPLITS)
    assert log[-1] == ("complete", SPLITS), "the enumerator goes on behind the final checkpoint only"
    assert set(made.clients) == {"worker-0", "worker-1"}


def test_a_subtask_that_fails_three_times_tries_again_and_no_other_does() -> None:
    server = Server(subtask_1=[printed(KafkaUnreachable("away"))] * 3)
    log = list[Any]()
    runner(server, log).run(SPLITS)
    assert [one.order.subtask for one in server.given] == [0, 1, 1, 1, 1]
    assert any(isinstance(entry, PreCommitted) for entry in log)


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([printed(KafkaUnreachable("away"))] * 4, KafkaUnreachable),
        ([printed(ConfigurationError("no"))], ConfigurationError),
    ],
    ids=["four-times", "at-once-where-no-retry-helps"],
)
def test_a_failure_for_good_completes_nothing(failures: list[str], kind: type[Exception]) -> None:
    server, log = Server(subtask_0=failures), list[Any]()
    with pytest.raises(kind):
        runner(server, log).run(SPLITS)
    assert not any(isinstance(entry, PreCommitted) for entry in log)
    assert not server.failures[0]


def test_subtasks_that_have_ended_end_the_wait() -> None:
    server, log = Server(), list[Any]()
    server.give = lambda _: None  # type: ignore[method-assign]
    with pytest.raises(SubtaskDisconnected):
        runner(server, log).run(SPLITS)
