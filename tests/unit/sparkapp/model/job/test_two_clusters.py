"""``spec.sink.kafka``: what a job with two clusters may have, who asks which cluster, and where its Secrets are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import ConfigurationError, CredentialsUnusable
from sparkapp.model.job.client.config import OfClusters, client_configs
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.codec import decode_job, encode_job
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource

PASSWORD = {
    "tls": {"trustedCertificates": [{"secretName": "ca", "certificate": "ca.crt"}]},
    "authentication": {"type": "plain", "username": "u", "passwordSecret": {"secretName": "p"}},
}


def job(
    of_source: dict[str, Any] | None = None, of_sink: dict[str, Any] | None = None,
    sink: dict[str, Any] | None = None, **fields: Any,
) -> Job:  # fmt: skip
    """A job from cluster a to cluster b, through the resource and the job's description.

    :param of_source: further fields of ``spec.kafka``. :param of_sink: of ``spec.sink.kafka``.
    :param sink: further fields of the sink. :param fields: of the resource.
    """
    resource = {
        "kafka": {"bootstrapServers": "a:1", **(of_source or {})},
        "source": {"topics": ["in"]},
        "sink": {"topic": "out", "kafka": {"bootstrapServers": "b:1", **(of_sink or {})}, **(sink or {})},
        **fields,
    }
    spec = spec_from_resource(resource, namespace="shop", name="orders")
    made = Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)
    assert decode_job(encode_job(made)) == made
    return made


def test_each_client_has_the_brokers_of_its_cluster() -> None:
    configs = client_configs(job(), OfClusters({"sasl.username": "a"}, {"sasl.username": "b"}))
    assert (configs.source["bootstrap.servers"], configs.source["sasl.username"]) == ("a:1", "a")
    assert (configs.sink["bootstrap.servers"], configs.sink["sasl.username"]) == ("b:1", "b")
    assert "group.id" not in configs.sink


@pytest.mark.parametrize(
    ("choice", "guarantee", "mode"),
    [
        ("InTransaction", "ExactlyOnce", OffsetCommitMode.ON_CHECKPOINTS),
        ("InTransaction", "AtLeastOnce", OffsetCommitMode.ON_CHECKPOINTS),
        ("OnCheckpoint", "ExactlyOnce", OffsetCommitMode.ON_CHECKPOINTS),
        ("Disabled", "ExactlyOnce", OffsetCommitMode.DISABLED),
    ],
)
def test_no_transaction_has_offsets_of_another_cluster(choice: str, guarantee: str, mode: OffsetCommitMode) -> None:
    source = {"topics": ["in"], "offsetCommit": choice}
    assert job(source=source, sink={"deliveryGuarantee": guarantee}).spec.offset_commit_mode is mode


def test_a_topic_of_the_sink_may_have_the_name_of_a_source_topic() -> None:
    assert job(sink={"topic": "in"}).spec.sink.topic == "in"
    letters = {"onRecordError": "DeadLetter", "deadLetter": {"topic": "in"}}
    source = {"topics": ["in"], "format": {"value": "json", "valueSchema": "n INT"}}
    assert job(source=source, **letters).spec.record_errors.topics == ("in",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"engine": "Continuous", "checkpoint": {"commitIntervalMillis": 50}},
            "spec.checkpoint.commitIntervalMillis needs the group's offsets in the transactions, and sink.kafka is",
        ),
        ({"of_sink": {"bootstrapServers": None}}, "spec.sink.kafka.bootstrapServers is missing"),
        (
            {"of_sink": {"authentication": PASSWORD["authentication"]}},
            "spec.sink.kafka.authentication without sink.kafka.tls would show credentials",
        ),
        (
            {"of_sink": {**PASSWORD, "authentication": {"type": "tls"}}},
            "spec.sink.kafka.authentication.certificateAndKey is needed with type: tls",
        ),
    ],
)
def test_what_is_refused_names_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        job(**fields)
    assert caught.value.message.startswith(message)


def test_the_secrets_of_the_sink_have_folders_of_their_own(tmp_path: Path) -> None:
    spec = job(PASSWORD, PASSWORD).spec
    folders = [folder.folder for cluster in spec.clusters for folder in cluster.folders]
    assert folders == ["ca-0", "user", "sink-ca-0", "sink-user"]
    for folder in folders:
        (tmp_path / folder).mkdir()
        file = "ca.crt" if "ca" in folder else "password"
        (tmp_path / folder / file).write_text(f"of {folder}")
    for cluster, prefix in zip(spec.clusters, ("", "sink-"), strict=True):
        found = read_security(cluster, tmp_path)
        assert (found["ssl.ca.pem"], found["sasl.password"]) == (f"of {prefix}ca-0", f"of {prefix}user")


def test_a_secret_of_the_sink_that_is_missing_is_named_by_its_field(tmp_path: Path) -> None:
    spec = job(of_sink=PASSWORD).spec
    with pytest.raises(CredentialsUnusable, match=r"spec\.sink\.kafka\.tls\.trustedCertificates"):
        read_security(spec.sink_cluster, tmp_path)
