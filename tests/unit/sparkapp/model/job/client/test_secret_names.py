"""Names that stand for a secret, as a resource may spell them in properties, Spark settings and variables."""

from __future__ import annotations

import base64
import json

import pytest

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.client.properties import check_properties, refused_property
from sparkapp.model.job.client.secret_names import carries_secret, names_secret

LIBRDKAFKA = (
    "ssl.key.pem", "ssl.key.password", "ssl.keystore.password", "sasl.password", "sasl.jaas.config",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
)  # fmt: skip
JAVA_CLIENT = ("ssl.keystore.key", "ssl.truststore.password", "basic.auth.user.info.password")
SPARK = (
    "spark.ssl.keyPassword", "spark.ssl.keyStorePassword", "spark.ssl.trustStorePassword",
    "spark.ssl.historyServer.keyStorePassword", "spark.ssl.rpc.privateKeyPassword", "spark.authenticate.secret",
    "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.session.token",
    "spark.hadoop.fs.s3a.encryption.key", "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.client.secret", "spark.hadoop.fs.azure.sas.in.shop.blob.core.windows.net",
    "spark.hadoop.fs.gs.auth.service.account.private.key", "spark.kafka.clusters.shop.ssl.key.password",
    "spark.kafka.clusters.shop.ssl.truststore.password", "spark.sql.catalog.shop.password",
)  # fmt: skip
VARIABLES = (
    "KAFKA_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "API_KEY", "OPENAI_API_KEY", "AZURE_STORAGE_ACCOUNT_KEY", "KEY_PASSPHRASE", "SASL_JAAS_CONFIG", "PrivateKey",
    "CLIENT_SECRET", "ENCRYPTION_KEY", "SSL_KEY_PEM", "VAULT_SECRET_ID",
)  # fmt: skip
HARMLESS = (
    "ssl.certificate.pem", "ssl.ca.pem", "ssl.ca.location", "ssl.key.location", "ssl.keystore.location",
    "enable.ssl.certificate.verification", "compression.type", "client.rack", "message.key.encoding",
    "spark.ssl.keyStore", "spark.ssl.rpc.privateKey", "spark.hadoop.fs.s3a.aws.credentials.provider",
    "spark.hadoop.fs.azure.account.keyprovider.shop.blob.core.windows.net", "spark.kerberos.keytab",
    "spark.hadoop.hadoop.security.credential.provider.path", "spark.sql.shuffle.partitions",
    "spark.serializer.objectStreamReset", "spark.hadoop.fs.azure.account.auth.type",
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "PASSWORD_FILE", "TOKEN_URL", "SECRET_NAME", "PWD",
    "TOKENIZERS_PARALLELISM", "COMPASS", "KEY_COLUMN", "BYPASS", "PASSENGERS_TOPIC", "MONKEY", "PRIMARY_KEY",
)  # fmt: skip

PEM = "-----BEGIN PRIVATE KEY-----\\nMIIEvQ\\n-----END PRIVATE KEY-----"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
KEYS = (
    PEM, PEM.replace(" PRIVATE", " RSA PRIVATE"), PEM.replace(" PRIVATE", " ENCRYPTED PRIVATE"),
    "-----BEGIN OPENSSH PRIVATE KEY-----", "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    base64.b64encode(PEM.encode()).decode(), f"{CERTIFICATE}\n{PEM}",
    base64.b64encode(f"{CERTIFICATE}\n{PEM}".encode()).decode(),
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";',
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientSecret='hunter2';",
    AWS_SECRET, f"AKIAIOSFODNN7EXAMPLE:{AWS_SECRET}", f"key {AWS_SECRET}",
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "GOCSPX-abcdefghijklmnopqrstuvwxyz01",
    json.dumps({"type": "service_account", "private_key_id": "1", "private_key": PEM}),
)  # fmt: skip


@pytest.mark.parametrize("name", [*LIBRDKAFKA, *JAVA_CLIENT, *SPARK, *VARIABLES])
def test_a_name_of_a_secret_in_any_case(name: str) -> None:
    assert names_secret(name)
    assert names_secret(name.upper())
    assert names_secret(name.lower())
    assert names_secret(name.swapcase())


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_of_no_secret(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize("name", [*LIBRDKAFKA, *JAVA_CLIENT, "SASL.PASSWORD", "Ssl.Key.Pem", "Security.Protocol"])
def test_a_client_property_with_a_secret_is_refused_with_its_field(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_properties("spec.sink.properties", {name: "x"})
    assert name in caught.value.message
    assert "Secret" in caught.value.message
    assert "x" not in caught.value.message.split()


@pytest.mark.parametrize("name", ["ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list", "fetch.max.bytes"])
def test_a_client_property_without_a_secret_is_accepted(name: str) -> None:
    assert refused_property(name) is None


@pytest.mark.parametrize(
    "value",
    [
        "-Djavax.net.ssl.keyStorePassword=hunter2", "-XX:+UseG1GC -Dspark.ssl.KEYPASSWORD=hunter2 -Dx=y",
        "'-Djavax.net.ssl.trustStorePassword=hunter2'", "http://user:hunter2@proxy:3128", "a=1,amqps://u:p@host/x",
        *KEYS, f"--key={PEM}", f'{{"key": "{PEM}"}}',
        "jdbc:postgresql://db/shop?user=me&password=hunter2", "Server=db;Pwd=hunter2;", "db.password: x, password=h",
        "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=aHVudGVyMg==;EndpointSuffix=core.windows.net",
    ],
)  # fmt: skip
def test_a_value_that_carries_a_secret(value: str) -> None:
    assert carries_secret(value)


@pytest.mark.parametrize(
    "value",
    [
        "-Djavax.net.ssl.keyStore=/x/store", "-Dlog4j.level=DEBUG", "http://proxy:3128", "host:9092,other:9092",
        "http://user@proxy", "a:b@c", "", CERTIFICATE, base64.b64encode(CERTIFICATE.encode()).decode(),
        "-----BEGIN PUBLIC KEY-----", "password=$(DB_PASSWORD)", "jdbc:postgresql://db/shop?password=${PASSWORD}",
        "password=", "the password=, of nobody", "--max-tokens=512", "AccountName=shop", "x=1&y=2",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709", "sha256:" + "aB3/" * 16, "/opt/Jobs2024/in/Data3/table/ABCxyz/part",
        "LS0tLS1CRUdJTi", "org.apache.spark.security.PlainLoginModuleFactory", "a" * 40, "AKIAIOSFODNN7EXAMPLE",
    ],
)  # fmt: skip
def test_a_value_that_carries_no_secret(value: str) -> None:
    assert not carries_secret(value)


def test_a_long_value_is_judged_in_time_that_grows_with_its_length() -> None:
    # Values have at most 4096 characters; each of these is the start of many matches that fail.
    for part in (
        "-D",
        "://a",
        "-Da.",
        "http://u:",
        "pass.",
        "a=",
        "-----BEGIN ",
        "LS0tLS1CRUdJTi",
        "aB3",
        "LoginModule ",
    ):
        assert not carries_secret(part * 100_000)
