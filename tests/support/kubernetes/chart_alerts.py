"""The alerts of the chart."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.support.kubernetes.api_client import REPOSITORY

TEMPLATE = REPOSITORY / "charts/kafkaspark-operator/templates/prometheus-rule.yaml"


def rules() -> dict[str, dict[str, Any]]:
    """The chart's own rules by their names."""
    text = TEMPLATE.read_text(encoding="utf-8").partition("{{- else }}")[2].partition("{{- end }}")[0]
    found = yaml.safe_load(re.sub(r"\{\{.*\}\}", "text", text))
    return {rule["alert"]: rule for rule in found}
