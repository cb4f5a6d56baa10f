"""The job as JSON text of the attempt's ConfigMap: written by the operator, read by the driver.

Operator and image may be of two releases. A field that the job does not use makes no difference
(:mod:`sparkapp.model.encoding.json_parts`). The image refuses a field that the job uses and the image does not know.
"""

from __future__ import annotations

import json

from sparkapp.model.encoding.json_parts import UnknownPart, decode_part, encode_part
from sparkapp.model.errors import ReleaseMismatch
from sparkapp.model.job.rules.spec_rules import check_spec
from sparkapp.model.job.spec import Job

FORMAT = 2
"""The format that this release writes and reads, in :data:`FORMAT_KEY`. A new field needs no new format.

Format 1 had no number. It was the format of v1alpha1, with other names and values (ADR 37).
"""
FORMAT_KEY = "format_version"


def encode_job(job: Job) -> str:
    """The job as JSON text for the attempt's ConfigMap; called by the operator.

    It has the fields that differ from their defaults.
    """
    body = {FORMAT_KEY: FORMAT, **encode_part(job)}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def decode_job(text: str) -> Job:
    """Reads a job back in the driver, from an operator of any release.

    :raises ReleaseMismatch: the text uses an unknown field, or is damaged.
    :raises ConfigurationError: the job breaks a rule of this release.
    """
    try:
        body = json.loads(text)
        if isinstance(body, dict):
            _check_format(body.pop(FORMAT_KEY, 1))
        job = decode_part(Job, body, "")
    except UnknownPart as error:
        msg = f"this image is older than the operator: it does not know {error.names}"
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
        raise UnknownPart(msg, msg)
    if number < FORMAT:
        msg = (
            f"this image is newer than the operator: the description has format {number}, and this image reads {FORMAT}"
        )
        raise ReleaseMismatch(msg)
