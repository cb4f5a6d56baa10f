"""Labels and annotations of templates on executors. One text has all of them, and the driver's Role grants the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasparkjob_operator.identity import ANNOTATION_METADATA


def with_metadata_text(pod: Mapping[str, Any], *, own_labels: Mapping[str, str]) -> dict[str, Any]:
    """The pod with :data:`ANNOTATION_METADATA`, where a template adds labels or annotations.

    Called for the executors' template, after the merge. The admission policy compares the pod with its annotation, and
    asks whether the annotation's text was granted: one authorization check, however many labels there are.
    """
    metadata = pod["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name not in own_labels}
    annotations = metadata.get("annotations", {})
    if not labels and not annotations:
        return dict(pod)
    text = metadata_text(labels, annotations)
    return {**pod, "metadata": {**metadata, "annotations": {**annotations, ANNOTATION_METADATA: text}}}


def metadata_text(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """A line for each label and annotation. No value has a line break: templates with such values are refused."""
    of_kinds = (("label", labels), ("annotation", annotations))
    return "\n".join(f"{kind} {name}={value}" for kind, found in of_kinds for name, value in sorted(found.items()))
