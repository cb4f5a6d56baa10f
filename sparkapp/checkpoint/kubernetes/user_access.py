"""A person's access to a cluster: the kubeconfig, and what to do where the API server refuses a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import config
from kubernetes.config import kube_config

from sparkapp.model import names
from sparkapp.model.errors import CheckpointRefused, CommandRefused

DEFAULT_NAMESPACE = "default"
KUBECONFIG = "set KUBECONFIG, or look at: kubectl config get-contexts"
CONNECTION = "check the kubeconfig: kubectl cluster-info"
_SHORT = {names.PLURAL: ("jobs", "ksj"), names.SNAPSHOT_PLURAL: ("snapshots", "kss")}
_NOT_FOUND, _FORBIDDEN = 404, 403


def load_kubeconfig(context: str, configuration: Any = None) -> None:
    """Loads a context of the kubeconfig.

    :param context: empty for the current context.
    :param configuration: of the official client; None for that of the process.
    :raises CommandRefused: there is no kubeconfig, it cannot be read, or it has no such context.
    """
    with _readable():
        config.load_kube_config(context=context or None, client_configuration=configuration)


def namespace_of(context: str) -> str:
    """The namespace of a context; parameter and errors as in :func:`load_kubeconfig`."""
    with _readable():
        contexts, current = config.list_kube_config_contexts()
        chosen = next((each for each in contexts if each["name"] == context), current)
        return str((chosen.get("context") or {}).get("namespace") or DEFAULT_NAMESPACE)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Any error: the client reads the file's text as it comes, and raises what its parsers raise.
        cause = " ".join(str(error).split()) or type(error).__name__
        file = kube_config.KUBE_CONFIG_DEFAULT_LOCATION
        kind = "" if isinstance(error, config.ConfigException | OSError) else f"the kubeconfig {file} is damaged: "
        raise CommandRefused(f"no cluster is configured: {kind}{cause}", remedy=KUBECONFIG) from error


def refusal(what: str, status: int, *, namespace: str, plural: str = names.PLURAL) -> CommandRefused:
    """The error for a request of a person that the API server refuses.

    :param what: was refused, and how. :param status: of the answer.
    :param namespace: that the request was about; empty for all.
    :param plural: of the resource that was asked for.
    """
    if status == _NOT_FOUND:
        kind, short = _SHORT.get(plural, _SHORT[names.PLURAL])
        return CommandRefused(what, remedy=f"list the {kind}: kubectl get {short} --all-namespaces")
    return CommandRefused(what, remedy=_ask(namespace) if status == _FORBIDDEN else CONNECTION)


@contextmanager
def as_person(namespace: str, config_map: str) -> Iterator[None]:
    """A person reads a job's ConfigMap: the remedy of a refusal is for the person, and not for the driver."""
    try:
        yield
    except CheckpointRefused as error:
        check = f"kubectl auth can-i get configmap/{config_map} -n {namespace}"
        raise CheckpointRefused(error.message, remedy=f"{_ask(namespace)}\nCheck it: {check}") from error


def _ask(namespace: str) -> str:
    """Kubernetes' own roles: the chart adds the rights on jobs to them, and they have pods, events and ConfigMaps."""
    grant = f"kubectl create rolebinding USER-view --clusterrole view --user USER -n {namespace or 'NAMESPACE'}"
    return (
        "ask an administrator for the ClusterRole view of Kubernetes, or edit to change jobs. The administrator grants"
        f" it by: {grant}"
    )
