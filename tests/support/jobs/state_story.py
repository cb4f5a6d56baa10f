"""What happens to each job with state: a kill, other partitions of state, a way back to a retained checkpoint.

What readers see is compared with what plain Python computes from the input, whatever operators the job has.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.job.sections.retention import Restore, Retention
from sparkapp.model.job.spec import FOLLOW_PARALLELISM
from sparkapp.spark.state.query_log import EngineState, decode_engine
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility

_EVERYTHING = 1_000_000
"""Offsets of a checkpoint: records that end all windows must not be read before others."""


@dataclass(frozen=True)
class StateStory:
    """Made by the fixture ``state_story``.

    :param wanted: what readers are to find, once the job has read its last records.
    :param topics: of the sink.
    :param is_alone: each attempt has a JVM of its own. Spark looks for processors of ``transformWithState`` with the
        JVM's variables, and those of the host have no code of this job.
    """

    job: LocalJob
    broker: str
    client: TransactionClient
    wanted: Counter[str]
    topics: tuple[str, ...]
    is_alone: bool

    def __post_init__(self) -> None:
        self.job.spec = replace(
            self.job.spec, state_claim="on-this-disk", state_partitions=FOLLOW_PARALLELISM,
            retention=Retention(interval_seconds=1, count=50),
        )  # fmt: skip

    def is_killed_and_divided(self, records: int, send_last: Callable[[], None]) -> None:
        """Killed in a checkpoint with state, then with three partitions of state instead of two.

        :param records: in the source's topics now.
        :param send_last: sends the records that make the rest of ``wanted`` final.
        """
        job = self.job
        job.start(parallelism=2, fault="after-flush@attempt=1,checkpoint=2")
        assert job.await_end() == -signal.SIGKILL, job.log()
        assert self._last()[0].checkpoint_id == 1
        job.start(parallelism=3, alone=self.is_alone)
        job.await_records_in(records)
        send_last()
        self._await_written(self.wanted.total())
        assert job.drain() == 0, job.log()
        document, engine = self._last()
        assert engine.state_partitions == 3
        assert document.counters.records_out == self.wanted.total()
        self._assert_written(self.wanted)

    def goes_back(self) -> None:
        """To the first retained checkpoint of the last attempt, with one partition of state."""
        job, (last, _) = self.job, self._last()
        target = self._first_retained()
        due = self.wanted.total() - target.records_out
        assert due > 0, "the first checkpoint had written everything"
        job.spec = replace(
            job.spec, restore=Restore(checkpoint=target.checkpoint_id, nonce=1),
            source=replace(job.spec.source, max_offsets_per_checkpoint=_EVERYTHING),
        )  # fmt: skip
        job.start(parallelism=1, alone=self.is_alone)
        self._await_written(self.wanted.total() + due)
        assert job.drain() == 0, job.log()
        document, engine = self._last()
        assert document.checkpoint_id > last.checkpoint_id + 2, "the restore, other partitions, and a batch"
        assert engine.state_partitions == 1
        again = self.written() - self.wanted
        assert self.written() == self.wanted + again, "each is there, and right"
        assert (again.total(), max(again.values())) == (due, 1)
        assert visibility.open_transactions(self.client, job.spec.sink.transactional_id_prefix) == []

    def written(self) -> Counter[str]:
        """What readers see."""
        return Counter((value or b"").decode() for topic in self.topics for value in self.values(topic))

    def values(self, topic: str) -> list[bytes | None]:
        """What readers see in a topic of the sink."""
        return visibility.records(self.broker, topic)

    def _await_written(self, count: int) -> None:
        self.job.await_fact(lambda: self.written().total() >= count, lambda: f"lost: {self.wanted - self.written()}")

    def _assert_written(self, wanted: Counter[str]) -> None:
        found = self.written()
        assert found - wanted == Counter(), "repeated, or never to be written"
        assert wanted - found == Counter(), "lost"
        assert visibility.open_transactions(self.client, self.job.spec.sink.transactional_id_prefix) == []

    def _last(self) -> tuple[CheckpointDocument, EngineState]:
        document = self.job.document()
        assert document is not None
        return document, decode_engine(document.engine)

    def _first_retained(self) -> RetainedCheckpoint:
        return next(each for each in self.job.retained() if each.attempt == self.job.attempt and each.engine)
