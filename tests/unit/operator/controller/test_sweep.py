"""A sweep reaches every namespace that lets it in, whatever the others answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.sweep import Sweep
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import ObjectRefused
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.kubernetes.operator_fixture import job_body


class PartlyClosed(FakeKubernetes):
    """Refuses the lists of one namespace, as when its RoleBinding is gone."""

    closed = "team-a"

    async def list_jobs(self, namespace: str | None) -> AsyncIterator[Sequence[dict[str, Any]]]:
        if namespace == self.closed:
            raise ObjectRefused(f"cannot list in {namespace}", status=403)
        async for page in super().list_jobs(namespace):
            yield page


def job(namespace: str, name: str) -> dict[str, Any]:
    body = job_body()
    body["metadata"] = {"namespace": namespace, "name": name}
    return body


async def test_a_refused_namespace_is_left_out_and_the_next_one_is_swept(caplog: pytest.LogCaptureFixture) -> None:
    kubernetes, cache, queue = PartlyClosed(), Cache(), WorkQueue()
    kubernetes.add_job(job("team-b", "found"))
    for namespace in ("team-a", "team-b"):
        cache.put_job({**job(namespace, "cached"), "metadata": {"namespace": namespace, "name": "cached"}})
    sweep = Sweep(kubernetes, cache, queue, ("team-a", "team-b", "team-c"))
    await sweep.sweep(0)
    assert cache.version(JobKey("team-b", "found"))
    queued = {await queue.take() for _ in range(len(queue))}
    # The one of team-a is not known to be gone; nothing could be done for it either.
    assert queued == {JobKey("team-b", "cached"), JobKey("team-b", "found")}
    assert "team-a" in caplog.text


async def test_a_sweep_of_the_whole_cluster_finds_what_is_gone_and_what_is_new() -> None:
    kubernetes, cache, queue = PartlyClosed(), Cache(), WorkQueue()
    kubernetes.add_job(job("team-b", "found"))
    cache.put_job(job("team-z", "gone"))
    await Sweep(kubernetes, cache, queue, ()).sweep(0)
    assert {await queue.take() for _ in range(len(queue))} == {JobKey("team-b", "found"), JobKey("team-z", "gone")}
