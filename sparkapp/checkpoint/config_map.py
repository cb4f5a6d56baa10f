"""ConfigMaps as the driver uses them, and a job's resource as people's commands do.

Beside :mod:`sparkapp.checkpoint.pod_turn` the only importer of the Kubernetes client in the application.
"""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.store import Stored
from sparkapp.model import names
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointError,
    CheckpointMissing,
    CheckpointRefused,
    CheckpointStoreUnavailable,
    CheckpointTooLarge,
    CommandRefused,
)
from sparkapp.model.state_config_map import document_text, way_back

LOG = logging.getLogger(__name__)

_REQUEST_TIMEOUT = (5.0, 10.0)
_LEAST_SECONDS = 0.1
"""urllib3 takes no timeout of 0."""
_RETRIED = frozenset({0, 429, 500, 502, 503, 504})
"""Answers that may be another one soon; 0 is what the client says of a TLS handshake that failed."""


def core_api() -> Any:
    """A client with the pod's own identity (or the developer's kubeconfig outside a cluster)."""
    try:
        config.load_incluster_config()
    except config.ConfigException:
        try:
            config.load_kube_config()
        except config.ConfigException as error:
            msg = f"no way to a Kubernetes cluster: {error}"
            raise CheckpointError(msg, remedy="set KUBECONFIG, or name a state file: --state FILE") from error
    return client.CoreV1Api()


def read_resource(namespace: str, job: str) -> dict[str, Any]:
    """The KafkaSparkJob of a name, with the caller's own identity; for commands that people type.

    :raises CheckpointError: there is none, or it may not be read.
    """
    core_api()  # loads the identity
    return JobResources(namespace=namespace, job=job).read()


def read_secret(namespace: str, name: str, key: str) -> str:
    """One key of a Secret, as text; for commands that people type.

    :raises CommandRefused: there is none, or it may not be read.
    """
    api = core_api()
    try:
        body = api.read_namespaced_secret(name, namespace, _request_timeout=_REQUEST_TIMEOUT)
    except (ApiException, urllib3.exceptions.HTTPError) as error:
        msg = f"Secret {namespace}/{name} cannot be read: {getattr(error, 'reason', None) or error}"
        raise CommandRefused(msg, remedy="give the credentials with --config FILE") from error
    encoded = (body.data or {}).get(key)
    if encoded is None:
        msg = f"Secret {namespace}/{name} has no key {key!r}"
        raise CommandRefused(msg, remedy="give the credentials with --config FILE")
    return base64.b64decode(encoded).decode()


class ConfigMapStore:
    """The checkpoint document under one key of the job's state ConfigMap.

    The version is the ConfigMap's ``resourceVersion``, sent back as a precondition of the patch, so the API server
    itself refuses a writer that was superseded. Labels and other keys change the version, too: where the document is
    still that of the version expected, the write is repeated.

    :param deadline: seconds to keep trying while the API server does not answer. Longer than an API server's
        restart, far shorter than the transactions' time-out.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, deadline: float = 60.0) -> None:
        self._place, self._read_place = (
            _ConfigMap(api, namespace=namespace, job=job, name=names.state_config_map(job)) for _ in range(2)
        )
        """One for writes, for a read in another thread must not change what is known of a write's tries."""
        self._deadline = deadline
        self._seen: dict[str, str | None] = {}
        """The document at versions that were read since the last write, and at that one."""

    def read(self) -> Stored:
        return self._read(Deadline.after(self._deadline))

    def _read(self, deadline: Deadline) -> Stored:
        body = self._read_place.read(deadline)
        found = Stored(document_text(self._place.name, body.data, body.binary_data), body.metadata.resource_version)
        self._seen[found.version] = found.text
        return found

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        end = Deadline.after(self._deadline if deadline is None else deadline.bound(self._deadline))
        known = expected in self._seen
        before = self._seen.get(expected)
        while True:
            patch = {"metadata": {"resourceVersion": expected}, "data": {names.CHECKPOINT_KEY: text}}
            try:
                version = str(self._place.patch(patch, end).metadata.resource_version)
            except CheckpointStoreUnavailable:
                raise
            except CheckpointError as refusal:
                conflict = isinstance(refusal, CheckpointConflict)
                if not (self._place.unanswered or conflict):
                    raise
                looking = end if deadline is not None else Deadline.after(self._deadline)
                found = self._after_all(refusal, looking, unanswered=self._place.unanswered)
                if found.text != text:
                    if conflict and known and found.text == before and found.version != expected and not end.expired:
                        LOG.info("ConfigMap %s was changed beside the document; writing again", self._place.name)
                        expected = found.version
                        continue
                    if found.version != expected:
                        msg = f"ConfigMap {self._place.name} was changed by somebody else"
                        raise CheckpointConflict(msg) from refusal
                    raise
                version = found.version
            self._seen = {version: text}
            return version

    def _after_all(self, refusal: CheckpointError, deadline: Deadline, *, unanswered: bool) -> Stored:
        """What a write that was refused finds there: its own text where an answer was lost on the way.

        Then nobody else has written. Only what is found there says so: who is told that nothing was written aborts the
        transactions that the document makes final.

        :raises CheckpointError: the refusal, or that it cannot be looked at.
        """
        try:
            return self._read(deadline)
        except CheckpointMissing:
            raise
        except CheckpointError as error:
            if not unanswered:
                raise refusal from error
            msg = f"{refusal.message}; an earlier try may have taken effect, and cannot be looked at: {error.message}"
            raise CheckpointStoreUnavailable(msg, remedy=refusal.remedy) from error


class ConfigMapRetainedStore:
    """Earlier checkpoints, each under a key of the job's checkpoints ConfigMap.

    :param deadline: seconds that a read, which a restore waits for, keeps trying; a write is tried once.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, deadline: float = 60.0) -> None:
        self._place = _ConfigMap(api, namespace=namespace, job=job, name=names.checkpoints_config_map(job))
        self._deadline = deadline

    def read(self) -> dict[str, str]:
        try:
            body = self._place.read(Deadline.after(self._deadline))
        except CheckpointMissing:
            return {}
        return dict(body.data or {})

    def change(self, put: Mapping[str, str], drop: Collection[str]) -> None:
        self._place.patch({"data": {**dict.fromkeys(drop), **put}}, None)


class _ConfigMap:
    """One ConfigMap of a job: requests, repeated while the API server does not answer; its refusals as errors of ours.

    Without a deadline a request is tried once.

    :ivar unanswered: whether a try of the last request may have been done without an answer.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._job = job
        self.name = name
        self.unanswered = False

    def read(self, deadline: Deadline | None) -> Any:
        return self._patiently(
            deadline,
            lambda timeout: self._api.read_namespaced_config_map(self.name, self._namespace, _request_timeout=timeout),
        )

    def patch(self, body: Mapping[str, Any], deadline: Deadline | None) -> Any:
        return self._patiently(
            deadline,
            lambda timeout: self._api.patch_namespaced_config_map(
                self.name, self._namespace, body, _request_timeout=timeout
            ),
        )

    def _patiently(self, deadline: Deadline | None, call: Callable[[tuple[float, float]], Any]) -> Any:
        seconds = deadline.remaining if deadline is not None else 0.0
        pause = 0.2
        self.unanswered = False
        while True:
            try:
                return call(_request_timeout(deadline))
            except ApiException as error:
                if error.status not in _RETRIED:
                    raise self._refusal(error) from error
                problem = f"{error.status} {_words(error)}"
                # What is too much at once is not begun.
                self.unanswered |= error.status != 429
            except urllib3.exceptions.HTTPError as error:
                problem = str(error)
                self.unanswered = True
            if deadline is None or deadline.expired:
                msg = f"ConfigMap {self.name}: no answer from the API server within {seconds:.0f} s: {problem}"
                raise CheckpointStoreUnavailable(msg)
            LOG.warning("ConfigMap %s: %s; trying again", self.name, problem)
            time.sleep(deadline.bound(pause))
            pause = min(2 * pause, 5.0)

    def _refusal(self, error: ApiException) -> CheckpointError:
        if error.status == 409:
            return CheckpointConflict(f"ConfigMap {self.name} was changed by somebody else")
        if error.status == 404:
            return CheckpointMissing(f"ConfigMap {self.name} is gone", remedy=way_back(self._namespace, self._job))
        msg = f"ConfigMap {self.name}: the API server answered {error.status}: {_words(error)}"
        if error.status == 413 or (error.status == 422 and "too long" in _words(error).lower()):
            remedy = f"take out of ConfigMap {self.name} what is not the job's; else fewer partitions per job"
            return CheckpointTooLarge(msg, remedy=remedy)
        if error.status not in {401, 403}:
            return CheckpointRefused(msg)
        account = names.service_account(self._job)
        may = f"kubectl auth can-i patch configmap/{self.name} -n {self._namespace}"
        remedy = (
            f"ask what the driver may do: {may} --as system:serviceaccount:{self._namespace}:{account}; the next"
            f" attempt gets its Role and RoleBinding {account} again where they are gone. Where it may, a policy"
            " or quota refuses it"
        )
        return CheckpointRefused(msg, remedy=remedy)


def _request_timeout(deadline: Deadline | None) -> tuple[float, float]:
    """Seconds to connect and to wait for an answer, which end with the deadline."""
    if deadline is None:
        return _REQUEST_TIMEOUT
    connect, answer = _REQUEST_TIMEOUT
    return max(_LEAST_SECONDS, deadline.bound(connect)), max(_LEAST_SECONDS, deadline.bound(answer))


def _words(error: ApiException) -> str:
    """What the API server says of its refusal."""
    try:
        return str(json.loads(error.body)["message"])
    except (ValueError, KeyError, TypeError):
        return str(error.reason)


class JobResources:
    """The job's resource, for commands; call :func:`core_api` first, which finds the identity to ask with."""

    def __init__(self, *, namespace: str, job: str) -> None:
        self._place = (names.GROUP, names.VERSION, namespace, names.PLURAL, job)
        self._what = f"KafkaSparkJob {namespace}/{job}"
        self._api = client.CustomObjectsApi()

    def read(self) -> dict[str, Any]:
        """:raises CheckpointError: it is not there, may not be read, or no answer came."""
        return dict(
            self._ask(lambda: self._api.get_namespaced_custom_object(*self._place, _request_timeout=_REQUEST_TIMEOUT))
        )

    def patch_spec(self, changes: Mapping[str, Any], *, expected: str) -> None:
        """Merges into ``spec``.

        :param expected: the resource's version that the changes were thought out for.
        :raises CheckpointError: see :meth:`read`; :class:`CheckpointConflict` where the resource has changed since.
        """
        body = {"metadata": {"resourceVersion": expected}, "spec": changes}
        self._ask(
            lambda: self._api.patch_namespaced_custom_object(
                *self._place, body, _content_type="application/merge-patch+json", _request_timeout=_REQUEST_TIMEOUT
            )
        )

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ApiException as error:
            if error.status == 409:
                msg = f"{self._what} was changed by somebody else meanwhile"
                raise CheckpointConflict(msg, remedy="look again, then repeat the command") from error
            msg = f"{self._what}: the API server answered {error.status} {error.reason}"
            remedy = "check --namespace and --job, and what you may do: kubectl auth can-i patch kafkasparkjobs"
            raise CheckpointError(msg, remedy=remedy) from error
        except urllib3.exceptions.HTTPError as error:
            msg = f"{self._what}: no answer from the API server: {error}"
            raise CheckpointStoreUnavailable(msg, remedy="check the kubeconfig, and that the cluster is up") from error


class ReportWriter:
    """Puts the driver's report where the operator looks for it; never fails the job."""

    def __init__(self, api: Any, *, namespace: str, job: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = names.report_config_map(job)

    def write(self, text: str) -> None:
        try:
            self._api.patch_namespaced_config_map(
                self._name, self._namespace, {"data": {names.REPORT_KEY: text}}, _request_timeout=_REQUEST_TIMEOUT
            )
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            LOG.warning("the report could not be written (the job goes on): %s", error)
