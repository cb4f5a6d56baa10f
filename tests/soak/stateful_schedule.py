"""One random schedule of a job with state: real drivers with Spark, killed and frozen, and state that is divided.

The query is the storm's (``tests/soak/storm/stateful.py``): a window, a deduplication, a join and a timer in one.
"""

from __future__ import annotations

import json
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from clusterjob.kafka.reading import read_committed
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.retention import Restore, Retention
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import FOLLOW_PARALLELISM, Engine, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.protocol import ProtocolStep
from tests.soak.storm import stateful
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer

_A_CHECKPOINT = 60
"""Offsets of a checkpoint; each attempt gets several times as many."""
_GAP = 40_000
"""Numbers that are left out now and then: the watermark passes all windows before them."""
_THAWED_SECONDS = 120.0
"""For a driver that was frozen to see that it was replaced."""


@dataclass
class StatefulSchedule:
    """Some attempts, each with records of its own and a fault, then one in peace and the count of what readers see."""

    seed: int
    history: list[str] = field(default_factory=list)

    def run(self, bootstrap: str, client: TransactionClient, make_topic: Callable[..., str], *, prefix: str) -> None:
        """Raises AssertionError where a row is lost, repeated or foreign, or a transaction left open."""
        with tempfile.TemporaryDirectory(prefix="soak-state-", ignore_cleanup_errors=True) as folder:
            dice = random.Random(self.seed)
            play = _Play(dice, bootstrap, client, _job(dice, bootstrap, make_topic, prefix, Path(folder)), self.history)
            try:
                play.to_its_end()
            finally:
                play.close()


def _job(
    dice: random.Random, bootstrap: str, make_topic: Callable[..., str], prefix: str, folder: Path
) -> LocalJob:  # fmt: skip
    code = folder / "code"
    code.mkdir()
    (code / f"{stateful.CODE}.py").write_text(stateful.MODULE)
    uid = f"{prefix}.{dice.randrange(1_000_000)}"
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers=bootstrap),
        source=Source(
            topics=(make_topic(dice.randint(1, 4), "in"),), group_id=uid, startup=Startup(mode=StartupMode.EARLIEST),
            max_offsets_per_checkpoint=_A_CHECKPOINT, value_format=Format.JSON, value_schema="id BIGINT",
        ),
        transform=Transform(function=f"{stateful.CODE}:pipelines"),
        sink=Sink(
            topic=make_topic(dice.randint(1, 3), "out"), delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
            transactional_id_prefix=uid, producers_pool_size=dice.randint(2, 4),
            transaction_naming=dice.choice(list(TransactionNaming)), transaction_timeout_seconds=120,
        ),
        engine=Engine.MICRO_BATCH, parallelism=dice.randint(1, 3), checkpoint_interval_seconds=1,
        state_claim="on-this-disk", state_partitions=FOLLOW_PARALLELISM,
        retention=Retention(interval_seconds=1, count=50),
    )  # fmt: skip
    return LocalJob(folder=folder, spec=spec, uid=uid, host=EngineHost(folder), code=code, stateful=True)


class _Play:
    """A schedule under way."""

    def __init__(
        self, dice: random.Random, bootstrap: str, client: TransactionClient, job: LocalJob, history: list[str]
    ) -> None:
        self._dice, self._bootstrap, self._client, self._job = dice, bootstrap, client, job
        self._history = history
        self._ledger = stateful.StatefulLedger()
        self._next_number = self._produced = self._thawed = 0
        self._frozen: list[LocalJob] = []
        self._all_is_read = True

    def to_its_end(self) -> None:
        for _ in range(self._dice.randint(2, 4)):
            self._produce()
            self._attempt()
        self._last_attempt()

    def close(self) -> None:
        """Ends every process."""
        for frozen in self._frozen:
            frozen.kill()
        self._job.kill()

    def _attempt(self) -> None:
        dice, job, before = self._dice, self._job, self._job.document()
        parallelism = dice.randint(1, 3)
        divides = before is not None and before.engine_has_state and parallelism != job.spec.parallelism
        self._restore(before)
        number, chance = job.attempt + 1, dice.random()
        if divides and chance < 0.4:
            fault = f"repartition:{dice.choice(['before', 'within'])}@{number}"
        elif chance < 0.7:
            checkpoint = (0 if before is None else before.checkpoint_id) + dice.randint(1, 4)
            fault = f"{dice.choice(list(ProtocolStep))}@attempt={number},checkpoint={checkpoint}"
        else:
            fault = ""
        self._note(f"attempt {number}, parallelism {parallelism}, {fault or 'no fault'}")
        job.start(parallelism=parallelism, fault=fault, alone=True)
        self._thaw()
        if not fault and dice.random() < 0.5:
            self._freeze()
            return
        self._await_end_or_records()
        self._all_is_read = self._is_read(job.document())

    def _last_attempt(self) -> None:
        """Writes the pair that ends every window and period, when all before it is read."""
        job = self._job
        self._note("the last attempt")
        job.start(parallelism=self._dice.randint(1, 3), alone=True)
        self._thaw()
        self._await(lambda: self._is_read(job.document()), "all is read")
        stateful.end(self._bootstrap, job.spec.source.topics[0])
        self._produced += len(stateful.LAST)
        self._await(lambda: not self._differences(), "each row is there")
        assert job.drain() == 0, job.log()
        assert not self._differences(), self._differences()
        for frozen in self._frozen:
            frozen.await_end(_THAWED_SECONDS)
        assert visibility.open_transactions(self._client, job.spec.sink.transactional_id_prefix) == []

    def _produce(self) -> None:
        dice, count = self._dice, self._dice.randint(3, 6) * _A_CHECKPOINT
        if self._all_is_read and dice.random() < 0.5:
            self._next_number += _GAP
        producer = idempotent_producer(self._bootstrap)
        for number in range(self._next_number, self._next_number + count):
            producer.produce(self._job.spec.source.topics[0], key=str(number), value=json.dumps({"id": number}))
            producer.poll(0)
        assert producer.flush(30) == 0
        self._next_number += count
        self._produced += count
        self._all_is_read = False
        self._note(f"{count} records")

    def _restore(self, had: CheckpointDocument | None) -> None:
        """Now and then the next attempt goes back to a retained checkpoint with state."""
        retained = [
            each for each in self._job.retained() if each.engine and had and each.checkpoint_id < had.checkpoint_id
        ]
        if had is None or not retained or self._frozen or self._dice.random() < 0.7:
            return
        if had.redeploy_nonce != self._job.spec.restore.nonce:
            return  # the attempt that was to go back has not
        to = self._dice.choice(retained)
        self._ledger.restored(to, had)
        self._job.spec = replace(
            self._job.spec, restore=Restore(checkpoint=to.checkpoint_id, nonce=self._job.attempt + 1)
        )  # fmt: skip
        self._note(f"goes back from {had.checkpoint_id} to {to.checkpoint_id}")

    def _freeze(self) -> None:
        """Driver, JVM and workers stop in the middle of what they do, and nobody waits for them."""
        job, before = self._job, self._job.document()
        known = 0 if before is None else before.checkpoint_id
        self._await(lambda: job.newest() > known or self._is_read(job.document()), "a checkpoint")
        time.sleep(self._dice.random() * 2)
        job.signal_session(signal.SIGSTOP)
        self._frozen.append(replace(job))
        job.process = None
        self._note("frozen")

    def _thaw(self) -> None:
        """While the next attempt starts, or behind its first checkpoint."""
        if not self._frozen or self._thawed == len(self._frozen):
            return
        if self._dice.random() < 0.5:
            attempt, document = self._job.attempt, self._job.document

            def has_written() -> bool:
                found = document()
                return self._has_ended() or (found is not None and found.attempt == attempt)

            self._await(has_written, "a document of the next attempt", may_end=True)
        self._thawed = len(self._frozen)
        self._frozen[-1].signal_session(signal.SIGCONT)
        self._note("thawed")

    def _await_end_or_records(self) -> None:
        """A fault at a step that the attempt never reaches leaves it running: it drains."""
        job = self._job
        self._await(
            lambda: self._has_ended() or self._is_read(job.document()), "the end, or all records", may_end=True
        )  # fmt: skip
        if not self._has_ended():
            with suppress(ProcessLookupError):
                job.drain()
        assert job.process is not None
        status = job.process.poll()
        self._note(f"ended with {status}")
        assert status in {0, -signal.SIGKILL}, f"{job.termination()}\n{job.log()}"

    def _await(self, there: Callable[[], bool], what: str, *, may_end: bool = False) -> None:
        self._job.await_fact(there, lambda: f"{what}: {self._differences()}", may_end=may_end)

    def _has_ended(self) -> bool:
        return self._job.process is not None and self._job.process.poll() is not None

    def _is_read(self, document: CheckpointDocument | None) -> bool:
        """By the offsets of a document of the present attempt."""
        if document is None or document.attempt != self._job.attempt:
            return False
        return sum(document.offsets.values()) >= self._produced

    def _differences(self) -> list[str]:
        topics = self._job.spec.source.topics[0], self._job.spec.sink.topic
        return self._ledger.differences(*(read_committed(self._bootstrap, topic) for topic in topics))

    def _note(self, line: str) -> None:
        self._history.append(line)
