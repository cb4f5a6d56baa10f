"""The commands of remedies, typed as they are: by kubectl, into a shell, against a real API server."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds, on_clusters
from sparkapp.checkpoint.recovery.rolled_back import refuse_older_state
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.job.startup import StartupMode
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_fixture import FATAL
from tests.support.kubernetes.operator_process import Running

Type = Callable[[str], None]


@pytest.fixture
def job(api: ApiClient, namespace: str) -> LiveJob:
    made = LiveJob(api, namespace)
    made.create(restore={"nonce": 3})
    return made


@pytest.fixture
def type_it(kubeconfig: Path, tmp_path: Path) -> Type:
    """A person's terminal."""
    variables = {
        **os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path),
        "PATH": f"{kubeconfig.parent / 'bin'}:{os.environ['PATH']}",
    }  # fmt: skip

    def run(line: str) -> None:
        command = ["bash", "-c", f"set -o pipefail; {line}"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stderr}"

    return run


class Marked:
    """A group in which the job has committed checkpoint 9."""

    def __init__(self, uid: str) -> None:
        self._uid = uid

    def of(self, _: CheckpointDocument | None) -> list[str]:
        return [offset_mark(self._uid, 2, 9)]


def as_driver(live: LiveJob) -> Job:
    """The job as the driver's next attempt has it."""
    found: dict[str, Any] = live.body
    spec = spec_from_resource(found["spec"], namespace=live.namespace, name=live.name)
    uid = found["metadata"]["uid"]
    return Job(namespace=live.namespace, name=live.name, uid=uid, generation=1, attempt=4, spec=spec)


def document(live: LiveJob, **changes: Any) -> CheckpointDocument:
    uid = live.body["metadata"]["uid"]
    base = CheckpointDocument(
        job_uid=uid, attempt=3, checkpoint_id=5, created_at="", parallelism=1, prefix="p", cluster_id="OLD"
    )
    return replace(base, **changes)


def commands(refused: Callable[[], object]) -> list[str]:
    with pytest.raises(KafkaSparkJobError) as caught:
        refused()
    return [line for line in caught.value.remedy.splitlines() if line.startswith("kubectl")]


def test_a_job_is_moved_to_the_cluster_that_its_command_names(job: LiveJob, type_it: Type) -> None:
    here = document(job)
    move, again = commands(lambda: on_clusters(here, as_driver(job), ClusterIds("NEW", "NEW")))
    type_it(move)
    assert on_clusters(here, as_driver(job), ClusterIds("NEW", "NEW")).cluster_id == "NEW"
    type_it(again)
    assert job.body["metadata"]["uid"] != here.job_uid, "and no state of its own"


def test_an_earlier_state_is_accepted_by_its_command_or_left_for_the_groups_offsets(
    job: LiveJob, type_it: Type
) -> None:
    here = document(job)
    marks = Marked(here.job_uid)
    by_group, accept = commands(lambda: refuse_older_state(here, marks, as_driver(job)))
    type_it(accept)
    found = as_driver(job)
    assert found.spec.restore.nonce == 4
    assert refuse_older_state(here, marks, found) is not None
    type_it(by_group)
    found = as_driver(job)
    assert found.spec.source.startup.mode is StartupMode.GROUP_OFFSETS
    assert refuse_older_state(None, marks, found) is None, "another job to the marks"


def test_an_empty_state_is_left_for_the_groups_offsets(job: LiveJob, type_it: Type) -> None:
    type_it(f"kubectl patch ksj {job.name} -n {job.namespace} --type merge -p"
            """ '{"spec":{"source":{"startup":{"mode":"Earliest"}}}}'""")  # fmt: skip
    marks = Marked(job.body["metadata"]["uid"])
    by_group, _ = commands(lambda: refuse_older_state(None, marks, as_driver(job)))
    type_it(by_group)
    assert refuse_older_state(None, marks, as_driver(job)) is not None


@pytest.fixture
def failed(api: ApiClient, running: Running) -> LiveJob:
    """A job whose first attempt has failed for good, because of its modules."""
    job = LiveJob(api, running.place.namespace, f"t-{uuid.uuid4().hex[:8]}")
    job.create(transform={"python": {"function": "enrich:transform", "configMapRef": {"name": f"{job.name}-code"}}})
    job.await_state("Pending", reason="CodeMissing")
    job.put_modules(f"{job.name}-code", "one")
    job.run(1)
    job.ends(1, FATAL)
    job.await_state("Failed", reason="InvalidTransform")
    return job


def test_a_failed_job_starts_again_by_the_command_of_its_message(failed: LiveJob, type_it: Type) -> None:
    type_it("kubectl " + failed.status["message"].rpartition("kubectl ")[2])
    failed.await_deletion(1)
    failed.release(1)
    failed.run(2)


def test_a_failed_job_starts_again_when_its_modules_are_corrected(failed: LiveJob) -> None:
    """The ConfigMap did not exist when the job was created; the operator finds its change by itself."""
    failed.put_modules(f"{failed.name}-code", "two")
    failed.await_deletion(1)
    failed.release(1)
    failed.run(2)


def test_kubectl_get_shows_the_reason(failed: LiveJob, type_it: Type, tmp_path: Path) -> None:
    type_it(f"kubectl get ksj {failed.name} -n {failed.namespace} > {tmp_path}/table")
    header, row = (tmp_path / "table").read_text().splitlines()
    assert header.split()[:4] == ["NAME", "READY", "STATE", "REASON"]
    assert row.split()[:4] == [failed.name, "False", "Failed", "InvalidTransform"]
