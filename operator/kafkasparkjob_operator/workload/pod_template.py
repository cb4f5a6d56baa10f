"""What a pod template may set. It is a list of what is allowed: every other field is refused by its name."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kafkasparkjob_operator.workload.environment import check_variable
from kafkasparkjob_operator.workload.pod_rules import (
    ALLOWED_SOURCES,
    ALLOWED_VOLUMES,
    FREE_CONTAINER_FIELDS,
    FREE_SPEC_FIELDS,
    GENERAL,
    GRACE_SECONDS,
    MOST_EXECUTOR_GRACE_SECONDS,
    MOUNT_FIELDS,
    Refusal,
    of_annotation,
    of_container_field,
    of_label,
    of_mount_path,
    of_spec_field,
    of_volume_name,
)
from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.object_names import check_object_name


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """The checked fields of a template, as a pod writes them.

    :param spec: a part of a pod's spec, with at most one container, the operator's.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


NO_TEMPLATE = PodTemplate()

_MOST_LEVELS = 100
"""Of a template. Its definition has no bound, and whatever reads the template afterwards would recurse."""


def read_pod_template(template: Mapping[str, Any], path: str, *, role: str) -> PodTemplate:
    """Checks a template. The operator merges it onto the pod of ``role``, whose container has the role's name.

    Called for each pod template of a resource.

    :param path: of the template, for errors.
    :raises ConfigurationError: a field would break the protocol or the pod's security; it is named, with the reason.
    """
    return _Template(path, role).read(template)


class _Template:
    """One template while it is read."""

    def __init__(self, path: str, role: str) -> None:
        self.path = path
        self.role = role
        self.volumes: set[str] = set()
        self.special: Mapping[str, Callable[[str, Any], None]] = {
            "containers": self._containers,
            "volumes": self._volumes,
            "dnsPolicy": self._dns_policy,
            "terminationGracePeriodSeconds": self._grace,
            "securityContext": self._pod_security,
            "priorityClassName": self._priority,
        }

    def read(self, template: Mapping[str, Any]) -> PodTemplate:
        if _is_nested(template, _MOST_LEVELS):
            reason = f"it is nested deeper than {_MOST_LEVELS} levels, and no field of a pod is"
            _refuse(self.path, Refusal(reason, "write it as core/v1 has it"))
        template = _without_nulls(template)
        for name in template:
            if name not in {"metadata", "spec"}:
                _refuse(f"{self.path}.{name}", GENERAL)
        metadata = _object(template.get("metadata"), f"{self.path}.metadata")
        for name in metadata:
            if name not in {"labels", "annotations"}:
                _refuse(f"{self.path}.metadata.{name}", Refusal("the operator names and owns the job's pods"))
        labels = _strings(metadata.get("labels"), f"{self.path}.metadata.labels")
        annotations = _strings(metadata.get("annotations"), f"{self.path}.metadata.annotations")
        for name, value in labels.items():
            _refuse_if(f"{self.path}.metadata.labels: {name!r}", of_label(name, value))
        for name, value in annotations.items():
            _refuse_if(f"{self.path}.metadata.annotations: {name!r}", of_annotation(name, value))
        return PodTemplate(labels=labels, annotations=annotations, spec=self._spec(template.get("spec")))

    def _spec(self, value: Any) -> Mapping[str, Any]:
        path = f"{self.path}.spec"
        spec = _object(value, path)
        for name, part in spec.items():
            if name not in self.special and name not in FREE_SPEC_FIELDS:
                _refuse(f"{path}.{name}", of_spec_field(name))
            kind = FREE_SPEC_FIELDS.get(name)
            if kind is not None and not isinstance(part, kind):
                _wrong(f"{path}.{name}", kind.__name__, part)
        for alias in _objects(spec.get("hostAliases"), f"{path}.hostAliases"):
            if not (isinstance(alias.get("ip"), str) and alias["ip"]):
                _wrong(f"{path}.hostAliases: ip", "an address", alias.get("ip"))
        # Volumes first: mounts refer to them.
        for name in sorted(set(spec) & set(self.special), key=lambda name: name != "volumes"):
            self.special[name](f"{path}.{name}", spec[name])
        return spec

    def _dns_policy(self, path: str, value: Any) -> None:
        if value not in {"ClusterFirst", "Default", "None"}:
            _refuse(f"{path}: {value}", Refusal("the pod is not in the node's network", "use ClusterFirst"))

    def _priority(self, path: str, value: Any) -> None:
        if not isinstance(value, str):
            _wrong(path, "str", value)
        if value.startswith("system-"):
            _refuse(f"{path}: {value}", Refusal("the class is for Kubernetes itself", "name another priority class"))

    def _grace(self, path: str, value: Any) -> None:
        low = GRACE_SECONDS[self.role]
        if type(value) is not int or value < low:
            reason = f"the {self.role} needs {low} s to stop in order"
            _refuse(f"{path}: {value}", Refusal(reason, f"set at least {low}, or remove it"))
        if self.role == names.ROLE_EXECUTOR and value > MOST_EXECUTOR_GRACE_SECONDS:
            reason = "the next attempt waits for the pods of the previous attempt"
            _refuse(f"{path}: {value}", Refusal(reason, f"set at most {MOST_EXECUTOR_GRACE_SECONDS}"))

    def _pod_security(self, path: str, value: Any) -> None:
        for name in _object(value, path):
            if name != "fsGroupChangePolicy":
                _refuse(f"{path}.{name}", Refusal("the operator decides the pod's security"))

    def _containers(self, path: str, value: Any) -> None:
        for index, container in enumerate(_objects(value, path)):
            name = container.get("name")
            if name != self.role or index:
                reason = (
                    f"the pod has a single container, {self.role}: a second could keep an ended attempt's pod alive"
                )
                _refuse(f"{path}: {name!r}", Refusal(reason, "run the sidecar as a pod of its own"))
            self._container(f"{path}[{index}]", container)

    def _container(self, path: str, container: Mapping[str, Any]) -> None:
        for name in container:
            if name not in FREE_CONTAINER_FIELDS:
                _refuse(f"{path}.{name}", of_container_field(name, container[name]))
        for variable in _objects(container.get("env"), f"{path}.env"):
            name = _named(variable, f"{path}.env")
            check_variable(name, variable, f"{path}.env")
        for source in _objects(container.get("envFrom"), f"{path}.envFrom"):
            self._env_from(f"{path}.envFrom", source)
        for mount in _objects(container.get("volumeMounts"), f"{path}.volumeMounts"):
            self._mount(f"{path}.volumeMounts", mount)

    def _env_from(self, path: str, source: Mapping[str, Any]) -> None:
        for name in source:
            if name not in {"prefix", "secretRef", "configMapRef"}:
                _refuse(f"{path}.{name}", GENERAL)
        referred = [kind for kind in ("secretRef", "configMapRef") if source.get(kind) is not None]
        if len(referred) != 1:
            _refuse(path, Refusal("each source needs exactly one of secretRef and configMapRef", "name one"))
        _named_object(source[referred[0]], f"{path}.{referred[0]}")
        prefix = source.get("prefix")
        if prefix:
            check_variable(f"{prefix}", {}, path)

    def _mount(self, path: str, mount: Mapping[str, Any]) -> None:
        name, where = _named(mount, path), mount.get("mountPath")
        if name not in self.volumes:
            reason = f"{path}: {name!r} is no volume of the template"
            raise ConfigurationError(reason, remedy=f"add the volume to {self.path}.spec.volumes")
        for other in mount:
            if other not in MOUNT_FIELDS:
                _refuse(f"{path}: {other} of {name!r}", GENERAL)
        if not isinstance(where, str) or not where.startswith("/"):
            _wrong(f"{path}: mountPath of {name!r}", "an absolute path", where)
        _refuse_if(f"{path}: {where}", of_mount_path(where))

    def _volumes(self, path: str, value: Any) -> None:
        for volume in _objects(value, path):
            name = _named(volume, path)
            _refuse_if(f"{path}: {name!r}", of_volume_name(name))
            kinds = sorted(set(volume) - {"name"})
            if len(kinds) != 1 or kinds[0] not in ALLOWED_VOLUMES:
                reason = f"{', '.join(kinds) or 'a volume without a kind'} is not allowed"
                _refuse(f"{path}: {name!r}", Refusal(reason, f"use one of {', '.join(ALLOWED_VOLUMES)}"))
            source = _object(volume[kinds[0]], f"{path}: {name!r}.{kinds[0]}")
            required = ALLOWED_VOLUMES[kinds[0]]
            if required and not (isinstance(source.get(required), str) and source[required]):
                _wrong(f"{path}: {required} of {name!r}", "a name", source.get(required))
            if required:
                check_object_name(source[required], f"{path}: {required} of {name!r}")
            for projection in _objects(source.get("sources"), f"{path}: sources of {name!r}"):
                self._projection(f"{path}: sources of {name!r}", projection)
            self.volumes.add(name)

    def _projection(self, path: str, projection: Mapping[str, Any]) -> None:
        for kind in projection:
            if kind not in ALLOWED_SOURCES:
                _refuse(f"{path}: {kind}", Refusal("is not allowed", f"use one of {', '.join(ALLOWED_SOURCES)}"))
            if kind != "downwardAPI":
                _named_object(projection[kind], f"{path}: {kind}")


def _refuse(where: str, refusal: Refusal) -> NoReturn:
    msg = f"{where} is refused: {refusal.reason}"
    raise ConfigurationError(msg, remedy=refusal.remedy)


def _refuse_if(where: str, refusal: Refusal | None) -> None:
    if refusal is not None:
        _refuse(where, refusal)


def _wrong(path: str, wanted: str, value: object) -> NoReturn:
    msg = f"{path} must be {wanted}, not {reprlib.repr(value)}"
    raise ConfigurationError(msg)


def _is_nested(value: Any, levels: int) -> bool:
    """Whether objects and lists are nested deeper than that; without recursion."""
    level = [value]
    for _ in range(levels):
        inner = [each.values() if isinstance(each, Mapping) else each for each in level]
        level = [part for parts in inner for part in parts if isinstance(part, Mapping | list)]
        if not level:
            return False
    return True


def _without_nulls(value: Any) -> Any:
    """The value as Kubernetes reads it: null is an absent field, and ``emptyDir: null`` is ``emptyDir: {}``.

    The strategic merge would remove the operator's own field instead.
    """
    if isinstance(value, Mapping):
        fields = ((name, {} if part is None and name == "emptyDir" else part) for name, part in value.items())
        return {name: _without_nulls(part) for name, part in fields if part is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        _wrong(path, "an object", value)
    return value


def _objects(value: Any, path: str) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        _wrong(path, "a list of objects", value)
    return value


def _strings(value: Any, path: str) -> Mapping[str, str]:
    found = _object(value, path)
    if not all(isinstance(key, str) and isinstance(item, str) for key, item in found.items()):
        _wrong(path, "an object of strings (write numbers and booleans in quotes)", value)
    return found


def _named(item: Mapping[str, Any], path: str) -> str:
    name = item.get("name")
    if not isinstance(name, str) or not name:
        _wrong(f"{path}: name", "a string that is not empty", name)
    return name


def _named_object(value: Any, path: str) -> None:
    """A reference to a Secret or a ConfigMap."""
    check_object_name(_named(_object(value, path), path), f"{path}: name")
