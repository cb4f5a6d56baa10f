"""What an executor refers to: the names that the operator grants to the driver, which creates the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kafkasparkjob_operator.identity import ANNOTATION_METADATA

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Names in the job's namespace, each sorted and without repetition.

    :param images: images of containers, as a pod writes them.
    :param audiences: audiences of the service account's tokens.
    :param metadata: texts of :mod:`~kafkasparkjob_operator.resources.executor_metadata`.
    """

    secrets: Names = ()
    configmaps: Names = ()
    persistentvolumeclaims: Names = ()
    serviceaccounts: Names = ()
    images: Names = ()
    audiences: Names = ()
    metadata: Names = ()

    def union(self, others: Iterable[References]) -> References:
        """The names of these and of the others."""
        every = [self, *others]
        return _references({kind: [name for references in every for name in references.of(kind)] for kind in KINDS})

    def of(self, kind: str) -> Names:
        names: Names = getattr(self, kind)
        return names

    def record(self) -> dict[str, list[str]]:
        """The names as an attempt's ConfigMap records them; :func:`recorded_references` reads them."""
        return {kind: list(self.of(kind)) for kind in KINDS if self.of(kind)}


KINDS = tuple(field.name for field in fields(References))


def references_of(pod: Mapping[str, Any], *, image: str, pull_secrets: Iterable[str]) -> References:
    """Every name in a pod template, and what Spark adds to it.

    Called for each attempt, with the template that its executors are created from.
    """
    spec = pod["spec"]
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    found["images"].append(image)
    found["secrets"].extend(pull_secrets)
    text = pod["metadata"].get("annotations", {}).get(ANNOTATION_METADATA)
    found["metadata"].extend([text] if text else [])
    found["serviceaccounts"].append(spec["serviceAccountName"])
    for kind, name in every_reference(spec):
        found[kind].append(name)
    return _references(found)


def every_reference(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and name of each reference in volumes and variables of a pod's spec, repetitions included."""
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)
    for container in spec["containers"]:
        for source in container.get("envFrom") or ():
            yield from _of_selectors(source, ("secretRef", "configMapRef"))
        for variable in container.get("env") or ():
            yield from _of_selectors(variable.get("valueFrom"), ("secretKeyRef", "configMapKeyRef"))


def recorded_references(record: object) -> References:
    """Reads what :meth:`References.record` wrote; nothing where it is unreadable."""
    if not isinstance(record, Mapping):
        return References()
    found = {kind: record.get(kind) for kind in KINDS}
    return _references({kind: names for kind, names in found.items() if isinstance(names, list)})


def _references(found: Mapping[str, Iterable[Any]]) -> References:
    return References(**{kind: tuple(sorted({str(name) for name in names})) for kind, names in found.items()})


def _of_volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "secret" in volume:
        yield "secrets", volume["secret"]["secretName"]
    if "configMap" in volume:
        yield "configmaps", volume["configMap"]["name"]
    if "persistentVolumeClaim" in volume:
        yield "persistentvolumeclaims", volume["persistentVolumeClaim"]["claimName"]
    for source in volume.get("projected", {}).get("sources") or ():
        if "secret" in source:
            yield "secrets", source["secret"]["name"]
        if "configMap" in source:
            yield "configmaps", source["configMap"]["name"]
        if "serviceAccountToken" in source:
            yield "audiences", source["serviceAccountToken"]["audience"]


def _of_selectors(source: object, of_kinds: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """
    :param of_kinds: the field that names a Secret, and the field that names a ConfigMap.
    """
    if not isinstance(source, Mapping):
        return
    for field, kind in zip(of_kinds, ("secrets", "configmaps"), strict=True):
        selector = source.get(field)
        if isinstance(selector, Mapping) and selector.get("name"):
            yield kind, str(selector["name"])
