"""The job's own credentials for a command of a person: its Secrets as files, as the pods have them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from sparkapp.model.errors import CommandRefused
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.sections.kafka import KafkaCluster

_REMEDY = "give the credentials with --config FILE"


def job_security(kafka: KafkaCluster, namespace: str, context: str = "") -> dict[str, str]:
    """The properties of the job's TLS and authentication, by the caller's right to read its Secrets.

    The files are in a folder that only this user may read, until the command ends. Called for ``txn`` commands.

    :param context: of the kubeconfig.
    :raises CommandRefused: a Secret cannot be read, or lacks a key; or the token is of the job's service account.
    """
    if kafka.has_own_token:
        msg = "the job authenticates with a token of its service account, which only its pods have"
        raise CommandRefused(msg, remedy=_REMEDY)
    folders = kafka.folders
    if not folders:
        return read_security(kafka)
    from sparkapp.checkpoint.kubernetes.job_resource import read_secret

    root = Path(tempfile.mkdtemp(prefix="kafkaspark-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for folder, secret_name, items in folders:
        keys = read_secret(namespace, secret_name, context)
        (root / folder).mkdir(mode=0o700)
        for key, file in items or tuple((key, key) for key in keys):
            if key not in keys:
                msg = f"Secret {namespace}/{secret_name} has no key {key!r}"
                raise CommandRefused(msg, remedy=_REMEDY)
            (root / folder / file).write_bytes(keys[key])
    return read_security(kafka, root)
