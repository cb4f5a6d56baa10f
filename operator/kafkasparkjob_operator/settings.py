"""The operator's own settings, from its environment; the chart sets them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sparkapp.model.errors import ConfigurationError

NetworkRules = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""For ``driver`` and ``executor``: rules of ``ingress`` and ``egress``, in the form of a NetworkPolicy."""

IMAGE_USER = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
"""The user of the project's image, and the group of its files and volumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings; each is an environment variable, ``KAFKASPARK_OPERATOR_`` and the field's name in upper case."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces to watch, separated by commas; empty means those of the selector, or all."""
    watch_namespace_selector: str = ""
    """Label selector of the namespaces to watch, where none are named."""
    namespace: str = "default"
    """Namespace of the leader election's Lease: the operator's own."""
    leader_election: bool = True
    """Only the holder of the Lease acts. Off only where a single process can exist."""
    lease_name: str = "kafkaspark-operator"
    """Name of the Lease."""
    identity: str = ""
    """Identity of the Lease's holder; by default the pod's name and a random part."""
    http_port: int = 8080
    """Port of ``/healthz``, ``/readyz`` and ``/metrics``."""
    workers: int = 8
    """Jobs that are reconciled at the same time."""
    connections: int = 16
    """Concurrent requests to the API server."""
    resync_seconds: int = 300
    """Seconds after which every job is reconciled again, even without an event."""
    numbers_seconds: int = 5
    """Minimum seconds between two writes of a job's progress numbers to its status."""
    concurrent_restarts: int = 100
    """Jobs that may restart unasked at the same time: after a failure, or for new code. 0 for any number."""
    deletion_seconds: int = 300
    """The longest time for which the deletion of a job waits until its transactions without a time-out are settled.
    0 adds no finalizer: for rights that end with the namespace of the job, which would stay for good."""
    transactional_id_prefixes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Beginnings of transactional id prefixes that a namespace may use in addition to its own, as a JSON object."""
    cluster_id: str = ""
    """Id of this Kubernetes cluster in the default names of new jobs at Kafka; empty for none."""
    network_rules: NetworkRules = field(default_factory=dict)
    """What NetworkPolicies admit in addition to the job's own pods, as a JSON object. Empty for no policies."""
    driver_policy: str = ""
    """Name of the admission policy that confines the jobs' drivers. Empty: the policies of all releases do."""
    default_job_image: str = ""
    """Image of jobs without ``spec.image``; empty requires the field."""
    job_image_pull_secrets: tuple[str, ...] = ()
    """Secrets in the jobs' namespaces with which every job's image is pulled, as a JSON list."""
    driver_pod_template: Mapping[str, Any] = field(default_factory=dict)
    """Default of ``spec.driver.podTemplate``, as a JSON object."""
    executor_pod_template: Mapping[str, Any] = field(default_factory=dict)
    """Default of ``spec.executor.podTemplate``, as a JSON object."""
    job_pod_security_context: Mapping[str, Any] = field(default_factory=lambda: dict(IMAGE_USER))
    """User and groups of the jobs' pods, as a JSON object; what is missing is the platform's choice."""
    allowed_names: Mapping[str, Any] = field(default_factory=dict)
    """Patterns of the names that jobs may refer to, by kind and namespace, as a JSON object."""
    log_level: str = "INFO"
    """Threshold of the log: DEBUG, INFO, WARNING or ERROR."""


_PREFIX = "KAFKASPARK_OPERATOR_"


def settings_from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings.

    :raises ConfigurationError: a value is not of its field's type, or out of range.
    """
    environ = os.environ if environment is None else environment
    default = Settings()
    namespaces = tuple(
        filter(None, (name.strip() for name in environ.get(_PREFIX + "WATCH_NAMESPACES", "").split(",")))
    )
    return Settings(
        watch_namespaces=namespaces,
        watch_namespace_selector=environ.get(_PREFIX + "WATCH_NAMESPACE_SELECTOR", ""),
        namespace=environ.get(_PREFIX + "NAMESPACE") or default.namespace,
        leader_election=_boolean(environ, "LEADER_ELECTION", default.leader_election),
        lease_name=environ.get(_PREFIX + "LEASE_NAME") or default.lease_name,
        identity=environ.get(_PREFIX + "IDENTITY") or f"{socket.gethostname()}_{os.urandom(4).hex()}",
        http_port=_integer(environ, "HTTP_PORT", default.http_port, low=0),
        workers=_integer(environ, "WORKERS", default.workers),
        connections=_integer(environ, "CONNECTIONS", default.connections),
        resync_seconds=_integer(environ, "RESYNC_SECONDS", default.resync_seconds),
        numbers_seconds=_integer(environ, "NUMBERS_SECONDS", default.numbers_seconds, low=0),
        concurrent_restarts=_integer(environ, "CONCURRENT_RESTARTS", default.concurrent_restarts, low=0),
        deletion_seconds=_integer(environ, "DELETION_SECONDS", default.deletion_seconds, low=0),
        transactional_id_prefixes=_lists(environ, "TRANSACTIONAL_ID_PREFIXES"),
        cluster_id=environ.get(_PREFIX + "CLUSTER_ID", default.cluster_id),
        network_rules=_network_rules(environ, "NETWORK_RULES"),
        driver_policy=environ.get(_PREFIX + "DRIVER_POLICY", default.driver_policy),
        default_job_image=environ.get(_PREFIX + "DEFAULT_JOB_IMAGE", default.default_job_image),
        job_image_pull_secrets=_strings(environ, "JOB_IMAGE_PULL_SECRETS"),
        driver_pod_template=_object(environ, "DRIVER_POD_TEMPLATE"),
        executor_pod_template=_object(environ, "EXECUTOR_POD_TEMPLATE"),
        job_pod_security_context=_object(environ, "JOB_POD_SECURITY_CONTEXT", json.dumps(IMAGE_USER)),
        allowed_names=_object(environ, "ALLOWED_NAMES"),
        log_level=environ.get(_PREFIX + "LOG_LEVEL") or default.log_level,
    )


def _integer(environ: Mapping[str, str], name: str, default: int, *, low: int = 1) -> int:
    text = environ.get(_PREFIX + name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < low:
        msg = f"{_PREFIX}{name} must be a whole number of at least {low}, not {text!r}"
        raise ConfigurationError(msg)
    return int(text)


def _boolean(environ: Mapping[str, str], name: str, default: bool) -> bool:
    text = environ.get(_PREFIX + name, "").lower()
    if text not in {"", "true", "false"}:
        msg = f"{_PREFIX}{name} must be true or false, not {text!r}"
        raise ConfigurationError(msg)
    return default if not text else text == "true"


def _lists(environ: Mapping[str, str], name: str) -> Mapping[str, tuple[str, ...]]:
    found = _json(environ, name, "{}")
    if not isinstance(found, dict) or not all(map(_is_strings, found.values())):
        _refuse(environ, name, "a JSON object with a list of strings for each namespace")
    return {key: tuple(items) for key, items in found.items()}


def _strings(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    found = _json(environ, name, "[]")
    if not _is_strings(found):
        _refuse(environ, name, "a JSON list of strings")
    return tuple(found)


def _object(environ: Mapping[str, str], name: str, default: str = "{}") -> Mapping[str, Any]:
    found = _json(environ, name, default)
    if not isinstance(found, dict):
        _refuse(environ, name, "a JSON object")
    return found


def _network_rules(environ: Mapping[str, str], name: str) -> NetworkRules:
    found = _json(environ, name, "{}")
    if (
        not isinstance(found, dict)
        or set(found) not in ({"driver", "executor"}, set())
        or not all(map(_is_rules, found.values()))
    ):
        _refuse(environ, name, "a JSON object with the lists ingress and egress for driver and executor")
    return found


def _is_rules(found: object) -> bool:
    return (
        isinstance(found, dict)
        and found.keys() <= {"ingress", "egress"}
        and all(isinstance(rules, list) and all(isinstance(rule, dict) for rule in rules) for rules in found.values())
    )


def _json(environ: Mapping[str, str], name: str, default: str) -> Any:
    try:
        return json.loads(environ.get(_PREFIX + name, "") or default)
    except ValueError:
        return None


def _is_strings(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(item, str) and item for item in found)


def _refuse(environ: Mapping[str, str], name: str, wanted: str) -> NoReturn:
    msg = f"{_PREFIX}{name} must be {wanted}, not {environ.get(_PREFIX + name)!r}"
    raise ConfigurationError(msg)
