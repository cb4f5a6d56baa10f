"""Several watched namespaces: what becomes of one is not the others' concern."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place


def test_a_deleted_namespace_stops_no_other_ones_jobs(
    api: ApiClient,
    place: Place,
    make_namespace: Callable[[str, str], None],
    start_operator: Callable[..., OperatorProcess],
) -> None:
    account = f"system:serviceaccount:{place.namespace}:operator"
    other = f"t-{uuid.uuid4().hex[:8]}"
    make_namespace(other, account)
    watched = f"{other},{place.namespace}"
    refused = f'kafkaspark_operator_watch_refused{{namespace="{other}",resource="kafkasparkjobs"}}'

    first = start_operator(watch_namespaces=watched)
    first.await_leading()
    lost = LiveJob(api, other, "lost")
    lost.create()
    lost.await_driver(1, hold=False)
    api.call("DELETE", f"/api/v1/namespaces/{other}")
    await_that("the namespace is gone", lambda: api.get(f"/api/v1/namespaces/{other}") is None)

    # A watch that is open when the rights go is refused when it is opened again: another operator opens its own now.
    second = start_operator(watch_namespaces=watched)
    await_that("the refusal is reported", lambda: f"{refused} 1.0" in second.read("/metrics"))
    assert "the watch is refused" in second.log
    first.stop()
    second.await_leading()
    job = LiveJob(api, place.namespace)
    job.create()
    job.run(1)
    assert second.read("/readyz") == second.read("/healthz") == "ok"

    make_namespace(other, account)
    again = LiveJob(api, other, "again")
    again.create()
    again.await_driver(1, hold=False)
    await_that("nothing is refused any more", lambda: f"{refused} 0.0" in second.read("/metrics"))
