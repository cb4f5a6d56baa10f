"""``spec.kafka.tls`` and ``spec.kafka.authentication``: rules, mounted Secrets and the clients' properties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.access.mounts import SecretFolder, secret_folders
from sparkapp.model.job.client.properties import refused_property
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.codec import decode_job, encode_job
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource

CA = {"trustedCertificates": [{"secretName": "ca", "certificate": "ca.crt"}]}
SECRET = {"secretName": "orders"}
SCRAM = {"type": "scram-sha-512", "username": "orders", "passwordSecret": SECRET}
CLIENT = {
    "type": "oauth", "tokenEndpointUri": "https://id/token", "clientId": "orders",
    "clientSecret": {"secretName": "orders", "key": "secret"},
}  # fmt: skip
TOKEN = {"type": "oauth", "accessToken": {"secretName": "orders", "key": "token"}}
VERIFIED = {"enable.ssl.certificate.verification": "true", "ssl.endpoint.identification.algorithm": "https"}


def kafka(**fields: Any) -> KafkaCluster:
    """The cluster of a job, through the resource and the job's description."""
    resource = {"kafka": {"bootstrapServers": "b:1", **fields}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}}
    spec = spec_from_resource(resource, namespace="shop", name="orders")
    job = Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)
    assert decode_job(encode_job(job)) == job
    return spec.kafka


def mounted(root: Path, cluster: KafkaCluster, **secrets: dict[str, str]) -> Path:
    """The Secrets as the kubelet mounts them, with its links."""
    for folder, secret, items in secret_folders(cluster.tls, cluster.authentication):
        data = root / folder / "..data"
        data.mkdir(parents=True)
        for key, file in items or [(key, key) for key in secrets[secret]]:
            if key in secrets[secret]:
                (data / file).write_text(secrets[secret][key], encoding="utf-8")
                (root / folder / file).symlink_to(Path("..data") / file)
    return root


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tls": {}, "authentication": {**CLIENT, "tokenEndpointUri": "https://u:p@id/"}}, "without user and password"),
        ({"tls": {"trustedCertificates": [{"secretName": "c", "pattern": "*"}] * 9}}, "at most 8"),
        ({"tls": {"trustedCertificates": [{"certificate": "c"}]}}, "trustedCertificates[0].secretName is missing"),
        ({"tls": {}, "authentication": {"username": "u"}}, "type is missing"),
    ],
)
def test_a_cluster_that_is_refused_with_field_and_cause(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        kafka(**fields)
    assert caught.value.message.startswith("spec.kafka.")
    assert message in f"{caught.value.message}; {caught.value.remedy}"


def test_a_cluster_without_tls_and_authentication_adds_nothing() -> None:
    assert read_security(kafka()) == {}


def test_tls_with_the_images_authorities() -> None:
    assert read_security(kafka(tls={})) == {"security.protocol": "SSL", **VERIFIED}


def test_every_trusted_certificate_is_in_one_text(tmp_path: Path) -> None:
    cluster = kafka(
        tls={
            "trustedCertificates": [
                {"secretName": "ca", "certificate": "ca.crt"}, {"secretName": "more", "pattern": "*.crt"},
            ]
        }
    )  # fmt: skip
    root = mounted(tmp_path, cluster, ca={"ca.crt": "A\n"}, more={"b.crt": "B\n", "a.crt": "C\n", "user.key": "KEY"})
    assert read_security(cluster, root)["ssl.ca.pem"] == "A\n\nC\n\nB\n"


def test_the_secret_of_a_kafka_user_with_a_certificate(tmp_path: Path) -> None:
    cluster = kafka(tls=CA, authentication={"type": "tls", "certificateAndKey": SECRET})
    user = {"ca.crt": "clients", "user.crt": "CRT", "user.key": "KEY", "user.p12": "x", "user.password": "y"}
    root = mounted(tmp_path, cluster, ca={"ca.crt": "A"}, orders=user)
    assert read_security(cluster, root) == {
        "security.protocol": "SSL", **VERIFIED, "ssl.ca.pem": "A",
        "ssl.certificate.location": str(root / "user/user.crt"), "ssl.key.location": str(root / "user/user.key"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "mechanism"),
    [("plain", "PLAIN"), ("scram-sha-256", "SCRAM-SHA-256"), ("scram-sha-512", "SCRAM-SHA-512")],
)
def test_the_secret_of_a_kafka_user_with_a_password(tmp_path: Path, kind: str, mechanism: str) -> None:
    cluster = kafka(tls={}, authentication={**SCRAM, "type": kind})
    root = mounted(tmp_path, cluster, orders={"password": "pa55\n", "sasl.jaas.config": "…"})
    assert read_security(cluster, root) == {
        "security.protocol": "SASL_SSL", **VERIFIED, "sasl.mechanism": mechanism, "sasl.username": "orders",
        "sasl.password": "pa55",
    }  # fmt: skip


def test_a_password_without_tls_on_purpose(tmp_path: Path) -> None:
    cluster = kafka(authentication={**SCRAM, "allowInsecure": True})
    root = mounted(tmp_path, cluster, orders={"password": "pa55"})
    found = read_security(cluster, root)
    assert found["security.protocol"] == "SASL_PLAINTEXT"
    assert not any("ssl" in name for name in found)


def test_a_token_source_names_files_and_no_secret(tmp_path: Path) -> None:
    cluster = kafka(
        tls={}, authentication={**CLIENT, "audience": "kafka", "tlsTrustedCertificates": CA["trustedCertificates"]}
    )
    root = mounted(tmp_path, cluster, ca={"ca.crt": "A"}, orders={"secret": "hunter2"})
    found = read_security(cluster, root)
    assert (found["sasl.mechanism"], found["security.protocol"]) == ("OAUTHBEARER", "SASL_SSL")
    assert json.loads(found["sasl.oauthbearer.config"]) == {
        "tokenEndpointUri": "https://id/token", "clientId": "orders", "scope": "", "audience": "kafka",
        "clientSecretFile": str(root / "user/client-secret"), "trustedFiles": [str(root / "oauth-ca-0/ca.crt")],
    }  # fmt: skip
    assert "hunter2" not in json.dumps(found)
    of_file = read_security(kafka(tls={}, authentication=TOKEN), root)
    assert json.loads(of_file["sasl.oauthbearer.config"]) == {"tokenFile": str(root / "user/token")}


@pytest.mark.parametrize(
    ("fields", "secrets", "message"),
    [
        ({"tls": CA}, {"ca": {}}, "the Secret ca has no key ca.crt"),
        ({"tls": CA}, {"ca": {"ca.crt": " \n"}}, "ca.crt of spec.kafka.tls.trustedCertificates is empty"),
        ({"tls": {}, "authentication": SCRAM}, {"orders": {}}, "passwordSecret cannot be read: No such file"),
        ({"tls": {}, "authentication": SCRAM}, {"orders": {"password": "\n"}}, "passwordSecret is empty"),
        (
            {"tls": {}, "authentication": {"type": "tls", "certificateAndKey": SECRET}},
            {"orders": {"user.crt": "x"}},
            "user.key of spec.kafka.authentication.certificateAndKey cannot be read",
        ),
    ],
)
def test_a_secret_that_lacks_something(
    tmp_path: Path, fields: dict[str, Any], secrets: dict[str, dict[str, str]], message: str
) -> None:
    cluster = kafka(**fields)
    with pytest.raises(ConfigurationError) as caught:
        read_security(cluster, mounted(tmp_path, cluster, **secrets))
    assert message in caught.value.message
    assert "secret" in caught.value.remedy.lower()


def test_a_pattern_mounts_the_whole_secret_and_a_key_mounts_itself() -> None:
    cluster = kafka(tls={"trustedCertificates": [*CA["trustedCertificates"], {"secretName": "more", "pattern": "*"}]})
    assert secret_folders(cluster.tls, None) == (
        SecretFolder("ca-0", "ca", (("ca.crt", "ca.crt"),)), SecretFolder("ca-1", "more", ()),
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.engine.location", "ssl.providers",
        "ssl.endpoint.identification.algorithm", "SSL.Endpoint.Identification.Algorithm",
        "enable.ssl.certificate.verification", "https.ca.location", "ssl.truststore.location",
    ],
)  # fmt: skip
def test_a_property_that_could_weaken_tls_is_refused(name: str) -> None:
    assert "use spec.kafka.tls" in str(refused_property(name))


def test_outside_of_a_pod_a_variable_names_the_folder_for_driver_and_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = kafka(tls={}, authentication=SCRAM)
    mounted(tmp_path, cluster, orders={"password": "pa55"})
    with pytest.raises(ConfigurationError, match="No such file"):
        read_security(cluster)
    monkeypatch.setenv("KAFKASPARK_CREDENTIALS", str(tmp_path))
    assert read_security(cluster)["sasl.password"] == "pa55"
