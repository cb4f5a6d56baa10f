"""The proof that description, modules, pod, state and report of a driver belong to one incarnation of the resource.

A recreated resource has the name of the deleted resource, and its objects have the same names. The description is a
mounted file, so a node may have mounted that of the deleted resource. The API server knows the UIDs (ADR 64).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes.config_map import ConfigMap, owner_uid
from sparkapp.checkpoint.kubernetes.own_pod import OwnPod
from sparkapp.checkpoint.kubernetes.requests import Requests, answer_of
from sparkapp.clients.deadline import Deadline
from sparkapp.model import names
from sparkapp.model.encoding.modules_digest import digest_of_modules
from sparkapp.model.errors import CheckpointError, CheckpointMissing, CheckpointRefused, IncarnationMismatch
from sparkapp.model.job.spec import Job

_SECONDS = 60.0
"""Retries while the API server does not answer; longer than its restart."""
_OF_MODULES = (
    "nothing to do: another attempt starts by itself. If it fails so, too, give the ConfigMap of the modules another"
    " name. A node keeps the content of an immutable ConfigMap while a pod has it"
)


def prove_incarnation(api: Any, job: Job, *, pod_uid: str) -> OwnPod:
    """Reads the driver's pod and the job's ConfigMaps, and compares the UIDs of their owners with the description's.

    Called by ``sparkapp run`` before the driver reads a record or writes anything.

    :param api: of :func:`sparkapp.checkpoint.kubernetes.config_map.core_api`.
    :param pod_uid: of the pod that this process runs in, from the kubelet; empty in a pod of an earlier operator.
    :returns: that pod.
    :raises IncarnationMismatch: one of them is of another incarnation, or the pod is not that of the description.
    :raises CheckpointError: the API server refuses or does not answer.
    """
    deadline = Deadline.after(_SECONDS)
    pod = _proven_pod(api, job, pod_uid, deadline)
    for name in (names.state_config_map, names.report_config_map, names.checkpoints_config_map):
        # A missing state is the recovery's error, and the operator creates the others again.
        with suppress(CheckpointMissing):
            ConfigMap(api, namespace=job.namespace, job=job.name, uid=job.uid, name=name(job.name)).read(deadline)
    return pod


def prove_modules(described: Path, mounted: Path) -> None:
    """Compares the user's modules where the node has mounted them with those that the operator found.

    Called by ``sparkapp run`` before it imports them. A node keeps the content of an immutable ConfigMap while a pod
    has mounted that name. It does so even where the ConfigMap was deleted and created again.

    :param described: folder of the description.
    :param mounted: folder of the modules.
    :raises IncarnationMismatch: the modules have other content than when the attempt was started.
    """
    try:
        wanted = (described / names.MODULES_KEY).read_text(encoding="utf-8")
    except FileNotFoundError:  # no modules, or an earlier operator
        return
    # The kubelet's own entries are folders.
    if digest_of_modules({file.name: file.read_bytes() for file in mounted.iterdir() if file.is_file()}) == wanted:
        return
    msg = f"the modules in {mounted} are not those that the ConfigMap had when the attempt was started"
    raise IncarnationMismatch(msg, remedy=_OF_MODULES)


def _proven_pod(api: Any, job: Job, pod_uid: str, deadline: Deadline) -> OwnPod:
    name = names.driver_pod(job.name, job.attempt)
    described = f"the description in {names.JOB_DIRECTORY} is of attempt {job.attempt} of the KafkaSparkJob with UID"

    def refusal(error: ApiException) -> CheckpointError:
        if error.status == 404:
            return IncarnationMismatch(f"{described} {job.uid}, whose pod {name} does not exist")
        return CheckpointRefused(f"pod {name}: the API server answered {error.status}: {answer_of(error)}")

    body = Requests(f"pod {name}").send(
        lambda timeout: api.read_namespaced_pod(name, job.namespace, _request_timeout=timeout),
        deadline,
        refusal=refusal,
    )
    found, owner = str(body.metadata.uid), owner_uid(body.metadata)
    if pod_uid not in {"", found}:
        msg = f"{described} {job.uid}, whose pod {name} has UID {found}; this driver runs in the pod with UID {pod_uid}"
        raise IncarnationMismatch(msg)
    if owner != job.uid:
        msg = f"{described} {job.uid}, and pod {name} belongs to {f'that with UID {owner}' if owner else 'none'}"
        raise IncarnationMismatch(msg)
    return OwnPod(api, job.namespace, name, found)
