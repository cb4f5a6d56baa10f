"""Requests with the token of a driver pod: what code inside the job can send."""

from __future__ import annotations

import json
from typing import Any

import urllib3

from sparkapp.model import names
from tests.support.kubernetes.api_client import ApiClient, ApiError


class DriverToken:
    """The API server, as a driver pod reaches it.

    :param api: the administrator, who asks for the token as the driver's kubelet would.
    :param pod: the driver's pod; the token is bound to it.
    """

    def __init__(self, api: ApiClient, pod: dict[str, Any], certificates: str) -> None:
        meta, account = pod["metadata"], pod["spec"]["serviceAccountName"]
        self.pod, self.namespace = meta["name"], meta["namespace"]
        self.job = meta["labels"][names.LABEL_JOB]
        self.attempt = int(meta["labels"][names.LABEL_ATTEMPT])
        self.uid = meta["uid"]
        self.account = f"system:serviceaccount:{self.namespace}:{account}"
        reference = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        answer = api.call(
            "POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token",
            {"spec": {"boundObjectRef": reference}},
        )  # fmt: skip
        self._token = answer["status"]["token"]
        self._host = api.host
        self._pool = urllib3.PoolManager(ca_certs=certificates)

    def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Sends a request to the driver's namespace.

        :raises ApiError: the API server refuses.
        """
        response = self._pool.request(
            method, f"{self._host}/api/v1/namespaces/{self.namespace}/{path}",
            body=None if body is None else json.dumps(body), timeout=20, retries=False,
            headers={"Content-Type": content_type, "Authorization": f"Bearer {self._token}"},
        )  # fmt: skip
        answer = json.loads(response.data) if response.data.startswith(b"{") else {"message": response.data.decode()}
        if response.status >= 300:
            raise ApiError(response.status, str(answer.get("message")))
        return dict(answer)

    def refusal(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> ApiError:
        """The refusal of a request.

        :raises AssertionError: the API server carries it out.
        """
        try:
            self.send(method, path, body, content_type=content_type)
        except ApiError as error:
            return error
        msg = f"{method} {path} was carried out"
        raise AssertionError(msg)

    def executor(self, template: dict[str, Any], number: int = 1) -> dict[str, Any]:
        """The pod that Spark creates from the executors' template."""
        name = f"{names.executor_pod_prefix(self.job, self.attempt)}-exec-{number}"
        labels = {
            "spark-version": "4.3.0", "spark-app-selector": "spark-1", "spark-app-name": "orders",
            "spark-role": "executor", "spark-exec-id": str(number), "spark-exec-resourceprofile-id": "0",
        }  # fmt: skip
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.pod, "uid": self.uid, "controller": True}
        pod = json.loads(json.dumps(template))
        pod["metadata"] |= {"name": name, "ownerReferences": [owner]}
        pod["metadata"]["labels"] |= labels
        pod["spec"] |= {"restartPolicy": "Never", "hostname": name}
        container = pod["spec"]["containers"][0]
        address = {"name": "SPARK_EXECUTOR_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        container |= {"image": "kafkaspark/sparkapp:1", "imagePullPolicy": "IfNotPresent", "args": ["executor"]}
        container["ports"] = [{"name": "blockmanager", "containerPort": 7079, "protocol": "TCP"}]
        container["env"] = [*container["env"], {"name": "SPARK_EXECUTOR_ID", "value": str(number)}, address]
        return dict(pod)
