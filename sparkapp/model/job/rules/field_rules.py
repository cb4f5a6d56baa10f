"""The rules between fields that the API server and the operator judge by the same text.

The operator judges them again, because the definition in the cluster may be older than the operator. The API server
also judges no stored object when its definition changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkapp.model.encoding.resource import resource_of
from sparkapp.model.encoding.schema import ObjectRule
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.rules.access_rules import ACCESS_RULES
from sparkapp.model.job.rules.cel import holds
from sparkapp.model.job.rules.job_rules import JOB_RULES
from sparkapp.model.job.rules.sink_rules import SINK_RULES
from sparkapp.model.job.rules.source_rules import SOURCE_RULES
from sparkapp.model.job.spec import JobSpec

JUDGED = tuple(rule for rule in (*JOB_RULES, *ACCESS_RULES, *SOURCE_RULES, *SINK_RULES) if not rule.by_server)
"""The others are about a change, or have an expression of the user, or :mod:`.engine_rules` says more."""
_BY_OBJECT: dict[str, list[ObjectRule]] = {}
for _rule in JUDGED:
    for _where in _rule.where:
        _BY_OBJECT.setdefault(_where, []).append(_rule)


def check_field_rules(spec: JobSpec) -> None:
    """Called by :func:`sparkapp.model.job.rules.spec_rules.check_spec`.

    :raises ConfigurationError: with the message that the API server has.
    """
    body = resource_of(spec)
    for where, rules in _BY_OBJECT.items():
        for path, part in _parts(body, where):
            for rule in rules:
                if not holds(rule.expression, part):
                    raise ConfigurationError(_message(rule, path, body))


def _parts(body: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Path and value of each object that rules are about; none where the resource does not have it."""
    found = [("spec", body)]
    for step in where.split(".") if where else ():
        name = step.removesuffix("[]")
        inner = [(f"{path}.{name}", part[name]) for path, part in found if name in part]
        if step != name:
            inner = [(f"{path}[{index}]", item) for path, items in inner for index, item in enumerate(items)]
        found = inner
    yield from found


def _message(rule: ObjectRule, path: str, body: dict[str, Any]) -> str:
    """A message that begins with a field names it in full."""
    section = rule.message.partition(" ")[0].partition(".")[0].rstrip(":")
    return f"spec.{rule.message}" if section in body else f"{path}: {rule.message}"
