"""The NetworkPolicies of a job: one of its drivers, one of its executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, metadata
from kafkasparkjob_operator.settings import NetworkRules
from sparkapp.model import names

_NAMES = {names.ROLE_DRIVER: names.service_account, names.ROLE_EXECUTOR: names.executor_service_account}


def network_policies(job: JobIdentity, rules: NetworkRules) -> tuple[dict[str, Any], ...]:
    """Connections between the job's own pods, at any port, and the administrator's rules. All others are refused.

    :param rules: of the operator's settings; none for no policies.
    """
    return tuple(_policy(job, role, rules[role]) for role in _NAMES if role in rules)


def network_policy_names(job: JobIdentity) -> list[str]:
    """A policy has the name of the service account whose pods it selects."""
    return [name(job.name) for name in _NAMES.values()]


def _policy(job: JobIdentity, role: str, rules: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Any]:
    own = [{"podSelector": {"matchLabels": {names.LABEL_JOB: job.name}}}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, _NAMES[role](job.name)),
        "spec": {
            "podSelector": {"matchLabels": {names.LABEL_JOB: job.name, names.LABEL_ROLE: role}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": own}, *_complete(rules.get("ingress", ()))],
            "egress": [{"to": own}, *_complete(rules.get("egress", ()))],
        },
    }


def _complete(rules: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rules with the API server's default protocol, so that they can be compared with its answer."""
    return [
        {**rule, "ports": [{"protocol": "TCP", **port} for port in rule["ports"]]} if rule.get("ports") else dict(rule)
        for rule in rules
    ]
