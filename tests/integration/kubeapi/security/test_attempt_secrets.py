"""The Secret of an attempt is in no other object, log or metric; the test plays driver and kubelet."""

from __future__ import annotations

import base64
from collections.abc import Callable

from sparkapp.model import names
from tests.integration.kubeapi.security.test_no_leak import everything
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place


def test_the_secret_of_an_attempt_is_in_no_other_object(
    api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess]
) -> None:
    operator = start_operator(log_level="DEBUG")
    operator.await_leading()
    job = LiveJob(api, place.namespace)
    job.create(restartPolicy={"backoff": {"initialSeconds": 0}})
    values = []
    for attempt in (1, 2, 3):
        job.run(attempt, hold=False)
        job.add_executor(attempt)
        path = f"/api/v1/namespaces/{place.namespace}/secrets/{names.spark_secret(job.name, job.uid(), attempt)}"
        (encoded,) = api.call("GET", path)["data"].values()
        values.append(base64.b64decode(encoded).decode())
        seen = everything(api, place, operator)
        assert path.rpartition("/")[2] in seen["/api/v1/namespaces/{}/pods"], "the pods name it"
        assert not [where for where, text in seen.items() for form in (values[-1], encoded) if form in text]
        job.ends(attempt, None, code=137)
        job.await_driver(attempt + 1, hold=False)
    assert len(set(values)) == 3
    first = f"/api/v1/namespaces/{place.namespace}/secrets/{names.spark_secret(job.name, job.uid(), 1)}"
    await_that("the Secret of the first attempt has gone with its ConfigMap", lambda: api.get(first) is None)
