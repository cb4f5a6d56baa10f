"""The cluster on machines with a Docker engine and kind: nodes and broker are containers."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from localcluster import state
from localcluster.errors import SetupError
from localcluster.images.builder import Image, remember_key, store_inputs
from localcluster.kafka import probe as kafka_probe
from localcluster.kafka import properties as kafka_properties
from localcluster.kafka.properties import Listener
from localcluster.machine.commands import output_of, run, succeeds
from localcluster.machine.waiting import wait_for
from localcluster.progress import Progress
from localcluster.settings import KAFKA_VERSION, NETWORK, REPOSITORY, Settings

NAME = "kafkaspark"
BROKER = "kafkaspark-kafka"
_NETWORK = "kind"
_NODE_IMAGE_VARIABLE = "KAFKASPARK_KIND_IMAGE"
_BROKER_IMAGE_VARIABLE = "KAFKASPARK_KAFKA_IMAGE"
_BUILD_OPTIONS_VARIABLE = "KAFKASPARK_DOCKER_BUILD_OPTIONS"
"""These three are for machines that do not reach the public registries: images of their own, or of a mirror."""
_INSTALL = "install {0} and put it on PATH"


def is_available() -> bool:
    """Whether this machine has kind and a Docker engine that answers."""
    return shutil.which("kind") is not None and shutil.which("docker") is not None and succeeds(["docker", "info"])


class KindCluster:
    """Three Kubernetes nodes and one Kafka broker as containers of the Docker engine; needs no root."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        """Describes the cluster; starts nothing."""
        self._settings = settings
        self._progress = progress

    def prepare(self) -> None:
        """Does nothing: kind pulls its images when it starts."""

    def up(self) -> dict[str, str]:
        """Starts what does not run yet; returns the content of the env file.

        :raises SetupError: a program is missing, or a container did not start.
        """
        for program in ("docker", "kind", "kubectl", "helm"):
            if shutil.which(program) is None:
                raise SetupError(f"the program {program} is not on this machine", hint=_INSTALL.format(program))
        if not succeeds(["docker", "info"]):
            raise SetupError(
                "the Docker engine does not answer", hint="start it, or set KAFKASPARK_CLUSTER=local as root"
            )
        if NAME not in output_of(["kind", "get", "clusters"]).split():
            with self._progress.step("create the kind cluster"):
                image = os.environ.get(_NODE_IMAGE_VARIABLE)
                run(
                    ["kind", "create", "cluster", "--config", REPOSITORY / "kind-config.yaml", "--wait", "180s",
                     "--kubeconfig", self._settings.kubeconfig, *(["--image", image] if image else [])],
                    log=self._settings.logs / "kind.log",
                    hint=f"delete the cluster, then run the same command again: kind delete cluster --name {NAME}",
                )  # fmt: skip
        else:
            exporting: list[str | Path] = [
                "kind",
                "export",
                "kubeconfig",
                "--name",
                NAME,
                "--kubeconfig",
                self._settings.kubeconfig,
            ]
            run(exporting, log=self._settings.logs / "kind-kubeconfig.log")
        self._start_broker()
        values = self._env_values()
        state.write_env_file(self._settings, values)
        return values

    def is_up(self) -> bool:
        """Whether the nodes' API server and the broker answer."""
        return (
            succeeds(["kubectl", "--kubeconfig", self._settings.kubeconfig, "get", "--raw", "/readyz"])
            and kafka_probe.answers("127.0.0.1", NETWORK.kafka_host_port)
        )  # fmt: skip

    def down(self) -> None:
        """Deletes the nodes and the broker, with everything in them."""
        with self._progress.step("delete the kind cluster and Kafka"):
            run(["kind", "delete", "cluster", "--name", NAME], log=self._settings.logs / "kind-delete.log")
            succeeds(["docker", "rm", "--force", "--volumes", BROKER])
        self._settings.env_file.unlink(missing_ok=True)

    def status(self) -> list[tuple[str, str, str]]:
        """A row for each container: its name, its state, the command that shows its log."""
        listing = ["docker", "ps", "--all", "--format={{.Names}}\t{{.Status}}", f"--filter=name={NAME}"]
        rows = [line.split("\t") for line in output_of(listing).splitlines()]
        return [(name, how, f"docker logs {name}") for name, how in rows]

    def publish(self, image: Image) -> str:
        """Builds an image of the project and loads it into every node; returns the image's id.

        It is fast when nothing has changed: the engine keeps every layer, and kind skips images that it has.

        :raises SetupError: the build failed, or the nodes refused the image.
        """
        of_classes: list[str | Path] = []
        if image.base is not None:
            arguments, contexts = store_inputs(self._settings, self._progress, image.base)
            of_classes += [f"--build-arg={name}={value}" for name, value in arguments.items()]
            of_classes += [f"--build-context={name}={value}" for name, value in contexts.items()]
        building: list[str | Path] = [
            "docker",
            "build",
            *shlex.split(os.environ.get(_BUILD_OPTIONS_VARIABLE, "")),
            "--file",
            image.containerfile,
            "--tag",
            image.reference,
            *of_classes,
            REPOSITORY if image.base is None else image.folder,
        ]
        with self._progress.step(f"build the image {image.reference}"):
            log = self._settings.logs / f"build-image-{image.name}.log"
            run(building, log=log, environment={"DOCKER_BUILDKIT": "1"})
        if NAME in output_of(["kind", "get", "clusters"]).split():
            with self._progress.step(f"load {image.reference} into the cluster"):
                loading = ["kind", "load", "docker-image", "--name", NAME, image.reference]
                run(loading, log=self._settings.logs / f"load-image-{image.name}.log")
        identity = output_of(["docker", "image", "inspect", "--format={{.Id}}", image.reference]).strip()
        remember_key(self._settings, image, identity)
        return identity

    def _start_broker(self) -> None:
        if not kafka_probe.answers("127.0.0.1", NETWORK.kafka_host_port):
            with self._progress.step("start Kafka"):
                log = self._settings.logs / "kafka-container.log"
                if not succeeds(["docker", "start", BROKER]):
                    run(broker_command(), log=log)
                hint = f"read the log of the container: docker logs {BROKER}"
                wait_for("Kafka answers", lambda: _broker_answers(log, hint), seconds=240, log=log, hint=hint)

    def _env_values(self) -> dict[str, str]:
        kubectl, helm = shutil.which("kubectl"), shutil.which("helm")
        assert kubectl is not None
        assert helm is not None
        return {
            "KAFKASPARK_CLUSTER": "kind",
            "KUBECONFIG": str(self._settings.kubeconfig),
            "KAFKASPARK_BOOTSTRAP": NETWORK.kafka_host_bootstrap,
            "KAFKASPARK_BOOTSTRAP_PODS": f"{BROKER}:{NETWORK.kafka_pods_port}",
            "KAFKASPARK_KUBECTL": kubectl,
            "KAFKASPARK_HELM": helm,
            "KAFKASPARK_BIN": str(Path(kubectl).parent),
            "KAFKASPARK_LOGS": str(self._settings.logs),
            "KAFKASPARK_NETWORK_POLICIES": "enforced",  # by kindnet
        }


def _broker_answers(log: Path, hint: str) -> bool:
    """
    :raises SetupError: the broker's container has ended, so it never will.
    """
    if kafka_probe.answers("127.0.0.1", NETWORK.kafka_host_port):
        return True
    if output_of(["docker", "inspect", "--format={{.State.Running}}", BROKER]).strip() != "true":
        raise SetupError("Kafka answers: the container ended", log=log, hint=hint)
    return False


def broker_command() -> list[str]:
    """The command that starts the broker as a container in the nodes' network.

    Pods reach it by its container's name, which the nodes' resolver and so the cluster's DNS know.
    """
    host = Listener("HOST", "127.0.0.1", NETWORK.kafka_host_port)
    pods = Listener("PODS", BROKER, NETWORK.kafka_pods_port)
    controller = Listener("CONTROLLER", "127.0.0.1", NETWORK.kafka_controller_port)
    everywhere = [f"{name}://0.0.0.0:{port}" for name, port in ((host.name, host.port), (pods.name, pods.port))]
    overrides = {"listeners": ",".join([*everywhere, controller.endpoint])}
    values = kafka_properties.values([host, pods], controller, Path("/var/lib/kafka/data"), overrides)
    published = f"127.0.0.1:{host.port}:{host.port}"
    command = ["docker", "run", "--detach", f"--name={BROKER}", f"--network={_NETWORK}", f"--publish={published}"]
    # The image turns such variables into properties: underscores become dots.
    settings = [f"--env=KAFKA_{key.upper().replace('.', '_')}={value}" for key, value in values.items()]
    return [*command, *settings, "--env=KAFKA_HEAP_OPTS=-Xmx512m", _broker_image()]


def _broker_image() -> str:
    return os.environ.get(_BROKER_IMAGE_VARIABLE) or f"apache/kafka:{KAFKA_VERSION}"
