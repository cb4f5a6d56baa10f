"""The default StorageClass of the cluster: a fixed number of folders of the node, each of them a volume.

No program provides volumes. A volume whose claim is deleted is empty and free again after the next start of the tool.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from localcluster.errors import SetupError
from localcluster.kubernetes.kube_api import KubeApi
from localcluster.settings import NODE_NAME

CLASS = "standard"
"""As in kind and minikube, so that a claim that names it has a volume there, too."""
VOLUMES = 16
CAPACITY = "10Gi"
"""Of each volume by its description. Nothing limits what a pod writes."""
_CLASSES, _VOLUMES = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"
_DONE = frozenset({"Released", "Failed"})


def provide(api: KubeApi, folder: Path) -> None:
    """Creates the class and the volumes that the cluster lacks; makes volumes of deleted claims free again.

    :param folder: of the volumes' folders.
    :raises SetupError: the API server does not answer, or refuses an object.
    """
    try:
        _provide(api, folder)
    except (OSError, HTTPException) as error:
        msg = f"the volumes of the cluster were not made: {error}"
        raise SetupError(msg, hint="look at the API server: make cluster-logs LOG=kube-apiserver") from error


def _provide(api: KubeApi, folder: Path) -> None:
    known = {each["metadata"]["name"] for each in api.get(_CLASSES)["items"]}
    if CLASS not in known:
        api.create(_CLASSES, storage_class())
    phases = {each["metadata"]["name"]: each.get("status", {}).get("phase") for each in api.get(_VOLUMES)["items"]}
    for number in range(VOLUMES):
        volume = volume_of(folder, number)
        name, path = volume["metadata"]["name"], Path(volume["spec"]["local"]["path"])
        is_free_again = phases.get(name) in _DONE
        if is_free_again:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)  # pods have users of their own
        if name not in phases:
            api.create(_VOLUMES, volume)
        elif is_free_again:
            api.patch(f"{_VOLUMES}/{name}", {"spec": {"claimRef": None}})


def storage_class() -> dict[str, Any]:
    """The class. A claim gets its volume when its first pod does, as with other classes of local volumes."""
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip


def volume_of(folder: Path, number: int) -> dict[str, Any]:
    """A volume. All pods are on the same node, so that several may write it at once."""
    where: Mapping[str, Any] = {
        "key": "kubernetes.io/hostname", "operator": "In", "values": [NODE_NAME],
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"local-{number}"},
        "spec": {
            "capacity": {"storage": CAPACITY}, "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": CLASS,
            "local": {"path": str(folder / f"local-{number}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
        },
    }  # fmt: skip
