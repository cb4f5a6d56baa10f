"""Strategic merge of a pod template onto a pod, with the merge keys of Kubernetes' types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.workload import PodResources
from kafkasparkjob_operator.workload.pod_template import PodTemplate

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "hostAliases": "ip",
    "imagePullSecrets": "name",
}  # fmt: skip
"""Lists whose items are found by a key. Kubernetes replaces every other list as a whole."""
_DEEP = frozenset({"containers"})
"""Lists whose items are merged field by field. An item of another list replaces the item with its key, because a
variable or volume of two kinds is invalid."""


def strategic_merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merges ``patch`` onto ``base`` and changes neither; null removes a field.

    The items of ``base`` keep their order, and new items follow.
    """
    merged = dict(base)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(name), Mapping):
            merged[name] = strategic_merge(merged[name], value)
        elif name in MERGE_KEYS and isinstance(merged.get(name), list):
            merged[name] = _merge_lists(merged[name], value, MERGE_KEYS[name], deep=name in _DEEP)
        else:
            merged[name] = value
    return merged


def _merge_lists(
    base: list[Mapping[str, Any]], patch: list[Mapping[str, Any]], key: str, *, deep: bool
) -> list[Mapping[str, Any]]:
    merged = {item[key]: item for item in base}
    for item in patch:
        merged[item[key]] = strategic_merge(merged.get(item[key], {}) if deep else {}, item)
    return list(merged.values())


def with_templates(pod: Mapping[str, Any], resources: PodResources) -> dict[str, Any]:
    """Merges onto the operator's pod: the administrator's template, the job's variables, and the job's template.

    Called for driver and executors; later fields take precedence.
    """
    (container,) = pod["spec"]["containers"]
    variables = PodTemplate(spec={"containers": [{"name": container["name"], "env": list(resources.env)}]})
    for template in (resources.defaults, variables, resources.template):
        pod = _with_template(pod, template)
    return dict(pod)


def _with_template(pod: Mapping[str, Any], template: PodTemplate) -> dict[str, Any]:
    metadata = {"labels": template.labels, "annotations": template.annotations}
    patch = {"metadata": {name: value for name, value in metadata.items() if value}, "spec": template.spec}
    return strategic_merge(pod, patch)
