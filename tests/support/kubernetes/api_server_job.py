"""A job on a real API server, and a test that plays its driver and its kubelet."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from sparkapp.model import names
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.report import AttemptOutcome, DriverState, Report, Termination, encode_report, encode_termination
from tests.support.fakes.kubernetes import merged
from tests.support.kubernetes.api_client import JOBS, ApiClient, await_that

HOLD = "tests.kafkaspark.io/kubelet"
"""Finalizer that keeps a pod until the test, as its kubelet, lets it go."""


class LiveJob:
    """One job."""

    def __init__(self, api: ApiClient, namespace: str, name: str = "orders") -> None:
        self.api, self.namespace, self.name = api, namespace, name
        self.path = f"{JOBS.format(namespace)}/{name}"
        self.pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self.config_maps_path = f"/api/v1/namespaces/{namespace}/configmaps"

    def create(self, **spec: Any) -> dict[str, Any]:
        base = {
            "image": "kafkaspark/sparkapp:1",
            "kafka": {"bootstrapServers": "kafka:9092"},
            "source": {"topics": ["orders"]},
            "sink": {"topic": "enriched"},
            "parallelism": 2,
        }
        body = {
            "apiVersion": "streaming.kafkaspark.io/v1beta1",
            "kind": names.KIND,
            "metadata": {"name": self.name},
            "spec": merged(base, spec),
        }
        return self.api.call("POST", JOBS.format(self.namespace), body)

    def put_modules(self, name: str, text: str) -> None:
        """A person writes the ConfigMap of the user's modules."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a.py": text}}
        self.api.apply(f"{self.config_maps_path}/{name}", body)

    @property
    def body(self) -> dict[str, Any]:
        return self.api.call("GET", self.path)

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.body.get("status") or {})

    def edit(self, **spec: Any) -> None:
        self.api.merge(self.path, {"spec": spec})

    def condition(self, kind: str) -> dict[str, Any]:
        return next((each for each in self.status.get("conditions", ()) if each["type"] == kind), {})

    def await_state(self, state: str, *, reason: str | None = None, seconds: float = 60) -> dict[str, Any]:
        def there() -> bool:
            status = self.status
            return status.get("state") == state and reason in {None, status.get("reason")}

        try:
            await_that(f"state {state} {reason or ''}", there, seconds=seconds)
        except AssertionError as error:
            msg = f"{error}; it is {self.status}"
            raise AssertionError(msg) from error
        return self.status

    @property
    def pods(self) -> list[dict[str, Any]]:
        return self.api.items(self.pods_path, f"{names.LABEL_JOB}={self.name}")

    @property
    def events(self) -> list[tuple[str, int]]:
        found = self.api.items(f"/api/v1/namespaces/{self.namespace}/events")
        mine = [each for each in found if each["involvedObject"]["name"] == self.name]
        return [
            (each["reason"], each["count"])
            for each in sorted(mine, key=lambda each: int(each["metadata"]["resourceVersion"]))
        ]

    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    def record(self, attempt: int) -> dict[str, Any]:
        """The attempt's ConfigMap."""
        name = names.attempt_config_map(self.name, self.uid(), attempt)
        return self.api.call("GET", f"{self.config_maps_path}/{name}")

    # -- the kubelet and the driver --------------------------------------------------------------------------------

    def await_driver(self, attempt: int, *, hold: bool = True) -> dict[str, Any]:
        """The driver's pod, once it is there; kept until :meth:`release` if it is deleted."""
        path = f"{self.pods_path}/{names.driver_pod(self.name, attempt)}"
        await_that(f"driver of attempt {attempt}", lambda: self.api.get(path))
        return self.api.merge(path, {"metadata": {"finalizers": [HOLD]}}) if hold else self.api.call("GET", path)

    def run(self, attempt: int, *, checkpoint: int | None = None, hold: bool = True) -> None:
        """The driver starts, claims the state and reports that it runs."""
        self.await_driver(attempt, hold=hold)
        self.pod_status(attempt, "Running", {"running": {"startedAt": "2026-11-21T12:00:00Z"}})
        self.checkpoint(attempt, attempt * 10 if checkpoint is None else checkpoint)
        self.report(
            attempt, checkpoint_id=attempt * 10 if checkpoint is None else checkpoint, engine="MicroBatch",
            engine_message="set by spec.engine",
        )  # fmt: skip
        self.await_state("Running")

    def finish(self) -> None:
        """The first attempt runs and reads to its end."""
        self.run(1, hold=False)
        self.checkpoint(1, 10, drained=True, stopping="Latest", finished=True)
        end = Termination(
            outcome=AttemptOutcome.FINISHED, reason="Finished", message="read to its end", checkpoint_id=10
        )
        self.ends(1, end, code=0, reason="Completed")

    def report(
        self, attempt: int, state: DriverState = DriverState.RUNNING, *, updated_at: str = "2026-11-21T12:00:00Z",
        **fields: Any,
    ) -> None:  # fmt: skip
        report = Report(
            job_uid=self.uid(), attempt=attempt, state=state, updated_at=updated_at,
            checkpoint_time="2026-11-21T12:00:00Z", **fields,
        )  # fmt: skip
        path = f"{self.config_maps_path}/{names.report_config_map(self.name)}"
        self.api.merge(path, {"data": {names.REPORT_KEY: encode_report(report)}})

    def checkpoint(self, attempt: int, checkpoint: int, *, drained: bool = False, **fields: Any) -> None:
        """The driver of a job with transactions writes its state."""
        fields = {"transactional": True, **fields}
        document = CheckpointDocument(
            job_uid=self.uid(), attempt=attempt, checkpoint_id=checkpoint, created_at="2026-11-21T12:00:00Z",
            parallelism=2, prefix="x", drained=drained, **fields,
        )  # fmt: skip
        path = f"{self.config_maps_path}/{names.state_config_map(self.name)}"
        self.api.merge(path, {"data": {names.CHECKPOINT_KEY: encode(document)}})

    def ends(self, attempt: int, termination: Termination | None, *, code: int = 1, reason: str = "Error") -> None:
        message = "" if termination is None else encode_termination(termination)
        terminated = {
            "exitCode": code, "reason": reason, "message": message,
            "startedAt": "2026-11-21T12:00:00Z", "finishedAt": "2026-11-21T12:01:00Z",
        }  # fmt: skip
        self.pod_status(attempt, "Succeeded" if code == 0 else "Failed", {"terminated": terminated})

    @contextlib.contextmanager
    def beating(self, attempt: int, **fields: Any) -> Iterator[None]:
        """A driver that reports each second, as real drivers do, so that a slow test has no silent driver."""
        ended = threading.Event()

        def beat() -> None:
            count = 0
            while not ended.wait(1):
                count += 1
                self.report(attempt, updated_at=f"2026-11-21T12:{count // 60 % 60:02}:{count % 60:02}Z", **fields)

        thread = threading.Thread(target=beat, name="driver")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def release(self, attempt: int) -> None:
        """The kubelet is done with the driver's pod."""
        path = f"{self.pods_path}/{names.driver_pod(self.name, attempt)}"
        self.api.merge(path, {"metadata": {"finalizers": None}})

    def await_deletion(self, attempt: int) -> None:
        """The operator has asked the driver to stop."""
        path = f"{self.pods_path}/{names.driver_pod(self.name, attempt)}"
        await_that(
            f"driver of attempt {attempt} is being deleted",
            lambda: "deletionTimestamp" in self.api.call("GET", path)["metadata"],
        )

    def pod_status(self, attempt: int, phase: str, state: dict[str, Any]) -> None:
        path = f"{self.pods_path}/{names.driver_pod(self.name, attempt)}/status"
        container = {
            "name": names.DRIVER_CONTAINER, "ready": phase == "Running", "restartCount": 0, "image": "x", "imageID": "",
            "state": state,
        }  # fmt: skip
        self.api.merge(path, {"status": {"phase": phase, "containerStatuses": [container]}})

    def add_executor(self, attempt: int, number: int = 1, *, running: bool = False) -> str:
        """What Spark would create from the template of the attempt, owned by the driver."""
        import yaml

        driver = self.api.call("GET", f"{self.pods_path}/{names.driver_pod(self.name, attempt)}")
        record = self.record(attempt)
        pod = yaml.safe_load(record["data"][names.EXECUTOR_POD_TEMPLATE_KEY])
        name = f"{names.executor_pod_prefix(self.name, attempt)}-exec-{number}"
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": driver["metadata"]["name"],
            "uid": driver["metadata"]["uid"],
        }
        pod["metadata"] |= {"name": name, "ownerReferences": [{**owner, "controller": True}]}
        pod["spec"]["containers"][0]["image"] = "x"
        self.api.call("POST", self.pods_path, pod)
        if running:
            state = {"running": {"startedAt": "2026-11-21T12:00:00Z"}}
            container = {"name": pod["spec"]["containers"][0]["name"], "ready": True, "restartCount": 0, "state": state}
            status = {"phase": "Running", "containerStatuses": [container | {"image": "x", "imageID": ""}]}
            self.api.merge(f"{self.pods_path}/{name}/status", {"status": status})
        return name
