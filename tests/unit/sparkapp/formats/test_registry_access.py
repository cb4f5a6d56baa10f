"""A registry with authentication, and a registry behind a private authority: over real HTTP and TLS."""

from __future__ import annotations

import logging
import ssl
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from localcluster.kubernetes.pki import Authority
from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.errors import (
    ConfigurationError,
    KafkaSparkJobError,
    SchemaRegistryAccessDenied,
    SchemaRegistryUnreachable,
    SchemaRegistryUntrusted,
)
from sparkapp.model.job.access.mounts import CERTIFICATE_FILE, KEY_FILE, PASSWORD_FILE, TOKEN_FILE, USER
from sparkapp.model.job.access.registry_access import (
    RegistryAccess,
    RegistryAuthentication,
    RegistryAuthenticationType,
)
from sparkapp.model.job.access.security import (
    CertificateAndKey,
    PasswordSecret,
    SecretKey,
    Tls,
    TrustedCertificate,
)
from sparkapp.model.report import encode_termination, termination_of
from sparkapp.source.formats.avro import AvroDecoder
from sparkapp.spark.failures import original_error, printed
from tests.support.kafka.schema_registry import basic, framed, registry
from tests.support.kafka.tls.certificates import CertificateAuthority

PASSWORD = 'pa55:wörd, "quoted"'
HEADER = basic("orders", PASSWORD)
BASIC = RegistryAuthentication(
    type=RegistryAuthenticationType.BASIC, username="orders",
    password_secret=PasswordSecret(secret_name="registry-user", password="pw"), allow_insecure=True,
)  # fmt: skip
BEARER = RegistryAuthentication(
    type=RegistryAuthenticationType.BEARER, access_token=SecretKey(secret_name="registry-user", key="pw"),
    allow_insecure=True,
)  # fmt: skip
TRUSTED = Tls(trusted_certificates=(TrustedCertificate(secret_name="registry-ca", certificate="ca"),))
Access = Callable[..., RegistryAccess]


@pytest.fixture
def access(tmp_path: Path) -> Access:
    """``access(url, content=…, kind=…)``: a registry with a user, whose secret is mounted as the operator does it."""

    def make(url: str, *, content: str | None = PASSWORD, bearer: bool = False) -> RegistryAccess:
        user = tmp_path / USER
        user.mkdir(exist_ok=True)
        if content is not None:
            (user / (TOKEN_FILE if bearer else PASSWORD_FILE)).write_text(content, encoding="utf-8")
        who = BEARER if bearer else BASIC
        return RegistryAccess(url=url, authentication=who, directory=str(tmp_path))

    return make


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("pki")
    return Authority(folder, folder / "log")


@pytest.mark.parametrize("content", [PASSWORD, PASSWORD + "\n"], ids=["as it is", "with a line's end"])
def test_a_user_with_a_password(access: Access, content: str) -> None:
    with registry(authorization=HEADER) as server:
        server.register("in-value", '"int"')
        assert SchemaRegistry(access(server.url, content=content)).latest("in-value").text == '"int"'
        assert server.seen == [HEADER]


def test_a_token(access: Access) -> None:
    with registry(authorization="Bearer a.b-c") as server:
        server.register("in-value", '"int"')
        client = SchemaRegistry(access(server.url, content="a.b-c\n", bearer=True))
        assert client.by_id(1).text == '"int"'


def test_a_secret_that_changed_is_used_with_the_next_question(access: Access) -> None:
    with registry(authorization=HEADER) as server:
        server.register("in-value", '"int"')
        client = SchemaRegistry(access(server.url))
        assert client.by_id(1).text == '"int"'
        server.authorization = basic("orders", "new")
        access(server.url, content="new")
        assert client.by_id(1).text == '"int"'


def test_wrong_credentials_end_the_attempt_at_the_first_answer(
    access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    """One request, an error with a reason and a remedy, which a restart with backoff repeats until it is repaired."""
    caplog.set_level(logging.DEBUG)
    with registry(authorization=basic("orders", "other")) as server:
        server.register("in-value", '"int"')
        with pytest.raises(SchemaRegistryAccessDenied, match="HTTP 401") as caught:
            SchemaRegistry(access(server.url)).latest("in-value")
        assert len(server.requests) == 1
    error = caught.value
    assert not error.fatal
    assert "spec.source.schemaRegistry.authentication" in error.remedy
    reported = encode_termination(termination_of(error, checkpoint_id=7)) + caplog.text + repr(error.__cause__)
    assert '"reason": "SchemaRegistryAccessDenied"' in reported
    assert PASSWORD not in reported
    assert HEADER.split()[1] not in reported


def test_a_registry_that_denies_a_schema_is_no_fault_of_the_record(access: Access) -> None:
    """Under Skip or DeadLetter as well: the records are read again when the credentials are right."""
    with registry(authorization=HEADER) as server:
        server.register("in-value", '"int"')
        decoder = AvroDecoder(SchemaRegistry(access(server.url, content="no")), '"int"', where="here")
        values = pa.array([framed(1, "int", 5)], pa.binary())
        with pytest.raises(SchemaRegistryAccessDenied):
            decoder.decode(values)
        access(server.url)
        column, errors = decoder.decode(values)
    assert (column.to_pylist(), errors) == ([5], [None])


@pytest.mark.parametrize(
    ("content", "bearer", "message"),
    [
        (None, False, "No such file"),
        (None, True, "No such file"),
        ("", True, "is empty"),
        ("two\nlines", True, "characters that a header cannot have"),
    ],
)
def test_an_unusable_secret_is_named_and_never_its_content(
    access: Access, content: str | None, bearer: bool, message: str
) -> None:
    with registry() as server:
        client = SchemaRegistry(access(server.url, content=content, bearer=bearer))
        with pytest.raises(ConfigurationError, match=message) as caught:
            client.by_id(1)
        assert server.requests == []
    assert "Secret registry-user under the key pw" in caught.value.remedy
    assert "two" not in str(caught.value)


def test_credentials_do_not_follow_to_another_host(access: Access) -> None:
    """Nothing does: the client follows no redirect, and the error says what to write instead."""
    with registry() as other, registry(authorization=HEADER) as server:
        other.register("in-value", '"int"')
        server.elsewhere = other.url
        with pytest.raises(
            SchemaRegistryUnreachable, match=r"HTTP 302 .*redirects are not followed: set url to"
        ) as caught:
            SchemaRegistry(access(server.url)).by_id(1)
        assert "spec.source.schemaRegistry.url" in caught.value.remedy
        assert server.seen == [HEADER]
        assert other.seen == []


def with_authority(url: str, authority: Authority, directory: Path) -> RegistryAccess:
    folder = directory / "ca-0"
    folder.mkdir(exist_ok=True)
    (folder / "ca").write_bytes(authority.pair.certificate.read_bytes())
    return RegistryAccess(url=url, tls=TRUSTED, directory=str(directory))


def test_a_private_authority_and_a_user(access: Access, authority: Authority, tmp_path: Path) -> None:
    certificate = authority.issue("registry", "/CN=registry", ["IP:127.0.0.1"])
    with registry(authorization=HEADER, certificate=certificate) as server:
        server.register("in-value", '"int"')
        trusted = with_authority(server.url, authority, tmp_path)
        both = replace(trusted, authentication=access(server.url).authentication)
        assert SchemaRegistry(both).by_id(1).text == '"int"'


@pytest.mark.parametrize("form", ["cafile", "capath"])
def test_without_an_authority_the_certificates_of_the_image_count(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A file or a folder of them, and not the ones that a Python package brings."""
    certificate = authority.issue(f"registry-{form}", "/CN=registry", ["IP:127.0.0.1"])
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.pair.certificate.read_bytes())
    if form == "capath":
        subprocess.run(["openssl", "rehash", str(tmp_path)], check=True, capture_output=True)
    found = {"cafile": None, "capath": None, form: str(file if form == "cafile" else tmp_path)}
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: SimpleNamespace(**found))
    with registry(certificate=certificate) as server:
        server.register("in-value", '"int"')
        assert SchemaRegistry(RegistryAccess(url=server.url)).by_id(1).text == '"int"'


@pytest.mark.parametrize(
    ("names", "trusted", "why"),
    [(["IP:127.0.0.1"], False, "self-signed|local issuer"), (["DNS:elsewhere"], True, "mismatch|not valid for")],
    ids=["another authority", "another host"],
)
def test_a_certificate_that_is_not_to_be_trusted_is_said_at_once(
    authority: Authority, tmp_path: Path, names: list[str], trusted: bool, why: str
) -> None:
    certificate = authority.issue("-".join(names).replace(":", "-"), "/CN=registry", names)
    with registry(certificate=certificate) as server:
        access = with_authority(server.url, authority, tmp_path) if trusted else RegistryAccess(url=server.url)
        began = time.monotonic()
        with pytest.raises(SchemaRegistryUntrusted, match=why) as caught:
            SchemaRegistry(access, timeout=60).by_id(1)
        assert time.monotonic() - began < 30, "it was asked once"
        assert server.requests == []
    assert "spec.source.schemaRegistry.tls.trustedCertificates" in caught.value.remedy


def test_certificates_that_are_none(tmp_path: Path) -> None:
    access = RegistryAccess(url="https://127.0.0.1:1", tls=TRUSTED, directory=str(tmp_path))
    with pytest.raises(ConfigurationError, match="the Secret registry-ca has no key ca") as caught:
        SchemaRegistry(access).by_id(1)
    assert "kubectl describe secret registry-ca" in caught.value.remedy
    (tmp_path / "ca-0").mkdir()
    (tmp_path / "ca-0/ca").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"of spec\.source\.schemaRegistry cannot be used"):
        SchemaRegistry(access).by_id(1)


def test_authorities_of_two_secrets_and_a_client_certificate(tmp_path: Path) -> None:
    """The registry asks for a certificate, and refuses one of another authority."""
    ours, other = CertificateAuthority(tmp_path / "pki"), CertificateAuthority(tmp_path / "other", name="other")
    server = ours.issue("registry", "127.0.0.1")
    for folder, source in (("ca-0", other), ("ca-1", ours)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ca.crt").write_bytes(source.certificate.read_bytes())
    tls = Tls(
        trusted_certificates=(
            TrustedCertificate(secret_name="a", certificate="ca.crt"), TrustedCertificate(secret_name="b", pattern="*"),
        )
    )  # fmt: skip
    who = RegistryAuthentication(
        type=RegistryAuthenticationType.TLS, certificate_and_key=CertificateAndKey(secret_name="orders")
    )
    (tmp_path / USER).mkdir()
    with registry(certificate=server, clients=ours.certificate) as found:
        found.register("in-value", '"int"')
        access = RegistryAccess(url=found.url, tls=tls, authentication=who, directory=str(tmp_path))
        for issuer, accepted in ((ours, True), (other, False)):
            pair = issuer.issue("orders")
            (tmp_path / USER / CERTIFICATE_FILE).write_bytes(pair.certificate.read_bytes())
            (tmp_path / USER / KEY_FILE).write_bytes(pair.key.read_bytes())
            if accepted:
                assert SchemaRegistry(access).by_id(1).text == '"int"'
            else:
                with pytest.raises(SchemaRegistryUnreachable):
                    SchemaRegistry(access, timeout=1.0).by_id(1)
        assert len(found.requests) == 1


@pytest.mark.parametrize("kind", [SchemaRegistryAccessDenied, SchemaRegistryUntrusted])
def test_an_error_crosses_from_an_executor_with_its_remedy(kind: type[KafkaSparkJobError]) -> None:
    found = original_error(f"Traceback …\n{printed(kind('it says HTTP 401'))}\n at org.apache")
    assert (type(found), found.message) == (kind, "it says HTTP 401")
    assert "spec.source.schemaRegistry" in found.remedy
