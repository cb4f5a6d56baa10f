"""A release from its files: chart and images are installed from their archives, and a job runs on them.

``KAFKASPARK_RELEASE`` names the folder that ``make release`` has made. Without it the archives are made here, in the
same way, of the images of the cluster: a build of images from nothing takes half an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from localcluster.images.buildah import Buildah
from localcluster.images.builder import IMAGES, NAMES
from localcluster.images.oci import Layout
from localcluster.kubernetes.containerd import Containerd
from localcluster.machine.processes import Daemons
from localcluster.settings import Settings
from releasefiles.chart import write_chart
from releasefiles.images import publish
from sparkapp import __version__
from tests.support.kubernetes.cluster_job import ClusterJob

RECORDS = 500
REGISTRY = "registry.test/kafkaspark"
"""A part of names. Nothing listens there: an image of it comes from its archive or not at all."""


@pytest.fixture(scope="module")
def settings(environment: ClusterEnvironment) -> Settings:
    assert environment.kubeconfig.exists()
    found = Settings.from_environment()
    if shutil.which("ctr") is None or not Containerd(found, Daemons(found.records, found.logs)).is_running():
        pytest.skip("the cluster has no containerd of this machine: KAFKASPARK_CLUSTER=local make cluster-up")
    return found


@pytest.fixture(scope="module")
def release(settings: Settings) -> Iterator[Path]:
    """A folder with the archives of chart and images."""
    if named := os.environ.get("KAFKASPARK_RELEASE"):
        yield Path(named)
        return
    # On the disk of the images, whose layers are linked.
    with tempfile.TemporaryDirectory(dir=settings.cache) as work:
        yield archives_of(settings, Path(work))


def archives_of(settings: Settings, work: Path) -> Path:
    folder = work / "files"
    folder.mkdir()
    write_chart(folder)
    (work / "bill.json").write_text("{}", encoding="utf-8")
    for image in IMAGES:
        built = Buildah(settings).exported(image.name)
        assert built is not None, "make images"
        # Layers are gigabytes. The index changes below, so it is no link.
        shutil.copytree(built.folder, work / image.name, copy_function=os.link)
        (work / image.name / "index.json").unlink()
        shutil.copy(built.folder / "index.json", work / image.name)
        layout = Layout(work / image.name, "latest")
        layout.attach("application/vnd.cyclonedx+json", b"{}", "bill")
        publish(layout, work / "bill.json", folder, image.name, __version__)
    return folder


@pytest.fixture
def installed(environment: ClusterEnvironment, settings: Settings, release: Path) -> Iterator[ClusterEnvironment]:
    """The cluster with the operator of the release; afterwards it has that of this working tree again."""
    ctr = ["ctr", "--address", str(Containerd(settings, Daemons(settings.records, settings.logs)).socket)]
    images = [*ctr, "--namespace", "k8s.io", "images"]
    try:
        for name in NAMES:
            archive = release / f"{name}-{__version__}.oci.tar"
            named = f"--base-name={REGISTRY}/{name}"
            done = subprocess.run([*images, "import", named, str(archive)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        installation.install(
            environment, folder=release / f"kafkaspark-operator-{__version__}.tgz",
            values={
                "image.repository": f"{REGISTRY}/operator", "image.tag": "",
                "job.image.repository": f"{REGISTRY}/sparkapp", "job.image.tag": "",
            },
        )  # fmt: skip
        yield environment
    finally:
        installation.install(environment)
        for name in NAMES:
            subprocess.run([*images, "remove", f"{REGISTRY}/{name}:{__version__}"], capture_output=True, check=False)


def test_a_job_runs_on_chart_and_images_of_a_release(installed: ClusterEnvironment) -> None:
    cluster_job = ClusterJob.make(installed, "release")
    try:
        # Without spec.image: the chart's default, with the chart's version.
        cluster_job.apply(image=None)
        cluster_job.assert_exactly_once(cluster_job.load(RECORDS))
        operators = Kubectl(installed, installation.NAMESPACE).list("pods", installation.SELECTOR)
        pods = [*operators, *cluster_job.kubectl.list("pods", "kafkaspark.io/role")]
        assert {container["image"] for pod in pods for container in pod["spec"]["containers"]} == {
            f"{REGISTRY}/{name}:{__version__}" for name in NAMES
        }
    finally:
        cluster_job.close()
