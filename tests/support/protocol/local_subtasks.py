"""Attempts of the local pace without Spark: the driver's parts are real, and each subtask is a process of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.recovery.recovery import recover
from sparkapp.checkpoint.recovery.rolled_back import KafkaGroupMarks
from sparkapp.checkpoint.retained import MemoryRetainedStore
from sparkapp.checkpoint.transaction_control import KafkaTransactionControl
from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.job.client.config import cluster_config, consumer_config
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.source.enumerator.enumerator import enumerator_of
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.local.local_pace import LocalPace
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.reporting.reporter import now
from sparkapp.spark.state import query_log
from tests.support.fakes.memory_store import MemoryStore
from tests.support.protocol.subtask_process import SubtaskProcess

_PATIENCE = 10.0
_SILENCE = 2.0
_END_SECONDS = 120.0


@dataclass
class LocalAttempts:
    """A job over attempts that follow each other; the test takes Spark's part and Kubernetes'.

    :param executors: bootstrap servers of the subtasks, if they have others than the driver.
    :ivar frozen: processes that the test has taken away from an attempt, and may thaw.
    """

    spec: JobSpec
    uid: str
    executors: str = ""
    store: MemoryStore = field(default_factory=MemoryStore)
    number: int = 0
    frozen: list[SubtaskProcess] = field(default_factory=list)

    def start(self, parallelism: int) -> None:
        """Begins the next attempt; returns when its driver has recovered."""
        self.number += 1
        spec = replace(self.spec, parallelism=parallelism)
        job = Job(namespace="ns", name=self.uid, uid=self.uid, generation=1, attempt=self.number, spec=spec)
        config = consumer_config(job, security={})
        self._client = TransactionClient(cluster_config(spec.kafka, security={}, client_id="local"))
        self._cluster = KafkaClusterView(config, read_committed=True)
        claim = Claim(self.store, job_uid=job.uid, attempt=job.attempt)
        recovery = recover(
            job, store=self.store, control=KafkaTransactionControl(job, self._client, config, claim), now=now(),
            retained=MemoryRetainedStore(), engine=query_log, cluster_id=self._cluster.cluster_id(),
            marks=KafkaGroupMarks(job, config, self._cluster),
        )  # fmt: skip
        enumerator = enumerator_of(spec, self._cluster, warn=lambda *_: None)
        restored = recovery.document
        enumerator.start(None if recovery.first_start else restored.offsets, restored.stops or None, restored.topic_ids)
        evidence = GroupOffsetsEvidence(
            config, group_id=spec.source.group_id, confirm_as=offsets_id(spec.sink.transactional_id_prefix)
        )
        self.coordinator = LocalCoordinator(
            job, store=self.store, document=restored, version=recovery.version, evidence=evidence, now=now
        )
        unused: Any = None
        self.server = ControlServer("127.0.0.1", silence=_SILENCE)
        self._pace = LocalPace(
            job, server=self.server, enumerator=enumerator, coordinator=self.coordinator,
            completed=lambda *_: None, await_subtasks=self._replace_silent, liveness=StreamLiveness(),
            places=lambda _: unused,
        )  # fmt: skip
        kafka = replace(spec.kafka, bootstrap_servers=self.executors or spec.kafka.bootstrap_servers)
        self._text = encode_job(replace(job, spec=replace(spec, kafka=kafka)))
        self._lock = threading.Lock()
        self._is_over = False
        self.subtasks = {number: self._started(number) for number in range(parallelism)}
        self._again = PeriodicThread(self._start_again, name="subtasks-again", interval=0.02)
        self._again.start()
        self._draining = self._killed = False
        self._failure: BaseException | None = None
        self._driver = threading.Thread(target=self._drive)
        self._driver.start()

    def drain(self) -> None:
        """An orderly end."""
        self._draining = True
        self._driver.join(_END_SECONDS)
        assert not self._driver.is_alive()
        self._close()
        if self._failure is not None:
            raise self._failure
        self.coordinator.drained()

    def kill(self, *, frozen: bool = False) -> None:
        """The driver dies, and its subtasks find the end of their connections.

        :param frozen: they are frozen before, and the test may thaw them during a later attempt.
        """
        if frozen:
            with self._lock:
                self._is_over = True
            for process in self.subtasks.values():
                process.freeze()
                self.frozen.append(process)
        self._killed = True
        self._close(kill=not frozen)
        self._driver.join(_END_SECONDS)

    def replace(self, number: int) -> None:
        """Freezes a subtask and starts another for it, as after a silence that only the driver has seen."""
        with self._lock:
            self.subtasks[number].freeze()
            self.frozen.append(self.subtasks[number])
            self.subtasks[number] = self._started(number)

    def thaw(self) -> None:
        """Whatever was frozen and taken away continues."""
        for process in self.frozen:
            process.thaw()

    def close(self) -> None:
        """Ends everything."""
        if self.number and not self._is_over:
            self._killed = True
            self._close(kill=True)
        for process in self.frozen:
            process.kill()

    def _drive(self) -> None:
        try:
            while not self._killed and self._pace.step(draining=self._draining):
                pass
            self._pace.end()
            if not self._killed:
                self._stop()
        except BaseException as error:
            self._failure = error

    def _stop(self) -> None:
        silent, deadline = self.server.stop(), Deadline.after(30)
        while silent and not deadline.expired:
            answer = self.server.answer(0.1)
            if answer is not None and answer.is_last:
                assert not answer.failure, answer.failure
                silent.discard(answer.subtask)
            elif answer is not None:
                self._pace.take(answer)
        self._pace.ended(silent)

    def _started(self, number: int) -> SubtaskProcess:
        return SubtaskProcess.start(number, self._text, self.server.address, wave=0, patience=_PATIENCE)

    def _start_again(self) -> None:
        with self._lock:
            for number, process in self.subtasks.items():
                if process.ended and process.process.exitcode and not self._is_over:
                    self.subtasks[number] = self._started(number)

    def _replace_silent(self) -> None:
        for silent in self.server.silent():
            self.replace(silent.subtask)
        time.sleep(0)

    def _close(self, *, kill: bool = True) -> None:
        with self._lock:
            self._is_over = True
        self._again.close()
        self.server.close()
        if kill:
            for process in self.subtasks.values():
                process.kill()
        self._client.close()
        self._cluster.close()
