"""What a deletion leaves behind: the events that say it, with what a person is to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from kafkasparkjob_operator.decisions.attempts import Unsettled
from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.status.events import JobEvent
from kafkasparkjob_operator.status.reasons import JobReason
from sparkapp.model import names

SERVERS_CHARACTERS = 300
"""Bootstrap addresses in the command of an event. With the longest prefix the cause still has room."""


def left_open(job: JobResource, why: str, *, left: Unsettled) -> JobEvent:
    """The event of a deletion that leaves transactions open: prefix, cause, and the command that ends them."""
    prefix, servers = _prefix(job), _bootstrap_servers(job)
    until = "" if left.seconds is None else f" until their time-out of {left.seconds} s"
    message = (
        f"transactions with ids that begin with {prefix!r} may stay open and hold back read_committed readers{until}:"
        f" {why}"
    )
    remedy = (
        f"Abort them: python3 -m sparkapp txn abort --all-lingering --bootstrap {shlex.quote(servers)}"
        f" --prefix {shlex.quote(prefix)} --yes"
    )
    return JobEvent(
        occurrence="left-open", reason=JobReason.TRANSACTIONS_LEFT_OPEN, message=message, remedy=remedy, warning=True
    )


def state_left(job: JobResource, why: str) -> JobEvent:
    """The event of a deletion that leaves the job's query state in its place: folder, cause, and what to do."""
    message = f"folder {job.identity.uid} stays on the volume or in the bucket of spec.checkpoint: {why}"
    remedy = (
        "Remove it by hand, but folders retained/checkpoint-N that snapshots name in status.checkpoint.stateFolder, and"
        " retained/tables of a bucket"
    )
    return JobEvent(
        occurrence="state-left", reason=JobReason.STATE_NOT_REMOVED, message=message, remedy=remedy, warning=True
    )


def _prefix(job: JobResource) -> str:
    """The prefix of the last attempt's transactional ids."""
    identity, section = job.identity, job.status.get("transactions")
    known = section.get("prefix") if isinstance(section, Mapping) else None
    return str(known or names.default_transactional_id_prefix(identity.namespace, identity.name))


def _bootstrap_servers(job: JobResource) -> str:
    """As many addresses of the sink's cluster as the command has room for; a client finds the others by any of them."""
    sink = job.spec.get("sink")
    kafka = (isinstance(sink, Mapping) and sink.get("kafka")) or job.spec.get("kafka")
    every = str(kafka.get("bootstrapServers", "") if isinstance(kafka, Mapping) else "")
    shown = every if len(every) <= SERVERS_CHARACTERS else every[: SERVERS_CHARACTERS + 1].rpartition(",")[0]
    return shown or every.partition(",")[0]
