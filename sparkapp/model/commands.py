"""Commands that a remedy tells a person to type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sparkapp.model.job import Job


def patch(job: Job, spec: Mapping[str, Any]) -> str:
    """The command that merges ``spec`` into the job's own; its change starts a stopped job again."""
    change = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl patch ksj {job.name} -n {job.namespace} --type merge -p '{change}'"


def create_again(job: Job) -> str:
    """The command that deletes the job with its state, and creates it from the same spec."""
    return f"kubectl get ksj {job.name} -n {job.namespace} -o yaml | kubectl replace --force -f -"
