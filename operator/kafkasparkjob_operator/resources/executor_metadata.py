"""What templates give executors and nobody else may: one text has all of it, and the driver's Role grants the text.

These are labels and annotations, and what chooses a node: selectors, tolerations, affinity and the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafkasparkjob_operator.identity import ANNOTATION_METADATA

_TOLERATION = (("key", "key"), ("operator", "operator"), ("value", "value"), ("effect", "effect"),
               ("seconds", "tolerationSeconds"))  # fmt: skip
_WITHOUT_DETAILS = ("affinity", "topologySpreadConstraints")
"""The policy knows whether a template has these, and not what is in them. They only narrow the choice of nodes."""


def with_metadata_text(pod: Mapping[str, Any], *, own_labels: Mapping[str, str]) -> dict[str, Any]:
    """The pod with :data:`ANNOTATION_METADATA`, where a template adds something.

    Called for the executors' template, after the merge. The admission policy compares the pod with its annotation, and
    asks whether the annotation's text was granted: one authorization check, however many lines there are.
    """
    metadata = pod["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name not in own_labels}
    annotations = metadata.get("annotations", {})
    text = metadata_text(labels, annotations, pod["spec"])
    if not text:
        return dict(pod)
    return {**pod, "metadata": {**metadata, "annotations": {**annotations, ANNOTATION_METADATA: text}}}


def metadata_text(labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, Any]) -> str:
    """A line for each label, annotation, node selector and toleration. No value of a valid pod has a line break.

    :param spec: of the pod.
    """
    of_kinds = (("label", labels), ("annotation", annotations), ("nodeSelector", spec.get("nodeSelector") or {}))
    lines = [f"{kind} {name}={value}" for kind, found in of_kinds for name, value in sorted(found.items())]
    return "\n".join([*lines, *_scheduling(spec)])


def _scheduling(spec: Mapping[str, Any]) -> Iterator[str]:
    for toleration in spec.get("tolerations") or ():
        # An absent field is empty, as in the policy.
        fields = (f"{name}={'' if toleration.get(key) is None else toleration[key]}" for name, key in _TOLERATION)
        yield f"toleration {' '.join(fields)}"
    if spec.get("schedulerName"):
        yield f"schedulerName {spec['schedulerName']}"
    yield from (name for name in _WITHOUT_DETAILS if name in spec)
