"""``kafkaspark plan FILE``: the engine of a job and why, its names in Kafka and the cluster, and what it runs on."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from kafkaspark.local.project import engine_of, judged
from kafkaspark.manifests import Manifests, add_options, identity_of, resources
from kafkasparkjob_operator.workload import DesiredJob, UpgradeMode
from sparkapp.model import names
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.startup import StartupMode

_EXAMPLES = """\
examples:
  kafkaspark plan job.yaml
  kafkaspark plan --output json job.yaml | jq -r '.[].engine'
"""


def add_commands(commands: Any) -> None:
    """Registers ``plan``, as :func:`kafkaspark.validate.add_commands` does ``validate``."""
    what = "show the engine of a job and why, its names in Kafka and the cluster, and its pods"
    command = commands.add_parser(
        "plan", help=what, description=what, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(command)
    command.set_defaults(answer=_answer)


def _answer(options: argparse.Namespace) -> int:
    plans, refusals = [], []
    manifests = Manifests(options.files)
    for file, bodies in manifests:
        for body in resources(bodies):
            try:
                plans.append(plan_of(body, options.namespace))
            except ConfigurationError as error:
                refusals.append(f"{file}: {identity_of(body, options.namespace).key}: refused: {error.message}")
    if options.output == "json":
        print(json.dumps(plans, indent=2))
    elif plans:
        print("\n\n".join(map(_as_text, plans)))
    sys.stderr.writelines(f"{refusal}\n" for refusal in refusals)
    return manifests.status or (1 if refusals else 0)


def plan_of(body: Mapping[str, Any], namespace: str) -> dict[str, object]:
    """What a job will use; absent where it uses none.

    :param body: of the resource. :param namespace: of a resource that names none.
    :raises ConfigurationError: the operator refuses the job.
    """
    desired, job = judged(body, namespace)
    spec, workload = job.spec, desired.workload
    engine, reason = engine_of(body, job)
    source, sink, transform = spec.source, spec.sink, spec.transform
    is_exact, is_shared = sink.delivery_guarantee.transactional, sink.kafka is None
    executor = workload.executor
    plan = {
        "job": f"{job.namespace}/{job.name}",
        "engine": engine.value,
        "engineReason": reason,
        "sourceCluster": "" if is_shared else spec.kafka.bootstrap_servers,
        "sinkCluster": "" if is_shared else spec.sink_cluster.bootstrap_servers,
        "reads": source.topic_pattern or ", ".join(source.topics or map(str, source.partitions)),
        "group": source.group_id,
        "transform": transform.function or transform.arrow.name or (transform.sql and "SQL") or "none",
        "codeConfigMap": transform.code,
        "writes": "topics of the column topic" if sink.topic_from is TopicFrom.COLUMN else sink.topic,
        "deadLetters": spec.record_errors.dead_letter_topic,
        "deliveryGuarantee": sink.delivery_guarantee.value,
        "transactionalIdPrefix": sink.transactional_id_prefix if is_exact else "",
        "offsetsTransactionalId": offsets_id(sink.transactional_id_prefix) if is_exact and is_shared else "",
        "subtasks": spec.parallelism,
        "checkpointSeconds": spec.checkpoint_interval,
        "stateConfigMap": names.state_config_map(job.name),
        "stateVolumeClaim": spec.state_claim,
        "stateStore": "" if spec.state_s3 is None else spec.state_s3.shown,
        "executors": (
            f"{workload.executor_instances} of {workload.executor_cores} tasks, {executor.container_mebibytes} MiB each"
        ),
        "nextRevision": _next_revision(desired),
        "driver": f"{workload.driver.container_mebibytes} MiB",
        "serviceAccounts": f"{names.service_account(job.name)}, {names.executor_service_account(job.name)}",
    }
    return {name: value for name, value in plan.items() if value != ""}


_BEGINS = {
    StartupMode.EARLIEST: "at the beginning of its topics: what they still hold is read and written again",
    StartupMode.LATEST: "at the end of its topics: records between the last checkpoint and the start are skipped",
    StartupMode.GROUP_OFFSETS: "at the offsets of its group: nothing is repeated or skipped where the group has those"
    " of the last checkpoint",
    StartupMode.TIMESTAMP: "at the timestamp of source.startup: later records are read and written again, and"
    " earlier records that were not read yet are skipped",
    StartupMode.SPECIFIC_OFFSETS: "at source.startup.specificOffsets: records behind them are read and written again,"
    " and records before them that were not read yet are skipped",
}
"""Where a stateless start begins, and what becomes of the records."""


def _next_revision(desired: DesiredJob) -> str:
    """What a change of the job does with its checkpoint; empty where it resumes there."""
    if desired.upgrade.mode is not UpgradeMode.STATELESS:
        return ""
    spec = desired.spec
    begins = _BEGINS[spec.source.startup.mode]
    if spec.start_snapshot:
        begins = f"at snapshot {spec.start_snapshot}: records behind it are read and written again"
    return f"begins without the checkpoint (upgrade.mode Stateless), {begins}"


def _as_text(plan: Mapping[str, object]) -> str:
    width = max(map(len, plan))
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in plan.items())
