"""Requests to a real API server, as a person or a kubelet would make them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import kubernetes
import yaml

Found = TypeVar("Found")
RESOURCES = "/apis/streaming.kafkaspark.io/v1beta1/namespaces/{}"
JOBS = f"{RESOURCES}/kafkasparkjobs"
SNAPSHOTS = f"{RESOURCES}/kafkasparksnapshots"
REPOSITORY = Path(__file__).parents[3]


class ApiError(Exception):
    """The API server refused; ``message`` is what kubectl would print."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


class ApiClient:
    """Plain JSON requests.

    :param kubeconfig: whose server and identity are used; never a person's own.
    """

    def __init__(self, kubeconfig: Path) -> None:
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=configuration)
        self._host = configuration.host
        self._pool = kubernetes.client.rest.RESTClientObject(configuration).pool_manager

    @property
    def host(self) -> str:
        """Address of the API server."""
        return str(self._host)

    def call(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", user: str = "",
        accept: str = "application/json",
    ) -> dict[str, Any]:  # fmt: skip
        """:param user: to impersonate; empty for the kubeconfig's own identity. :param accept: the answer's form."""
        headers = {"Content-Type": content_type, "Accept": accept} | ({"Impersonate-User": user} if user else {})
        data = None if body is None else json.dumps(body)
        response = self._pool.request(method, self._host + path, body=data, headers=headers, timeout=20, retries=False)
        answer = json.loads(response.data)
        if response.status >= 300:
            raise ApiError(response.status, str(answer.get("message")))
        assert isinstance(answer, dict)
        if method == "POST" and "dryRun" not in path:
            _require_possible_owners(answer)
        return answer

    def get(self, path: str) -> dict[str, Any] | None:
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def stream(self, path: str) -> Iterator[bytes]:
        """The lines of a watch, until the API server ends it."""
        response = self._pool.request("GET", self._host + path, preload_content=False, timeout=90, retries=False)
        try:
            rest = b""
            for part in response.stream(1 << 16):
                *lines, rest = (rest + part).split(b"\n")
                yield from lines
        finally:
            response.close()

    def items(self, path: str, selector: str = "") -> list[dict[str, Any]]:
        return list(self.call("GET", f"{path}?labelSelector={selector}")["items"])

    def merge(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        return self.call("PATCH", path, patch, content_type="application/merge-patch+json")

    def apply(self, path: str, body: dict[str, Any], *, force: bool = True) -> dict[str, Any]:
        """Server-side apply."""
        return self.call(
            "PATCH", f"{path}?fieldManager=tests&force={str(force).lower()}", body,
            content_type="application/apply-patch+yaml",
        )  # fmt: skip

    def install_definition(self) -> None:
        """The CustomResourceDefinitions, served."""
        for file in sorted((REPOSITORY / "crds").glob("*.yaml")):
            self._install(yaml.safe_load(file.read_text(encoding="utf-8")))

    def _install(self, definition: dict[str, Any]) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
        self.apply(path, definition)

        def established() -> bool:
            conditions = (self.get(path) or {}).get("status", {}).get("conditions") or ()
            return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

        await_that("the definition is established", established)
        plural = definition["spec"]["names"]["plural"]
        await_that("the resource is served", lambda: self._serves(f"{RESOURCES.format('default')}/{plural}"))

    def _serves(self, path: str) -> bool:
        try:
            return self.get(path) is not None
        except ApiError as error:
            if error.status == 429:  # its storage is being set up
                return False
            raise


def _require_possible_owners(body: dict[str, Any]) -> None:
    """The cluster's collector deletes what is owned by nothing, at a moment of its own."""
    for owner in body.get("metadata", {}).get("ownerReferences", ()):
        try:
            uuid.UUID(owner["uid"])
        except ValueError:
            msg = f"{owner['kind']}/{owner['name']} does not exist: the collector will delete what it owns"
            raise AssertionError(msg) from None


def await_that(what: str, question: Callable[[], Found], *, seconds: float = 240, pause: float = 0.05) -> Found:
    """Asks until the answer is true; ``pause`` is for questions that cost something themselves."""
    deadline = time.monotonic() + seconds
    answer = question()
    while not answer:
        if time.monotonic() > deadline:
            msg = f"not within {seconds} s: {what}"
            raise AssertionError(msg)
        time.sleep(pause)
        answer = question()
    return answer
