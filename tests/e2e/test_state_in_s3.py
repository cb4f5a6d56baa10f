"""State in a bucket, on the cluster: counts go on through a kill, a rescale, a new revision and a restore.

A deleted job leaves what a snapshot keeps, and a new job begins with it. The store is a process beside the broker.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clusterjob.kafka.reading import read_committed
from clusterjob.live_job import LiveJob
from localcluster import state
from localcluster.clusters.selection import choose
from localcluster.images.builder import STORE_IMAGE
from localcluster.objectstore.server import BUCKET, ObjectStoreServer
from localcluster.progress import Progress
from localcluster.settings import NETWORK, Settings
from sparkapp.model import names
from sparkapp.model.job.sections.state_storage import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, S3Storage
from sparkapp.spark.state.object_store.store import ObjectStore
from tests.e2e.conftest import MakeClusterJob
from tests.e2e.test_volumes import BATCH, expected
from tests.support.kubernetes.cluster_job import NAME, ClusterJob, merged

SECRET, SNAPSHOT, CLONE = "state-access", "before", "clone"
KEYS = {ACCESS_KEY_VARIABLE: "user", SECRET_KEY_VARIABLE: "of a test"}
QUERY = "SELECT key, CAST(count(*) AS STRING) AS value FROM source GROUP BY key"
SAME_QUERY = QUERY.replace("*", "1")
"""Of another revision, with the same state."""
COUNT_SECONDS = 180.0


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The store, which pods reach at the address of the node."""
    with ObjectStoreServer(tmp_path_factory.mktemp("store"), host=NETWORK.node_ip) as store:
        yield store.endpoint


@pytest.fixture(scope="module")
def image() -> str:
    """The image with the connector, in the cluster."""
    settings = Settings.from_environment()
    if shutil.which("buildah") is None:
        pytest.skip("images are not built on this machine")
    with state.held(settings):
        choose(settings, Progress()).publish(STORE_IMAGE)
    return STORE_IMAGE.reference


@pytest.fixture
def spec(endpoint: str, image: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A job that counts keys, with the counts in the bucket; the test reads the bucket, too."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    s3 = {"bucket": BUCKET, "endpoint": endpoint, "pathStyleAccess": True, "credentials": {"secretName": SECRET}}
    return {
        "image": image,
        "transform": {"sql": {"query": QUERY}, "outputMode": "update"},
        "checkpoint": {
            "intervalSeconds": 1,
            "retention": {"intervalSeconds": 1},
            "state": {"partitions": "FollowParallelism", "storage": {"s3": s3}},
        },
        "deletion": {"state": "Delete"},
    }


@pytest.fixture
def cluster_job(make_cluster_job: MakeClusterJob, spec: dict[str, Any]) -> ClusterJob:
    made = make_cluster_job("bucket")
    made.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": KEYS})
    made.apply(**spec)
    return made


def counts_in(cluster_job: ClusterJob, topic: str) -> dict[bytes, int]:
    rows = read_committed(cluster_job.environment.bootstrap, topic)
    return {row.key: int(row.value) for row in rows if row.key is not None and row.value is not None}


def await_counts(cluster_job: ClusterJob, topic: str, records: int) -> None:
    """The newest counts in a topic are those of so many records."""
    deadline, found, wanted = time.monotonic() + COUNT_SECONDS, {}, expected(records)
    while found != wanted:
        assert time.monotonic() < deadline, (sum(found.values()), records, cluster_job.job.diagnosis())
        time.sleep(1)
        found = counts_in(cluster_job, topic)


def counts_more(cluster_job: ClusterJob) -> int:
    """More records come, and the counts in the sink are those of all; returns how many there are."""
    total = cluster_job.load(BATCH)
    await_counts(cluster_job, cluster_job.sink, total)
    return total


def folder_of(endpoint: str, uid: str) -> ObjectStore:
    storage = S3Storage(bucket=BUCKET, endpoint=endpoint, path_style_access=True)
    return ObjectStore.of(storage, uid)


def test_counts_in_a_bucket_survive_what_happens_to_a_job(
    cluster_job: ClusterJob, spec: dict[str, Any], endpoint: str
) -> None:
    job = cluster_job.job
    counts_more(cluster_job)
    job.kill_driver()
    job.wait_ready(attempt_above=1)
    counts_more(cluster_job)
    job.rescale(3)
    job.wait_ready(attempt_above=2, parallelism=3)
    counts_more(cluster_job)
    assert "StateRepartitioned" in {each["reason"] for each in job.events()}

    checkpoint = taken(cluster_job)
    counts_more(cluster_job)
    attempt = job.attempt
    cluster_job.change(restore={"snapshot": SNAPSHOT, "nonce": 1})
    job.wait_ready(attempt_above=attempt)
    counts_more(cluster_job)
    attempt = job.attempt
    cluster_job.change(upgrade={"strategy": "BlueGreen"}, transform={"sql": {"query": SAME_QUERY}})
    job.wait_ready(attempt_above=attempt)
    assert "TurnGiven" in {each["reason"] for each in job.events()}
    total = counts_more(cluster_job)
    cluster_job.assert_nothing_open()

    uid = (cluster_job.kubectl.get("ksj", NAME) or {})["metadata"]["uid"]
    job.delete()
    left = folder_of(endpoint, uid)
    assert left.folders() == [names.RETAINED_STATE], "what the snapshot keeps"
    kept = {name.partition("/")[0] for name in left.sizes(names.RETAINED_STATE)} - {"tables"}
    assert kept == {f"checkpoint-{checkpoint}"}
    assert "StateRemoved" in {each["reason"] for each in cluster_job.kubectl.list("events")}
    begins_with_the_snapshot(cluster_job, merged(cluster_job.resource()["spec"], spec), total, endpoint)


def taken(cluster_job: ClusterJob) -> int:
    """Makes the snapshot; returns the number of its checkpoint."""
    cluster_job.kubectl.apply({
        "apiVersion": f"{names.GROUP}/{names.VERSION}", "kind": names.SNAPSHOT_KIND, "metadata": {"name": SNAPSHOT},
        "spec": {"jobRef": {"name": NAME}},
    })  # fmt: skip
    found: dict[str, Any] = {}
    deadline = time.monotonic() + COUNT_SECONDS
    while found.get("state") != "Ready":
        assert found.get("state") != "Failed", found
        assert time.monotonic() < deadline, found
        time.sleep(1)
        found = (cluster_job.kubectl.get("kss", SNAPSHOT) or {}).get("status") or {}
    number = int(found["checkpoint"]["id"])
    assert found["checkpoint"]["stateFolder"].endswith(names.retained_state(number))
    return number


def begins_with_the_snapshot(cluster_job: ClusterJob, spec: dict[str, Any], total: int, endpoint: str) -> None:
    """Its job is deleted. The new job reads only what came later, and has the counts of all records."""
    sink = f"{cluster_job.sink}.{CLONE}"
    cluster_job.topics.recreate([sink], partitions=4)
    spec = merged(spec, {"sink": {"topic": sink}, "startFrom": {"snapshot": SNAPSHOT}, "source": {"groupId": sink}})
    cluster_job.kubectl.apply({**cluster_job.resource(), "metadata": {"name": CLONE}, "spec": spec})
    with LiveJob(cluster_job.kubectl, CLONE) as job:
        await_counts(cluster_job, sink, total)
        status = job.wait_read(1)
        assert BATCH < status["source"]["recordsIn"] < total, "records before the snapshot are not read again"
        uid = (cluster_job.kubectl.get("ksj", CLONE) or {})["metadata"]["uid"]
        assert folder_of(endpoint, uid).folders()
        job.delete()
    assert folder_of(endpoint, uid).folders() == [], "no snapshot keeps any of it"
