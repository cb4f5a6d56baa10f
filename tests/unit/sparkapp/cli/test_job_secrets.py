"""The job's credentials for a command of a person, from the Secrets that the person may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkapp.checkpoint.kubernetes import job_resource
from sparkapp.cli.job_secrets import job_security
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.errors import CommandRefused
from sparkapp.model.job.sections.kafka import KafkaCluster

SECRETS = {"ca": {"ca.crt": b"A", "b.crt": b"B"}, "orders": {"user.crt": b"CRT", "user.key": b"KEY"}}


def cluster(**fields: object) -> KafkaCluster:
    return read_part(KafkaCluster, Fields({"bootstrapServers": "b:1", **fields}, "spec.kafka"))


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_resource, "read_secret", lambda namespace, name, context: SECRETS[name])


def test_the_jobs_certificates_are_files_that_only_the_caller_reads() -> None:
    found = job_security(
        cluster(
            tls={"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}]},
            authentication={"type": "tls", "certificateAndKey": {"secretName": "orders"}},
        ),
        "shop",
    )
    assert found["ssl.ca.pem"] == "B\nA"
    key = Path(found["ssl.key.location"])
    assert key.read_bytes() == b"KEY"
    assert key.parent.parent.stat().st_mode & 0o077 == 0


def test_a_key_that_is_missing_is_named() -> None:
    password = {"type": "plain", "username": "u", "passwordSecret": {"secretName": "orders"}}
    with pytest.raises(CommandRefused, match="Secret shop/orders has no key 'password'"):
        job_security(cluster(tls={}, authentication=password), "shop")


def test_a_token_of_the_pods_is_not_the_persons() -> None:
    token = {"type": "oauth", "serviceAccountToken": {"audience": "kafka"}}
    with pytest.raises(CommandRefused, match="which only its pods have"):
        job_security(cluster(tls={}, authentication=token), "shop")


def test_a_cluster_without_secrets_reads_none() -> None:
    assert job_security(cluster(), "shop") == {}
