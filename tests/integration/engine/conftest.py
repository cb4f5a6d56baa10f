"""Jobs as real processes against the real broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import LocalJob
from tests.support.jobs.state_story import StateStory

LocalJobs = Callable[..., LocalJob]
StateStories = Callable[..., StateStory]


@pytest.fixture(scope="session")
def host_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the host, its JVM and its Python workers print, of every attempt."""
    return tmp_path_factory.mktemp("engine") / "host.log"


@pytest.fixture(scope="session")
def engine_host(host_log: Path) -> Iterator[EngineHost]:
    host = EngineHost(host_log.parent)
    yield host
    host.close()


@pytest.fixture
def local_job(
    broker: str, unique: str, tmp_path: Path, make_topic: Callable[..., str], engine_host: EngineHost
) -> Iterator[LocalJobs]:
    """``local_job(source=…, transform=…, …) -> LocalJob`` with topics of this test's own; processes end with it."""
    made: list[LocalJob] = []

    def make(
        *,
        partitions: int = 4,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        transform: Transform | None = None,
        parallelism: int = 2,
        interval: int = 1,
        max_offsets: int = 1_000_000,
        pool_size: int = 3,
        transaction_naming: TransactionNaming = TransactionNaming.HINT,
        code: Path | None = None,
        stateful: bool = False,
        on_record_error: OnRecordError = OnRecordError.FAIL,
        only: tuple[TopicPartition, ...] = (),
        engine: Engine = Engine.MICRO_BATCH,
        **source: object,
    ) -> LocalJob:
        topic = str(source.pop("topic", "") or make_topic(partitions, "in"))
        if only:
            source["partitions"] = only
        fields: dict[str, object] = {"topics": (topic,), "startup": Startup(mode=StartupMode.EARLIEST), **source}
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=broker),
            source=Source(group_id=unique, max_offsets_per_checkpoint=max_offsets, **fields),  # type: ignore[arg-type]
            transform=transform or Transform(),
            sink=Sink(
                topic=make_topic(partitions, "out"),
                delivery_guarantee=delivery_guarantee,
                transactional_id_prefix=unique,
                producers_pool_size=pool_size,
                transaction_naming=transaction_naming,
                transaction_timeout_seconds=120,
            ),
            engine=engine,
            parallelism=parallelism,
            checkpoint_interval_seconds=interval,
            record_errors=RecordErrors(
                policy=on_record_error,
                dead_letter_topic=make_topic(2, "dlq") if on_record_error is OnRecordError.DEAD_LETTER else "",
            ),
        )
        made.append(LocalJob(folder=tmp_path, spec=spec, uid=unique, host=engine_host, code=code, stateful=stateful))
        return made[-1]

    yield make
    for job in made:
        job.kill()


@pytest.fixture
def state_story(broker: str, client: TransactionClient) -> StateStories:
    """``state_story(job, wanted, *topics, is_alone=False) -> StateStory``; the job's own topic without any."""

    def make(job: LocalJob, wanted: Counter[str], *topics: str, is_alone: bool = False) -> StateStory:
        return StateStory(job, broker, client, wanted, topics or (job.spec.sink.topic,), is_alone)

    return make
