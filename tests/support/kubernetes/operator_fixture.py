"""One job on a Kubernetes in memory, and an operator that is asked to look at it."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.controller.reconcile import Reconciler
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.decisions.state_machine import plan
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.settings import NetworkRules
from kafkasparkjob_operator.workload import NO_SETTINGS, JobSettings
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.codec import decode_job
from sparkapp.model.report import (
    AttemptOutcome,
    DriverState,
    Report,
    ReportEvent,
    Termination,
    encode_report,
    encode_termination,
)
from tests.support.fakes.kubernetes import FakeKubernetes

KEY = JobKey("team", "orders")
UID = "job-uid"
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def record_name(attempt: int) -> str:
    """Name of an attempt's ConfigMap."""
    return names.attempt_config_map(KEY.name, UID, attempt)


def secret_name(attempt: int) -> str:
    """Name of an attempt's Secret."""
    return names.spark_secret(KEY.name, UID, attempt)


def job_body(**spec: Any) -> dict[str, Any]:
    """A resource as the API server would hand it out, defaults left to the operator."""
    return {
        "apiVersion": "streaming.kafkaspark.io/v1beta1",
        "kind": names.KIND,
        "metadata": {"namespace": KEY.namespace, "name": KEY.name, "uid": UID},
        "spec": {
            "image": "kafkaspark/sparkapp:1",
            "kafka": {"bootstrapServers": "kafka:9092"},
            "source": {"topics": ["orders"]},
            "sink": {"topic": "enriched"},
            "parallelism": 2,
            **spec,
        },
    }


class OperatorFixture:
    """The operator, its cluster, and a clock that the test moves."""

    def __init__(self, **spec: Any) -> None:
        self.kubernetes = FakeKubernetes()
        self.kubernetes.add_job(job_body(**spec))
        self.now = NOON
        self.leading = True
        self.restart_operator()

    def restart_operator(
        self, *, deletion_seconds: float = 300, settings: JobSettings = NO_SETTINGS,
        network_rules: NetworkRules | None = None, concurrent_restarts: int = 0,
    ) -> None:  # fmt: skip
        """A new process: everything that was not written down is forgotten."""
        self.cache = Cache(clock=self.monotonic, settings=settings)
        self.queue = WorkQueue()
        self.metrics = OperatorMetrics(self.cache)
        self.reconciler = Reconciler(
            self.kubernetes, self.cache, self.queue, metrics=self.metrics,
            may_act=lambda: self.leading, numbers_seconds=0, now=lambda: self.now, network_rules=network_rules,
            concurrent_restarts=concurrent_restarts,
            decide=partial(plan, deletion_seconds=deletion_seconds, settings=settings),
        )  # fmt: skip

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.watch_snapshots()
            self.reconciler.forget_looks()
            await self.reconciler.reconcile(KEY)

    def watch_snapshots(self) -> None:
        """The watch brings every snapshot, and those that are gone."""
        found = {place: body for place, body in self.kubernetes.objects.items() if place[0] == names.SNAPSHOT_KIND}
        for view in self.cache.snapshots(KEY):
            if (names.SNAPSHOT_KIND, KEY.namespace, view.name) not in found:
                self.cache.drop_snapshot(JobKey(KEY.namespace, view.name))
        for body in found.values():
            self.cache.put_snapshot(body)

    async def settle(self) -> None:
        """Looks until nothing is written any more, the kubelet doing its part in between."""
        for _ in range(20):
            before = len(self.kubernetes.writes)
            try:
                await self.look()
            except ClusterError:
                continue
            self.kubernetes.kubelet()
            if len(self.kubernetes.writes) == before:
                return
        msg = f"no rest after 20 looks: {self.kubernetes.writes[-10:]}"
        raise AssertionError(msg)

    async def settle_or_refused(self) -> None:
        """Looks a few times, whatever Kubernetes answers, as the queue does."""
        for _ in range(5):
            with suppress(ClusterError):
                await self.look()
            self.kubernetes.kubelet()

    def monotonic(self) -> float:
        return self.now.timestamp()

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def status(self) -> dict[str, Any]:
        return self.kubernetes.status(KEY)

    @property
    def refusal(self) -> dict[str, Any]:
        """The standing refusal of the present resource; empty for none."""
        return next((each for each in self.status.get("refused", ()) if each.get("standing")), {})

    @property
    def ready(self) -> dict[str, Any]:
        return self.kubernetes.condition(KEY, "Ready")

    @property
    def drivers(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.kubernetes.pods(KEY, names.ROLE_DRIVER)]

    def report(self, attempt: int, state: DriverState = DriverState.RUNNING, **fields: Any) -> None:
        """The driver reports."""
        fields = {"updated_at": "2026-11-21T12:00:00Z", "lag_records": 0, **fields}
        text = encode_report(Report(job_uid=UID, attempt=attempt, state=state, **fields))
        self.kubernetes.set_data(KEY, names.report_config_map(KEY.name), names.REPORT_KEY, text)

    def checkpoint(
        self, attempt: int, checkpoint_id: int, *, drained: bool = False, finished: bool = False, uid: str = UID
    ) -> None:
        """The driver writes its state, which says whether its attempt has transactions."""
        document = CheckpointDocument(
            job_uid=uid, attempt=attempt, checkpoint_id=checkpoint_id, created_at="2026-11-21T12:00:00Z",
            parallelism=2, prefix="team.orders", drained=drained, transactional=self._has_transactions(attempt),
            stopping="Latest" if finished else "", finished=finished,
        )  # fmt: skip
        self.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, encode(document))

    def _has_transactions(self, attempt: int) -> bool:
        record = self.kubernetes.objects.get(("ConfigMap", KEY.namespace, record_name(attempt)))
        return record is None or decode_job(record["data"][names.JOB_KEY]).spec.sink.delivery_guarantee.transactional

    async def run(self, attempt: int = 1) -> None:
        """From wherever the job is to a running, reporting driver of that attempt."""
        await self.settle()
        self.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
        self.checkpoint(attempt, attempt * 10)
        self.report(attempt, checkpoint_id=attempt * 10, checkpoint_time="2026-11-21T12:00:00Z")
        await self.settle()

    def driver_ends(
        self, attempt: int, termination: Termination | None = None, *, code: int = 1, reason: str = ""
    ) -> None:
        """The driver's container ends, with a last word or without."""
        text = encode_termination(termination) if termination is not None else ""
        drained = termination is not None and termination.outcome is not AttemptOutcome.FAILED
        self.kubernetes.pod_ends(
            names.driver_pod(KEY.name, attempt), message=text, code=0 if drained else code, reason=reason
        )


DRAINED = Termination(
    outcome=AttemptOutcome.DRAINED, reason="Drained", message="stopped after checkpoint 10", checkpoint_id=10
)
ROTATED = Termination(
    outcome=AttemptOutcome.DRAINED, reason="CredentialsChanged", message="stopped after checkpoint 10", checkpoint_id=10
)
FINISHED = Termination(outcome=AttemptOutcome.FINISHED, reason="Finished", message="read to its end", checkpoint_id=10)
FAILED = Termination(
    outcome=AttemptOutcome.FAILED, reason="KafkaUnreachable", message="no broker answered", remedy="check the brokers"
)
FATAL = Termination(
    outcome=AttemptOutcome.FAILED,
    reason="InvalidTransform",
    message="no module enrich",
    remedy="correct spec.transform",
    fatal=True,
)


def report_event(
    sequence: int, reason: DriverEvent = DriverEvent.PARTITION_ADDED, type_: str = "Normal"
) -> ReportEvent:
    return ReportEvent(
        sequence=sequence, type=type_, reason=reason, message=f"event {sequence}", time="2026-11-21T12:00:00Z"
    )
