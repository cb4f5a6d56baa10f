"""The documents' tables of rights are those that the chart grants to the operator, and the operator to a driver."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.access import role
from kafkasparkjob_operator.resources.references import References

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/kafkaspark-operator"
VERB = re.compile(r"\b(?:get|list|watch|create|update|patch|delete|deletecollection|drive|use)\b")
ELSEWHERE = {"namespaces": {"list"}, "leases": {"create", "get", "update"}}
"""Rights in other places of the chart: templates/rbac.yaml."""


def rights(rules: list[dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for rule in rules:
        for resource in rule["resources"]:
            found[resource] |= set(rule["verbs"])
    return dict(found)


def table(text: str, heading: str) -> dict[str, set[str]]:
    """Verbs by resource of the first table below a heading."""
    rows = re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", text.split(heading)[1], re.MULTILINE)
    found: dict[str, set[str]] = defaultdict(set)
    for resources, verbs in rows:
        for resource in re.findall(r"`([a-z/]+)`", resources):
            found[resource] |= set(VERB.findall(verbs))
    return dict(found)


def test_the_charts_readme_has_every_right_of_the_operator() -> None:
    helpers = (CHART / "templates/_helpers.tpl").read_text(encoding="utf-8")
    (rules,) = re.findall(r'define "kafkaspark.rules" -}}\n(.*?){{- end }}', helpers, re.DOTALL)
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert table(readme, "\n## Rights\n") == rights(yaml.safe_load(rules)) | ELSEWHERE


def test_the_threat_model_has_every_right_of_a_driver() -> None:
    rules = role(JobIdentity("team", "JOB", "uid"), References(secrets=("x",)), policy="drivers")["rules"]
    document = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    text = document.split("Its Role allows:")[1].split("\n\n")[1]
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \| .+ \|$", text, re.MULTILINE))
    said = {name: set(verbs.split(", ")) for name, verbs in rows.items()}
    granted = rights(rules)
    assert said["pods"] == granted["pods"]
    (config_maps,) = (verbs for name, verbs in said.items() if "`JOB-state`" in name)
    assert config_maps == granted["configmaps"]
    assert granted["kafkasparkjobs"] == said["the job's own resource"]
    assert granted["secrets"] == said["the names that the executors refer to"]
    assert granted["driverpolicies"] == said["the name of the release's policy"]
