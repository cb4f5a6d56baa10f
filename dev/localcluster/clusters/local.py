"""The local cluster of processes on this machine: starts it, stops it, reports its state."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from localcluster import state
from localcluster.errors import SetupError
from localcluster.images import oci
from localcluster.images.builder import IMAGES, Image, ImageBuilder
from localcluster.images.oci import Layout
from localcluster.kafka import cluster_broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.kubernetes import control_plane, go_build, kube_proxy, kube_router, kubelet, storage
from localcluster.kubernetes.containerd import NAME as CONTAINERD
from localcluster.kubernetes.containerd import PAUSE_IMAGE, Containerd
from localcluster.kubernetes.kube_api import KubeApi
from localcluster.machine import cgroups, mounts, network, packages
from localcluster.machine.processes import Daemons
from localcluster.machine.waiting import wait_for
from localcluster.progress import Progress
from localcluster.settings import NETWORK, Settings

DAEMON_NAMES = (CONTAINERD, *control_plane.NAMES, kubelet.NAME, kube_proxy.NAME)
_PAUSE_USER = "65535:65535"


class LocalCluster:
    """One Kubernetes node and one Kafka broker as processes of this machine; root only."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        """Describes the cluster; starts nothing."""
        packages.widen_path()
        self._settings = settings
        self._progress = progress
        self._daemons = Daemons(settings.records, settings.logs)
        self._api = KubeApi(NETWORK.api_url, settings.pki)
        self._containerd = Containerd(settings, self._daemons)
        self._images = ImageBuilder(settings, progress)

    def prepare(self) -> None:
        """Downloads and builds everything the cluster needs. Of the cluster it starts the container runtime alone.

        :raises SetupError: a part could not be downloaded or built. The same command continues with that part.
        """
        _require_root()
        if not self.is_up():
            self._prepare()

    def up(self) -> dict[str, str]:
        """Starts what does not run yet; returns the content of the env file.

        :raises SetupError: a process did not start. The other processes keep running.
        """
        _require_root()
        if not self.is_up():
            self._prepare()
            self._start()
        storage.provide(self._api, self._settings.volumes)
        values = self._env_values()
        state.write_env_file(self._settings, values)
        return values

    def is_up(self) -> bool:
        """Whether every process runs, and Kubernetes and Kafka answer."""
        return (
            all(self._daemons.running(name) is not None for name in _daemon_names())
            and cluster_broker.describe(self._settings).is_running()
            and self._api.is_ready()
            and self._api.node_is_ready()
        )

    def down(self) -> None:
        """Stops every process it started, removes mounts, network and control groups. The state folder stays."""
        _require_root()
        with self._progress.step("stop Kubernetes and Kafka"):
            kubelet.stop(self._daemons)
            kube_proxy.stop(self._daemons)
            kube_router.stop(self._daemons)
            self._containerd.stop()
            control_plane.stop(self._daemons)
            cluster_broker.describe(self._settings).stop()
            mounts.unmount_below(self._settings.state, self._settings.run)
            network.tear_down()
            network.forget_pod_addresses()
            cgroups.remove_empty()
        self._settings.env_file.unlink(missing_ok=True)

    def status(self) -> list[tuple[str, str, str]]:
        """A row for each part: its name, its state, its log."""
        rows = []
        for name in _daemon_names():
            identity = self._daemons.running(name)
            how = f"running, process {identity.pid}" if identity is not None else "not running"
            rows.append((name, how, str(self._daemons.log(name))))
        broker = cluster_broker.describe(self._settings)
        process = broker.process
        how = f"running, process {process.pid}" if process is not None else "not running"
        rows.append(("kafka", how if process is None or broker.answers() else f"{how}, not answering", str(broker.log)))
        node = "ready" if self._api.node_is_ready() else "not ready"
        rows.append(("node", node, str(self._daemons.log(kubelet.NAME))))
        return rows

    def publish(self, image: Image) -> str:
        """Builds an image of the project if it has changed, loads it if the cluster runs; returns its digest.

        :raises SetupError: the build failed, or containerd refused the image.
        """
        layout = self._images.build(image)
        if self._containerd.is_running() and self._containerd.images().get(image.reference) != layout.digest:
            with self._progress.step(f"load {image.reference} into the cluster"):
                self._load(image.reference, layout)
        return layout.digest

    def _load(self, reference: str, layout: Layout) -> None:
        known = self._containerd.blobs()
        self._containerd.load_image(reference, lambda archive: layout.write_archive(archive, reference, known))

    def _prepare(self) -> None:
        packages.ensure(packages.CLUSTER, self._settings, self._progress)
        tasks = [self._build_programs, self._fetch_kafka]
        if not go_build.cached(go_build.HYPERKUBE, self._settings).exists():
            # The Go build takes minutes of CPU, the images mostly wait for network and disk: both run in parallel.
            tasks.append(self._prepare_images)
        with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
            running = [pool.submit(task) for task in tasks]
            for each in running:
                each.result()

    def _build_programs(self) -> None:
        if not go_build.cached(go_build.HYPERKUBE, self._settings).exists():
            with self._progress.step("build Kubernetes, kubectl and helm (takes minutes, once)") as step:
                go_build.build(go_build.HYPERKUBE, self._settings, step)
        if not go_build.cached(go_build.PAUSE, self._settings).exists():
            with self._progress.step("build the pause program") as step:
                go_build.build(go_build.PAUSE, self._settings, step)

    def _prepare_images(self) -> None:
        for image in IMAGES:
            layout = self._images.prepare(image)
            with self._progress.step(f"load the dependencies of {image.name} into the cluster"):
                self._containerd.start()
                self._load(f"{image.dependencies_reference}:dev", layout)
        for image in IMAGES:
            self.publish(image)

    def _fetch_kafka(self) -> None:
        KafkaDistribution.of(self._settings).fetch(self._settings, self._progress)

    def _start(self) -> None:
        settings, daemons = self._settings, self._daemons
        go_build.link_names(go_build.cached(go_build.HYPERKUBE, settings), settings.programs)
        credentials = control_plane.make_credentials(settings)
        network.bring_up()
        with ThreadPoolExecutor(max_workers=2) as pool:
            runtime = pool.submit(self._start_container_runtime)
            broker = pool.submit(self._start_kafka)
            with self._progress.step("start the control plane"):
                control_plane.start(settings, daemons, credentials)
            runtime.result()
            with self._progress.step("start the node"):
                kubelet.start(settings, daemons, credentials, self._containerd)
                kube_proxy.start(settings, daemons, credentials)
                if network.can_enforce_policies():
                    kube_router.start(settings, daemons, credentials)
                wait_for("the namespace default is ready", self._api.has_default_service_account, seconds=240)
            broker.result()

    def _start_container_runtime(self) -> None:
        with self._progress.step("start containerd"):
            self._containerd.start()
            if PAUSE_IMAGE not in self._containerd.images():
                program = go_build.cached(go_build.PAUSE, self._settings)
                self._containerd.load_image(
                    PAUSE_IMAGE,
                    lambda archive: oci.write_single_program_image(archive, PAUSE_IMAGE, program, _PAUSE_USER),
                )

    def _start_kafka(self) -> None:
        with self._progress.step("start Kafka"):
            cluster_broker.describe(self._settings).start()

    def _env_values(self) -> dict[str, str]:
        programs = self._settings.programs
        return {
            "KAFKASPARK_CLUSTER": "local",
            "KUBECONFIG": str(self._settings.kubeconfig),
            "KAFKASPARK_BOOTSTRAP": NETWORK.kafka_host_bootstrap,
            "KAFKASPARK_BOOTSTRAP_PODS": NETWORK.kafka_pods_bootstrap,
            "KAFKASPARK_KUBECTL": str(programs / "kubectl"),
            "KAFKASPARK_HELM": str(programs / "helm"),
            "KAFKASPARK_BIN": str(programs),
            "KAFKASPARK_LOGS": str(self._settings.logs),
            "KAFKASPARK_NETWORK_POLICIES": "enforced" if network.can_enforce_policies() else "ignored",
        }


def _daemon_names() -> tuple[str, ...]:
    """The cluster's processes. Where the kernel lacks what kube-router needs, NetworkPolicies have no effect."""
    return (*DAEMON_NAMES, kube_router.NAME) if network.can_enforce_policies() else DAEMON_NAMES


def _require_root() -> None:
    if os.geteuid() != 0:
        raise SetupError(
            "the local cluster needs root: it mounts file systems, creates a network bridge and runs containers",
            hint="run as root; or install Docker and kind, which need no root; or start Kafka alone: make kafka-up",
        )
