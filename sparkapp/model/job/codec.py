"""The job as JSON text of the attempt's ConfigMap: written by the operator, read by the driver.

Operator and image may be of two releases. A field that the job does not use makes no difference
(:mod:`sparkapp.model.encoding.description`). The image refuses a field that the job uses and the image does not know.
"""

from __future__ import annotations

import json

from sparkapp.model.encoding.description import UnknownPart, decode_part, encode_part
from sparkapp.model.errors import ReleaseMismatch
from sparkapp.model.job.group_membership import MembershipOptions
from sparkapp.model.job.record_errors import RecordErrors
from sparkapp.model.job.registry_access import RegistryAccess, RegistryAuthentication
from sparkapp.model.job.rules import check_spec
from sparkapp.model.job.spec import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.job.startup import Startup, Stopping

FORMAT = 1
"""The newest format that this release reads, and the format that it writes.

A new field needs no new format. A later format that older images cannot read writes its number as :data:`FORMAT_KEY`.
The first format does not, because the first images refuse every unknown name.
"""
FORMAT_KEY = "format_version"

_NEEDED_BY_FIRST_IMAGES = {
    JobSpec: frozenset({"retention", "restore", "record_errors"}),
    KafkaCluster: frozenset({"authentication"}),
    Source: frozenset(
        {
            "topics", "partitions", "startup", "stopping", "on_topic_deleted", "data_loss_policy", "offset_commit",
            "isolation_level", "key_format", "value_format", "schema_registry", "group_membership",
        }
    ),
    Startup: frozenset({"mode", "on_missing", "timestamp_millis", "specific_offsets"}),
    Stopping: frozenset({"mode", "timestamp_millis", "specific_offsets", "predicate"}),
    RegistryAccess: frozenset({"authentication", "authority"}),
    RegistryAuthentication: frozenset({"type"}),
    MembershipOptions: frozenset({"mode", "assignor"}),
    Transform: frozenset({"output_mode"}),
    Sink: frozenset({"topic_from", "partitioner", "semantic", "transaction_naming"}),
    RecordErrors: frozenset({"policy"}),
}  # fmt: skip
"""Fields for which the first images have no default, because operators then wrote every field. It never grows."""


def encode_job(job: Job) -> str:
    """The job as JSON text for the attempt's ConfigMap; called by the operator.

    It has the fields that differ from their defaults, and those that the first images need.
    """
    body = encode_part(job, always=_NEEDED_BY_FIRST_IMAGES)
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def decode_job(text: str) -> Job:
    """Reads a job back in the driver, from an operator of any release.

    :raises ReleaseMismatch: the text uses an unknown field, or is damaged.
    :raises ConfigurationError: the job breaks a rule of this release.
    """
    try:
        body = json.loads(text)
        if isinstance(body, dict) and FORMAT_KEY in body:
            _check_format(body.pop(FORMAT_KEY))
        job = decode_part(Job, body, "")
    except UnknownPart as error:
        msg = f"this image is older than the operator: it does not know {error}"
        raise ReleaseMismatch(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"the job description is not one of this release: {error}"
        raise ReleaseMismatch(msg) from error
    assert isinstance(job, Job)
    check_spec(job.spec)
    return job


def _check_format(number: object) -> None:
    if type(number) is not int or number < 1:
        msg = f"{FORMAT_KEY} is {number!r}"
        raise ValueError(msg)
    if number > FORMAT:
        msg = f"the description has format {number}, and this image reads up to {FORMAT}"
        raise UnknownPart(msg)
