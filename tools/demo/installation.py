"""The operator on the cluster: installed from this working tree's chart, with the images that were built from it."""

from __future__ import annotations

from pathlib import Path

from demo.environment import ClusterEnvironment
from demo.helm import Helm
from localcluster.errors import SetupError
from localcluster.images import IMAGES, read_keys
from localcluster.settings import REPOSITORY, Settings

NAMESPACE = "kafkaspark-system"
RELEASE = "kafkaspark"
SELECTOR = f"app.kubernetes.io/instance={RELEASE}"
"""Labels of what the release deploys."""

IMAGE_OF = {image.name: image.reference for image in IMAGES}


def chart() -> Path:
    """The operator's chart.

    :raises SetupError: the working tree has none.
    """
    found = sorted(REPOSITORY.glob("charts/*/Chart.yaml"))
    if not found:
        raise SetupError("this working tree has no chart", hint="check out the whole repository")
    return found[0].parent


def install(environment: ClusterEnvironment, settings: Settings | None = None) -> None:
    """Installs the operator or brings it up to date, and waits until it is ready.

    The images' tags stay the same from build to build, so the digest goes into an annotation: a new build restarts the
    operator, an unchanged one leaves it alone.
    """
    used = settings if settings is not None else Settings.from_environment()
    repository, _, tag = IMAGE_OF["operator"].rpartition(":")
    Helm(environment, NAMESPACE).upgrade_install(
        RELEASE,
        chart(),
        {
            "image.repository": repository,
            "image.tag": tag,
            "podAnnotations.kafkaspark\\.io/image": read_keys(used).get("operator", ""),
        },
    )
