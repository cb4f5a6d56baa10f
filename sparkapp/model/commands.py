"""Commands that a remedy tells a person to type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.errors.base import RESTART
from sparkapp.model.job.spec import Job

_PLACEHOLDER = re.compile(r"\b(?:NAMESPACE|NAME|GROUP|BROKERS|CLAIM)\b")


def patch(job: Job, spec: Mapping[str, Any]) -> str:
    """The command that merges ``spec`` into the job's own; its change starts a stopped job again."""
    change = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl patch ksj {job.name} -n {job.namespace} --type merge -p '{change}'"


def restart(namespace: str, name: str) -> str:
    """The command that starts a failed job again without another change of its resource."""
    return RESTART.replace("NAMESPACE", namespace).replace("NAME", name)


def delete(kind: str, name: str, namespace: str) -> str:
    """The command that deletes an object of Kubernetes."""
    return f"kubectl delete {kind.lower()} {name} -n {namespace}"


def create_again(job: Job) -> str:
    """The command that deletes the job with its state, and creates it from the same spec."""
    return f"kubectl get ksj {job.name} -n {job.namespace} -o yaml | kubectl replace --force -f -"


def remedy_for(error: KafkaSparkJobError, job: Job) -> str:
    """The error's remedy with the job's own names in its commands, so that a person can paste them.

    Called by the driver when an error ends the attempt. An error that Spark carried as text has its class's remedy.
    So the names are filled in here, not where the error is raised.
    """
    source = job.spec.source
    return remedy_in(
        error, namespace=job.namespace, name=job.name, group=source.group_id,
        brokers=job.spec.kafka.bootstrap_servers, claim=job.spec.state_claim,
    )  # fmt: skip


def remedy_in(
    error: KafkaSparkJobError, *, namespace: str, name: str, group: str = "", brokers: str = "", claim: str = ""
) -> str:
    """:func:`remedy_for` where only the job's name is known: in the operator and in commands for people.

    A placeholder whose value is empty stays. A remedy of the place that raised the error names the job already.
    """
    if error.remedy != error.default_remedy:
        return error.remedy
    values = {"NAMESPACE": namespace, "NAME": name, "GROUP": group, "BROKERS": brokers, "CLAIM": claim}
    return _PLACEHOLDER.sub(lambda found: values[found.group()] or found.group(), error.remedy)
