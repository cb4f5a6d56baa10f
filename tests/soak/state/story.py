"""One job with state through the attempts of its group: records, parallelism and restores follow from its seed.

Some jobs have all operators of the storm's query (``tests/soak/storm/stateful.py``), a window, a deduplication, a join
and a timer in one. The others have one of them, and take a fraction of the time.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from clusterjob.kafka.reading import read_committed
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.retention import Restore, Retention
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import FOLLOW_PARALLELISM, Engine, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from tests.soak.storm import stateful
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer

_A_CHECKPOINT = 60
"""Offsets of a checkpoint; each attempt gets several times as many."""
_GAP = 40_000
"""Numbers that are left out now and then: the watermark passes all windows before them."""
_ALL_OPERATORS = 0.15
_PARALLELISM = 1, 1, 2, 2, 3
"""Few tasks take little time."""


@dataclass
class Story:
    """Made by :meth:`thrown`; the group calls the methods of each attempt in their order."""

    seed: int
    job: LocalJob
    bootstrap: str
    client: TransactionClient
    dice: random.Random
    ledger: stateful.StatefulLedger
    history: list[str] = field(default_factory=list)
    _next_number: int = 0
    _produced: int = 0
    _all_is_read: bool = True

    @classmethod
    def thrown(
        cls, seed: int, folder: Path, volume: Path, code: Path, *, bootstrap: str, client: TransactionClient,
        make_topic: Callable[..., str], prefix: str,
    ) -> Story:  # fmt: skip
        """
        :param folder: of the job. :param volume: of its state. :param code: has the storm's module.
        :param prefix: of everything with a name.
        """
        dice = random.Random(seed)
        folder.mkdir()
        volume.mkdir()
        (folder / "query").symlink_to(volume)
        uid = f"{prefix}.{seed}"
        operators = () if dice.random() < _ALL_OPERATORS else (dice.choice(stateful.OPERATORS),)
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=bootstrap),
            source=Source(
                topics=(make_topic(dice.randint(1, 4), f"{seed}.in"),), group_id=uid,
                startup=Startup(mode=StartupMode.EARLIEST), max_offsets_per_checkpoint=_A_CHECKPOINT,
                value_format=Format.JSON, value_schema="id BIGINT",
            ),
            transform=Transform(function=f"{stateful.CODE}:{'pipelines' if not operators else operators[0]}"),
            sink=Sink(
                topic=make_topic(dice.randint(1, 3), f"{seed}.out"), transactional_id_prefix=uid,
                delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE, producers_pool_size=dice.randint(2, 4),
                transaction_naming=dice.choice(list(TransactionNaming)), transaction_timeout_seconds=120,
            ),
            engine=Engine.MICRO_BATCH, parallelism=dice.randint(1, 3), checkpoint_interval_seconds=1,
            state_claim="on-this-disk", state_partitions=FOLLOW_PARALLELISM,
            retention=Retention(interval_seconds=1, count=50),
        )  # fmt: skip
        job = LocalJob(folder=folder, spec=spec, uid=uid, host=EngineHost(folder), code=code, stateful=True)
        return cls(seed, job, bootstrap, client, dice, stateful.StatefulLedger(*operators))

    def begin(self, host: EngineHost, *, may_restore: bool) -> None:
        """The next attempt, with records of its own; now and then it goes back or divides its state."""
        self._produce()
        if may_restore:
            self._restore(self.job.document())
        self.start(host)

    def start(self, host: EngineHost) -> None:
        """The next attempt."""
        self.job.host = host
        self.job.start(parallelism=self.dice.choice(_PARALLELISM))
        self.note(f"attempt {self.job.attempt}, parallelism {self.job.spec.parallelism}")

    def ended(self, *allowed: type[KafkaSparkJobError]) -> None:
        """Called when its attempt has ended, or is frozen.

        :param allowed: errors with which it may have failed.
        :raises AssertionError: it failed with another.
        """
        status = None if self.job.process is None else self.job.process.poll()
        end = self.job.termination() if status == 1 else None
        reason = "" if end is None else end.reason
        self._all_is_read = self.is_read()
        self.note(f"at checkpoint {self.job.newest()}, {'frozen' if status is None else f'ended: {status} {reason}'}")
        is_fine = status in {None, 0, -signal.SIGKILL} or reason in {error.reason for error in allowed}
        assert is_fine, f"{end}\n{self.job.log()}"

    def has_ended(self) -> bool:
        """Whether its attempt is over."""
        return self.job.process is None or self.job.process.poll() is not None

    def has_written(self) -> bool:
        """Whether the document is the present attempt's."""
        return self._own_document() is not None

    def is_read(self) -> bool:
        """Whether all records are, by the offsets of a document of the present attempt."""
        document = self._own_document()
        return document is not None and sum(document.offsets.values()) >= self._produced

    def send_last(self) -> None:
        """The pair that ends every window and period, when all before it is read."""
        stateful.end(self.bootstrap, self.job.spec.source.topics[0])
        self._produced += len(stateful.LAST)

    def wait(self, there: Callable[[], bool], what: str, *, may_end: bool = False) -> None:
        """As :meth:`tests.support.jobs.local_job.LocalJob.await_fact`."""
        self.job.await_fact(there, lambda: f"{what}: {self.differences()}", may_end=may_end)

    def await_end_or_records(self) -> None:
        """A fault that its attempt does not meet leaves it running."""
        self.wait(lambda: self.has_ended() or self.is_read(), "the end, or all records", may_end=True)

    def await_rows(self) -> None:
        """Each row is there, and no other."""
        self.wait(lambda: not self.differences(), "each row is there")

    def differences(self) -> list[str]:
        """What readers miss or see too often."""
        topics = self.job.spec.source.topics[0], self.job.spec.sink.topic
        return self.ledger.differences(*(read_committed(self.bootstrap, topic) for topic in topics))

    def require_exactly_once(self) -> None:
        """
        :raises AssertionError: a row is lost, repeated or foreign, or a transaction is left open.
        """
        assert not self.differences(), self.differences()
        assert visibility.open_transactions(self.client, self.job.spec.sink.transactional_id_prefix) == []

    def note(self, line: str) -> None:
        """Another line of the history, for the message of a failure."""
        self.history.append(f"{self.seed}: {line}")

    def _own_document(self) -> CheckpointDocument | None:
        document = self.job.document()
        return document if document is not None and document.attempt == self.job.attempt else None

    def _produce(self) -> None:
        dice, count = self.dice, self.dice.randint(1, 3) * _A_CHECKPOINT
        if self._all_is_read and dice.random() < 0.5:
            self._next_number += _GAP
        producer = idempotent_producer(self.bootstrap)
        for number in range(self._next_number, self._next_number + count):
            producer.produce(self.job.spec.source.topics[0], key=str(number), value=json.dumps({"id": number}))
            producer.poll(0)
        assert producer.flush(30) == 0
        self._next_number += count
        self._produced += count
        self.note(f"{count} records")

    def _restore(self, had: CheckpointDocument | None) -> None:
        """Now and then the next attempt goes back to a retained checkpoint with state."""
        if had is None or self.dice.random() < 0.7:
            return
        retained = [each for each in self.job.retained() if each.engine and each.checkpoint_id < had.checkpoint_id]
        if not retained or had.redeploy_nonce != self.job.spec.restore.nonce:
            return  # or the attempt that was to go back has not
        to = self.dice.choice(retained)
        self.ledger.restored(to, had)
        self.job.spec = replace(
            self.job.spec, restore=Restore(checkpoint=to.checkpoint_id, nonce=self.job.attempt + 1)
        )  # fmt: skip
        self.note(f"goes back from {had.checkpoint_id} to {to.checkpoint_id}")
