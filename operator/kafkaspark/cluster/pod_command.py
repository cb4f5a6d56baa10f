"""The manifest of a Job that runs a command where the brokers are: pure."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkapp.model import names
from sparkapp.model.job.access.mounts import SecretFolder
from sparkapp.model.job.sections.state_storage import S3Storage

FILES = "/etc/kafkaspark/command"
"""Folder of the files of the command."""
_KEPT_SECONDS = 600
_CREDENTIALS_MODE = 0o444
_TMP = "/tmp"  # noqa: S108 - an emptyDir of the pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCommand:
    """A command with all that its pod needs.

    :param name: of the Job and of its ConfigMap.
    :param arguments: of ``kafkaspark``.
    :param files: of :data:`FILES`, by name.
    :param secrets: folders below :data:`names.CREDENTIALS_DIRECTORY`.
    :param claim: of the job's volume for state, which the command reads with Spark; empty for none.
    :param store: bucket with the job's state, likewise; None for none.
    """

    name: str
    namespace: str
    image: str
    arguments: Sequence[str]
    files: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretFolder] = ()
    pull_secrets: Sequence[str] = ()
    claim: str = ""
    store: S3Storage | None = None

    def job(self) -> dict[str, Any]:
        """The Job. Its pod fits the restricted Pod Security Standard, and has no rights in the API."""
        mounts = [{"name": "tmp", "mountPath": _TMP}]
        reads_state = bool(self.claim) or self.store is not None
        memory, disk = ("2Gi", "16Gi") if reads_state else ("512Mi", "256Mi")
        volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {"sizeLimit": disk if reads_state else "64Mi"}}]
        if self.claim:
            volumes.append({"name": "state", "persistentVolumeClaim": {"claimName": self.claim, "readOnly": True}})
            mounts.append({"name": "state", "mountPath": names.STATE_DIRECTORY})
        if self.files:
            volumes.append({"name": "files", "configMap": {"name": self.name}})
            mounts.append({"name": "files", "mountPath": FILES})
        for folder in self.secrets:
            secret: dict[str, Any] = {"secretName": folder.secret_name, "defaultMode": _CREDENTIALS_MODE}
            if folder.items:
                secret["items"] = [{"key": key, "path": path} for key, path in folder.items]
            volumes.append({"name": f"kafka-{folder.folder}", "secret": secret})
            mounts.append(
                {"name": f"kafka-{folder.folder}", "mountPath": f"{names.CREDENTIALS_DIRECTORY}/{folder.folder}"}
            )
        container = {
            "name": "kafkaspark", "image": self.image, "args": ["python3", "-m", "kafkaspark", *self.arguments],
            **self._environment(),
            "volumeMounts": [{**mount, "readOnly": mount["name"] != "tmp"} for mount in mounts],
            "resources": {
                "requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
                "limits": {"memory": memory, "ephemeral-storage": disk},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }  # fmt: skip
        pod = {
            "restartPolicy": "Never", "automountServiceAccountToken": False, "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container], "volumes": volumes,
            **({"imagePullSecrets": [{"name": each} for each in self.pull_secrets]} if self.pull_secrets else {}),
        }  # fmt: skip
        labels = {"app.kubernetes.io/name": "kafkaspark-command"}
        return {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": self._metadata(),
            "spec": {
                "backoffLimit": 0, "ttlSecondsAfterFinished": _KEPT_SECONDS,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }  # fmt: skip

    def config_map(self, owner_uid: str = "") -> dict[str, Any]:
        """The ConfigMap of the files.

        :param owner_uid: of the Job, which takes the ConfigMap with it; empty before the Job exists.
        """
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": owner_uid}
        owners = {"ownerReferences": [owner]} if owner_uid else {}
        return {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {**self._metadata(), **owners},
            "data": dict(self.files),
        }  # fmt: skip

    def manifests(self) -> list[dict[str, Any]]:
        """What ``kubectl apply`` takes."""
        return [*([self.config_map()] if self.files else []), self.job()]

    def _environment(self) -> dict[str, Any]:
        """The access key of the bucket, from its Secret."""
        if self.store is None or self.store.credentials is None:
            return {}
        of = self.store.credentials
        sources = {name: {"name": of.secret_name, "key": key} for name, key in of.variables.items()}
        return {"env": [{"name": name, "valueFrom": {"secretKeyRef": source}} for name, source in sources.items()]}

    def _metadata(self) -> dict[str, Any]:
        return {"name": self.name, "namespace": self.namespace}


def arguments_of(parser: argparse.ArgumentParser, options: argparse.Namespace, without: frozenset[str]) -> list[str]:
    """The command line that gives these options; those with their defaults are left out.

    :param without: names of options to leave out, as ``options`` has them.
    """
    named: list[str] = []
    positional: list[str] = []
    for action in parser._actions:
        value = getattr(options, action.dest, action.default)
        if action.dest in without or value == action.default or action.dest == argparse.SUPPRESS:
            continue
        if not action.option_strings:
            positional += _texts(value)
        elif action.nargs == 0:
            named.append(action.option_strings[0])
        else:
            named.append(action.option_strings[0])
            named += _texts(value)
    # An option with several values would take the positional arguments, too.
    return [*positional, *named]


def _texts(value: object) -> Iterator[str]:
    yield from map(str, value) if isinstance(value, list) else (str(value),)
