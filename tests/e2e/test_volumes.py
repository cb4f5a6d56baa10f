"""The local cluster's StorageClass: a claim without a class gets a volume, where a job's pods share its state."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from clusterjob.kafka.reading import read_committed
from localcluster.kubernetes.storage import CLASS
from localcluster.settings import Settings
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import ClusterJob

BATCH = 2_000
KEYS = 97
"""Of the numbered records of :meth:`ClusterJob.load`."""


def counts_of(cluster_job: ClusterJob) -> dict[bytes, int]:
    """The newest count of each key in the sink."""
    rows = read_committed(cluster_job.environment.bootstrap, cluster_job.sink)
    return {row.key: int(row.value) for row in rows if row.key is not None and row.value is not None}


def expected(records: int) -> dict[bytes, int]:
    return dict(Counter(f"key-{number % KEYS}".encode() for number in range(records)))


def test_state_is_on_a_volume_of_the_default_class(make_cluster_job: MakeClusterJob) -> None:
    cluster_job = make_cluster_job("volume")
    cluster_job.kubectl.apply({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    })  # fmt: skip
    total = cluster_job.load(BATCH)
    query = "SELECT key, CAST(count(*) AS STRING) AS value FROM source GROUP BY key"
    cluster_job.apply(
        transform={"sql": {"query": query}, "outputMode": "update"},
        checkpoint={"intervalSeconds": 1, "stateVolume": {"claimName": "state"}},
    )
    cluster_job.job.wait_read(total)
    assert counts_of(cluster_job) == expected(total)

    claim = cluster_job.kubectl.get("persistentvolumeclaim", "state") or {}
    assert (claim["status"]["phase"], claim["spec"]["storageClassName"]) == ("Bound", CLASS)
    volume = Settings.from_environment().volumes / claim["spec"]["volumeName"]
    assert any(is_state(path) for path in volume.rglob("*")), f"{volume} has no state"

    # The pods of the next attempt mount the same volume, and count on from there.
    attempt = cluster_job.job.attempt
    cluster_job.job.kill_driver()
    cluster_job.job.wait_ready(attempt_above=attempt)
    total = cluster_job.load(BATCH)
    cluster_job.job.wait_read(total)
    assert counts_of(cluster_job) == expected(total)
    cluster_job.assert_nothing_open()


def is_state(path: Path) -> bool:
    """Whether Spark wrote it as a snapshot or change of a state store."""
    return path.suffix in {".zip", ".delta", ".changelog", ".snapshot"}
