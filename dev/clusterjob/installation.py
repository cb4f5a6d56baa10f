"""Installs the operator on the cluster, with this working tree's chart and the images built from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clusterjob.environment import ClusterEnvironment
from clusterjob.helm import Helm
from clusterjob.kubectl import RESTRICTED, Kubectl
from localcluster import state
from localcluster.errors import SetupError
from localcluster.images.builder import IMAGES, read_keys
from localcluster.settings import REPOSITORY, Settings

NAMESPACE = "kafkaspark-system"
RELEASE = "kafkaspark"
SELECTOR = f"app.kubernetes.io/instance={RELEASE}"
"""Selects the objects that the release deploys."""

IMAGE_OF = {image.name: image.reference for image in IMAGES}


def chart() -> Path:
    """The operator's chart.

    :raises SetupError: the working tree has none.
    """
    found = sorted(REPOSITORY.glob("charts/*/Chart.yaml"))
    if not found:
        raise SetupError("this working tree has no chart", hint="check out the whole repository")
    return found[0].parent


def install(
    environment: ClusterEnvironment,
    settings: Settings | None = None,
    *,
    network_policies: bool = True,
    folder: Path | None = None,
    values: Mapping[str, object] | None = None,
) -> None:
    """Installs or upgrades the operator, and waits until it is ready.

    The images' tags do not change from build to build, so the image's key goes into an annotation. A new build restarts
    the operator; an unchanged build does not. Two installations at once take turns: the API server and Helm refuse
    the second of two that create the same object.

    :param folder: of another chart than this working tree's.
    :param values: more values of the chart.
    """
    used = settings if settings is not None else Settings.from_environment()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
    repository, _, tag = IMAGE_OF["operator"].rpartition(":")
    job_repository, _, job_tag = IMAGE_OF["sparkapp"].rpartition(":")
    with state.held(used):
        Kubectl(environment).apply(namespace)
        Helm(environment, NAMESPACE).upgrade_install(
            RELEASE,
            folder or chart(),
            {
                "fullnameOverride": "kafkaspark-operator",
                "networkPolicy.enabled": network_policies,
                "watchNamespaceSelector.kafkaspark\\.io/jobs": "enabled",
                "image.repository": repository,
                "image.tag": tag,
                "job.image.repository": job_repository,
                "job.image.tag": job_tag,
                "podAnnotations.kafkaspark\\.io/image": read_keys(used).get("operator", ""),
                **(values or {}),
            },
        )
