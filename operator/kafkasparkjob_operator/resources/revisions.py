"""Revisions of a job: what an attempt runs, as immutable ConfigMaps that outlive the attempt (ADR 80).

A revision is the spec without what starts no other attempt, the resolved image, and digests of the administrator's
templates and of the user's modules. The modules are copied: pods mount the copy, so all of an attempt have one version.
Names have the hash of the content and of the resource's UID, so a node's old copy of a name has the same content.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from kafkasparkjob_operator.identity import (
    ANNOTATION_MODULES,
    ANNOTATION_SOURCE,
    ROLE_MODULES,
    ROLE_REVISION,
    JobIdentity,
    metadata,
)
from kafkasparkjob_operator.workload import DesiredJob
from sparkapp.model import names
from sparkapp.model.encoding.json_parts import of_type
from sparkapp.model.encoding.modules_digest import digest_of_modules

FORMAT = 1
"""Of :data:`REVISION_KEY`. A later release reads each that it knows."""
REVISION_KEY = "revision.json"
KEPT = 3
"""Revisions that are kept, next to those of attempts: the newest."""
NO_PART = frozenset(
    {
        "autoscaler", "parallelism", "suspend", "restartNonce", "restore", "startFrom", "restartPolicy",
        "ttlSecondsAfterFinished", "upgrade", "deletion", "snapshots",
    }
)  # fmt: skip
"""Fields of the spec that are no part of a revision: requests, policies, and the number of subtasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """A copy of the user's modules.

    :param name: of the copy, which pods mount. :param source: of the ConfigMap in the resource.
    :param digest: as the operator compares contents. :param files: as the driver compares the mounted files.
    """

    name: str
    source: str
    digest: str
    files: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What an attempt runs.

    :param spec: of the resource, without the fields that are no part of a revision.
    :param templates: digest of what the administrator adds to pods.
    :param modules: digest of the user's modules; empty without any.
    """

    spec: Mapping[str, Any]
    image: str
    templates: str
    modules: str

    def name(self, job: JobIdentity) -> str:
        """Of the ConfigMap."""
        return names.revision_config_map(job.name, _hash(job, self.text))

    @property
    def text(self) -> str:
        """The content of the ConfigMap; the same for the same revision."""
        content = {
            "format": FORMAT, "image": self.image, "modules": self.modules, "spec": self.spec,
            "templates": self.templates,
        }  # fmt: skip
        return json.dumps(content, separators=(",", ":"), sort_keys=True)


def revision_of(spec: Mapping[str, Any], desired: DesiredJob, *, modules: str) -> Revision:
    """The revision of an attempt with that spec.

    Called by decisions, for the name, and where an attempt is started.

    :param desired: ``spec``, read with the administrator's settings.
    :param modules: digest of the user's modules; empty without any, or where it is unknown.
    """
    workload = desired.workload
    added = [asdict(workload.driver.defaults), asdict(workload.executor.defaults), workload.user]
    templates = hashlib.sha256(json.dumps(added, sort_keys=True, default=str).encode()).hexdigest()[:16]
    own = {name: value for name, value in spec.items() if name not in NO_PART}
    return Revision(spec=own, image=workload.image, templates=templates, modules=modules)


def read_revision(body: Mapping[str, Any]) -> Revision | None:
    """Reads the ConfigMap of a revision; None where it cannot be read, or a later release has written it."""
    try:
        content = json.loads((body.get("data") or {})[REVISION_KEY])
        if content["format"] != FORMAT:
            return None
        image, templates, modules = (of_type(str, content[name], name) for name in ("image", "templates", "modules"))
        return Revision(spec=dict(content["spec"]), image=image, templates=templates, modules=modules)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def revision_config_map(job: JobIdentity, revision: Revision, modules: Modules | None) -> dict[str, Any]:
    """Immutable. Its annotation names the copy of the modules, so that a list of metadata says what is needed."""
    annotations = {} if modules is None else {ANNOTATION_MODULES: modules.name}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, revision.name(job), role=ROLE_REVISION, annotations=annotations),
        "immutable": True,
        "data": {REVISION_KEY: revision.text},
    }


def modules_config_map(job: JobIdentity, source: Mapping[str, Any]) -> dict[str, Any]:
    """Immutable: the content of the user's ConfigMap, whole. What fits there, fits here.

    :param source: the ConfigMap of the user's modules.
    """
    content = {part: dict(source[part]) for part in ("data", "binaryData") if source.get(part)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            job, modules_name(job, digest_of_content(source)), role=ROLE_MODULES,
            annotations={ANNOTATION_SOURCE: source["metadata"]["name"]},
        ),
        "immutable": True,
        **content,
    }  # fmt: skip


def modules_name(job: JobIdentity, digest: str) -> str:
    """The name of the copy of modules with that digest."""
    return names.modules_config_map(job.name, _hash(job, digest))


def modules_of(copy: Mapping[str, Any], *, source: str) -> Modules:
    """The value for manifests, of a copy that exists."""
    return Modules(
        name=copy["metadata"]["name"], source=source, digest=digest_of_content(copy), files=_digest_of_files(copy)
    )


def digest_of_content(body: Mapping[str, Any]) -> str:
    """By which the operator finds that modules have changed: of the source and of its copy the same."""
    content = json.dumps([body.get("data") or {}, body.get("binaryData") or {}], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _digest_of_files(body: Mapping[str, Any]) -> str:
    texts = {name: text.encode() for name, text in (body.get("data") or {}).items()}
    others = {name: base64.b64decode(text) for name, text in (body.get("binaryData") or {}).items()}
    return digest_of_modules({**texts, **others})


def _hash(job: JobIdentity, text: str) -> str:
    return hashlib.sha256(f"{job.uid}/{text}".encode()).hexdigest()[:10]
