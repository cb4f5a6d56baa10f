"""A KafkaSparkJob on the cluster, for demo, tests and benches: waits for its states, kills its pods, rescales it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from clusterjob.kubectl import CommandFailed, Kubectl, Object
from clusterjob.state_documents import Document, StateDocuments
from clusterjob.watch import PATIENCE, Objects, TimedOut, Watch
from localcluster.errors import SetupError
from sparkapp.model import names

KIND = f"{names.PLURAL}.{names.GROUP}"
EXECUTOR_CONTAINER = "executor"

Status = Mapping[str, Any]


class LiveJob:
    """A job whose status and pods are followed by watches; a context manager.

    Every wait that does not succeed raises :class:`TimedOut` with the job's status, events and the driver's last lines.

    :param kubectl: with the namespace of the job.
    """

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.kubectl = kubectl
        self.name = name
        self._job = Watch(kubectl, KIND, f"--field-selector=metadata.name={name}")
        self._pods = Watch(kubectl, "pods", f"--selector={names.LABEL_JOB}={name}")
        self.state = StateDocuments(kubectl, name)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self._job)
        self._stack.enter_context(self._pods)
        self._stack.enter_context(self.state)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # -- state ---------------------------------------------------------------------------------------------------

    # What a caller asks for, the API server answers. A watch may be behind it, and behind another watch.

    @property
    def status(self) -> Status:
        """The status that the API server holds now."""
        return status_of(self.kubectl.get(KIND, self.name))

    @property
    def attempt(self) -> int:
        """Number of the attempt in the status; 0 before the first attempt."""
        return attempt_of(self.status)

    @property
    def failures(self) -> list[tuple[int, str]]:
        """Attempt and reason of each failure so far, oldest first."""
        found = [status_of(seen.object).get("lastFailure") for seen in self._job.seen]
        return list(dict.fromkeys((failure["attempt"], failure["reason"]) for failure in found if failure))

    def pods(self, role: str) -> list[Object]:
        """The pods of the current attempt in a role that exist now, without terminating pods."""
        return of_attempt(self.kubectl.list("pods", f"{names.LABEL_JOB}={self.name}"), role, self.attempt)

    def events(self) -> list[Object]:
        """The Kubernetes events about the job, oldest first."""
        found = self.kubectl.run(
            "get", "events", f"--field-selector=involvedObject.kind={names.KIND},involvedObject.name={self.name}",
            "--sort-by=.metadata.creationTimestamp", "--output=json",
        )  # fmt: skip
        return list(json.loads(found)["items"])

    # -- waiting --------------------------------------------------------------------------------------------------

    def wait(self, what: str, condition: Callable[[Status], bool], *, seconds: float = PATIENCE) -> Status:
        """Blocks until the status satisfies the condition.

        :raises TimedOut: with :meth:`diagnosis`.
        """

        def holds(objects: Objects) -> bool:
            found = objects.get(self.name)
            return found is not None and condition(status_of(found))

        try:
            return status_of(self._job.wait(what, holds, seconds=seconds)[self.name])
        except TimedOut as error:
            raise TimedOut(f"job {self.name}: {error.what}\n{self.diagnosis()}") from error

    def wait_ready(self, *, seconds: float = PATIENCE, attempt_above: int = 0, parallelism: int = 0) -> Status:
        """Blocks until an attempt of the resource's current generation runs.

        :param attempt_above: number of an attempt; only later attempts count.
        :param parallelism: that it runs with; 0 for any.
        """

        def holds(objects: Objects) -> bool:
            found = objects.get(self.name)
            if found is None or not is_ready(found):
                return False
            status = status_of(found)
            return status["attempt"]["id"] > attempt_above and parallelism in (0, status["parallelism"])

        what = "Ready" if not attempt_above else f"Ready again in an attempt after {attempt_above}"
        what += f" with parallelism {parallelism}" if parallelism else ""
        try:
            return status_of(self._job.wait(what, holds, seconds=seconds)[self.name])
        except TimedOut as error:
            raise TimedOut(f"job {self.name}: {error.what}\n{self.diagnosis()}") from error

    def wait_checkpoint(self, number: int, *, attempt: int = 0, seconds: float = PATIENCE) -> Document:
        """Blocks until a checkpoint is final.

        :param attempt: the checkpoint is of this attempt or of a later attempt.
        """
        try:
            return self.state.wait(number, attempt=attempt, seconds=seconds)
        except TimedOut as error:
            raise TimedOut(f"job {self.name}: {error.what}\n{self.diagnosis()}") from error

    def wait_new_checkpoint(self, at: float, *, attempt: int, checkpoint: int, seconds: float = PATIENCE) -> Document:
        """Blocks until a new checkpoint is final; see :meth:`StateDocuments.wait_new`."""
        try:
            return self.state.wait_new(at, attempt=attempt, checkpoint=checkpoint, seconds=seconds)
        except TimedOut as error:
            raise TimedOut(f"job {self.name}: {error.what}\n{self.diagnosis()}") from error

    def wait_read(self, records: int, *, seconds: float = PATIENCE) -> Status:
        """Blocks until completed checkpoints hold ``records`` source records and the lag is 0."""

        def holds(status: Status) -> bool:
            source = status.get("source", {})
            return bool(source.get("recordsIn", 0) >= records and source.get("lagRecords", -1) == 0)

        return self.wait(f"{records} records read and lag 0", holds, seconds=seconds)

    def wait_pods(self, what: str, condition: Callable[[Objects], bool], *, seconds: float = PATIENCE) -> Objects:
        """Blocks until the job's pods, of all attempts, satisfy the condition."""
        try:
            return self._pods.wait(what, condition, seconds=seconds)
        except TimedOut as error:
            raise TimedOut(f"job {self.name}: {error.what}\n{self.diagnosis()}") from error

    def wait_executors(self, count: int, *, without: str = "", seconds: float = PATIENCE) -> None:
        """Blocks until ``count`` executors run.

        :param without: UID of a killed executor, which does not count.
        """

        def holds(pods: Objects) -> bool:
            attempt = attempt_of(status_of(self._job.objects.get(self.name)))
            return len(running(of_attempt(pods.values(), names.ROLE_EXECUTOR, attempt), without)) >= count

        self.wait_pods(f"{count} executors run", holds, seconds=seconds)

    # -- acting ---------------------------------------------------------------------------------------------------

    def kill_driver(self) -> str:
        """Sends SIGKILL to every process of the driver's pod; returns the pod's name."""
        pod = names.driver_pod(self.name, self.attempt)
        self.kubectl.kill_processes(pod, names.DRIVER_CONTAINER)
        return pod

    def freeze_driver(self) -> str:
        """Sends SIGSTOP to every process of the driver's pod, which keeps existing; returns the pod's name."""
        pod = names.driver_pod(self.name, self.attempt)
        self.kubectl.signal_processes(pod, names.DRIVER_CONTAINER, "STOP")
        return pod

    def thaw(self, pod: str) -> None:
        """Sends SIGCONT to a pod that :meth:`freeze_driver` froze, if its grace period is not over."""
        try:
            self.kubectl.signal_processes(pod, names.DRIVER_CONTAINER, "CONT")
        except CommandFailed as failure:
            if "not found" not in failure.stderr:
                raise

    def kill_executor(self) -> Object:
        """Sends SIGKILL to every process of an executor's pod; returns the pod as it was.

        :raises SetupError: no executor runs.
        """
        executor = self._executor()
        self.kubectl.kill_processes(executor["metadata"]["name"], EXECUTOR_CONTAINER)
        return executor

    def freeze_executor(self) -> Object:
        """Sends SIGSTOP to every process of an executor's pod; returns the pod as it was.

        :raises SetupError: no executor runs.
        """
        executor = self._executor()
        self.kubectl.signal_processes(executor["metadata"]["name"], EXECUTOR_CONTAINER, "STOP")
        return executor

    def _executor(self) -> Object:
        found = running(self.pods(names.ROLE_EXECUTOR))
        if not found:
            raise SetupError(f"job {self.name} has no running executor")
        return found[0]

    def rescale(self, parallelism: int) -> None:
        """``kubectl scale``."""
        self.kubectl.scale(KIND, self.name, parallelism)

    def delete(self, *, wait: bool = True, seconds: float = PATIENCE) -> None:
        """Deletes the resource."""
        self.kubectl.delete(KIND, self.name, wait=wait, seconds=seconds)

    def diagnosis(self) -> str:
        """The status, the pods, the events and the last lines of the driver's log."""
        status = status_of(self._job.objects.get(self.name))
        driver = names.driver_pod(self.name, attempt_of(status) or 1)
        try:
            events = [
                f"{event.get('type')} {event.get('reason')}: {event.get('message')}" for event in self.events()[-15:]
            ]
        except SetupError as error:
            events = [error.what]
        pods = [
            f"{name}: {pod.get('status', {}).get('phase')} {pod.get('status', {}).get('reason', '')}"
            for name, pod in sorted(self._pods.objects.items())
        ]
        return "\n".join(
            [
                f"state {status.get('state')}, reason {status.get('reason')}: {status.get('message')}",
                f"status {dict(status)}",
                "pods:", *(f"  {line}" for line in pods),
                "events:", *(f"  {line}" for line in events),
                f"last lines of {driver}:", self.kubectl.logs(driver),
            ]
        )  # fmt: skip


def status_of(job: Object | None) -> Status:
    """The status of a resource; empty before the operator has written it."""
    return (job or {}).get("status") or {}


def attempt_of(status: Status) -> int:
    """Number of the attempt in a status; 0 before the first attempt."""
    return int(status.get("attempt", {}).get("id", 0))


def condition_of(status: Status, kind: str) -> Mapping[str, Any]:
    """A condition; empty if it is not set."""
    return next((found for found in status.get("conditions", []) if found["type"] == kind), {})


def is_ready(job: Object) -> bool:
    """Whether the Ready condition holds for the resource as it is now."""
    condition = condition_of(status_of(job), "Ready")
    generation = job["metadata"]["generation"]
    return condition.get("status") == "True" and condition.get("observedGeneration") == generation


def of_attempt(pods: Iterable[Object], role: str, attempt: int) -> list[Object]:
    """The pods of an attempt in a role, without terminating pods."""
    return [
        pod
        for pod in pods
        if pod["metadata"].get("labels", {}).get(names.LABEL_ROLE) == role
        and pod["metadata"]["labels"].get(names.LABEL_ATTEMPT) == str(attempt)
        and "deletionTimestamp" not in pod["metadata"]
    ]


def running(pods: list[Object], without: str = "") -> list[Object]:
    """The pods whose containers run."""
    return [
        pod
        for pod in pods
        if pod["metadata"]["uid"] != without
        and pod.get("status", {}).get("phase") == "Running"
        and all("running" in container.get("state", {}) for container in pod["status"].get("containerStatuses", []))
    ]
