"""The watch of mounted credentials: when it asks for a drain, and when the clients keep what they have."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparkapp.clients.security import rotation
from sparkapp.clients.security.mounted import check_usable, mounted_securities
from sparkapp.clients.security.rotation import CredentialsWatch
from sparkapp.model.errors import AuthenticationFailed, CredentialsUnusable, KafkaSparkJobError
from sparkapp.model.job.access.security import (
    Authentication,
    AuthenticationType,
    CertificateAndKey,
    PasswordSecret,
    SecretKey,
    Tls,
    TrustedCertificate,
)
from sparkapp.model.job.client.config import OfClusters
from sparkapp.model.job.sections.kafka import KafkaCluster
from tests.support.jobs.plain_job import plain_spec
from tests.support.kafka.tls.certificates import CertificateAuthority

SCRAM = Authentication(
    type=AuthenticationType.SCRAM_SHA_512, username="job", password_secret=PasswordSecret(secret_name="job")
)
MTLS = Authentication(type=AuthenticationType.TLS, certificate_and_key=CertificateAndKey(secret_name="job"))
OAUTH = Authentication(
    type=AuthenticationType.OAUTH, token_endpoint_uri="https://id/token", client_id="job",
    client_secret=SecretKey(secret_name="job", key="secret"),
)  # fmt: skip


@dataclass
class Mount:
    """The mounted Secrets of one job, its watch, and brokers that accept one password."""

    folder: Path
    authentication: Authentication = SCRAM
    accepted: str = "old"
    changes: int = 0
    refusals: list[KafkaSparkJobError] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        for name in ("ca-0", "user"):
            (self.folder / name).mkdir()
        self.authority = CertificateAuthority(self.folder / "pki")
        self.trust(self.authority)
        self.issue(self.authority)
        self.password("old")
        (self.folder / "user/client-secret").write_text("s")
        trusted = (TrustedCertificate(secret_name="ca", pattern="*.crt"),)
        self.kafka = KafkaCluster(
            bootstrap_servers="b:9093", tls=Tls(trusted_certificates=trusted), authentication=self.authentication
        )
        self.watch = CredentialsWatch(
            read=self.read, current=self.read(), check=self.check, changed=self.changed,
            refused=self.refusals.append,
        )  # fmt: skip

    def read(self) -> OfClusters:
        return mounted_securities(plain_spec(kafka=self.kafka), self.folder)

    def password(self, value: str) -> None:
        (self.folder / "user/password").write_text(value)

    def trust(self, *authorities: CertificateAuthority) -> None:
        text = "".join(authority.certificate.read_text() for authority in authorities)
        (self.folder / "ca-0/ca.crt").write_text(text)

    def issue(self, authority: CertificateAuthority) -> None:
        pair = authority.issue("job")
        (self.folder / "user/user.crt").write_bytes(pair.certificate.read_bytes())
        (self.folder / "user/user.key").write_bytes(pair.key.read_bytes())

    def check(self, security: OfClusters) -> None:
        for properties in security:
            check_usable(properties)
        self.connections += 1
        if any(self.accepted != each.get("sasl.password", self.accepted) for each in security):
            raise AuthenticationFailed("wrong password")

    def changed(self) -> None:
        self.changes += 1

    def look(self, times: int = 2) -> None:
        for _ in range(times):
            self.watch.look()


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path)


def test_unchanged_files_ask_for_nothing(mount: Mount) -> None:
    mount.password("old")
    mount.look(5)
    assert (mount.changes, mount.connections, mount.refusals) == (0, 0, [])


def test_new_content_counts_when_two_looks_find_it_and_once(mount: Mount) -> None:
    mount.password("new")
    mount.accepted = "new"
    mount.look(1)
    assert mount.changes == 0
    mount.look(3)
    assert (mount.changes, mount.connections) == (1, 1)


def test_several_changes_in_a_row_are_one(mount: Mount) -> None:
    mount.accepted = "new"
    for value in ("a", "b", "c", "new"):
        mount.password(value)
        mount.look(1)
    mount.look(1)
    assert (mount.changes, mount.connections, mount.refusals) == (1, 1, [])


def test_a_change_that_is_taken_back_is_none(mount: Mount) -> None:
    for value in ("new", "old", "new", "old"):
        mount.password(value)
        mount.look(1)
    mount.look(3)
    assert (mount.changes, mount.connections) == (0, 0)


def test_content_that_the_brokers_refuse_is_told_once_and_tried_again_at_intervals(
    mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount.password("new")
    mount.look(5)
    assert (mount.changes, mount.connections) == (0, 1)
    assert [error.reason for error in mount.refusals] == ["AuthenticationFailed"]
    monkeypatch.setattr(rotation, "TRY_SECONDS", 0)
    mount.password("newer")
    mount.look(2)
    mount.look(3)
    assert (mount.connections, len(mount.refusals)) == (5, 2)
    mount.accepted = "newer"
    mount.look(1)
    assert mount.changes == 1


@pytest.mark.parametrize("spoilt", ["missing", "empty"])
def test_a_secret_that_is_not_complete_is_told_once_and_the_mended_secret_counts(mount: Mount, spoilt: str) -> None:
    file = mount.folder / "user/password"
    file.unlink() if spoilt == "missing" else file.write_text("")
    mount.look(4)
    assert [error.reason for error in mount.refusals] == ["CredentialsUnusable"]
    assert mount.connections == 0
    mount.password("new")
    mount.accepted = "new"
    mount.look()
    assert mount.changes == 1


def test_a_secret_that_is_mended_to_what_it_was_changes_nothing(mount: Mount) -> None:
    (mount.folder / "user/password").unlink()
    mount.look()
    mount.password("old")
    mount.look()
    assert (mount.changes, len(mount.refusals)) == (0, 1)


def test_a_new_authority_counts_with_the_old_one_and_alone(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    second = CertificateAuthority(tmp_path / "second", name="second")
    seen = [mount.read()]
    for trusted in ((mount.authority, second), (second,)):
        mount.trust(*trusted)
        seen.append(mount.read())
    assert all(each != other for each, other in itertools.combinations(seen, 2))


def test_a_new_certificate_with_its_key_counts(tmp_path: Path) -> None:
    mount = Mount(tmp_path, authentication=MTLS)
    mount.issue(mount.authority)
    mount.look()
    assert mount.changes == 1


def test_clients_keep_the_certificate_that_they_began_with(tmp_path: Path) -> None:
    """librdkafka reads the files again for each client, and a job creates clients all the time."""
    mount = Mount(tmp_path, authentication=MTLS)
    names = ("ssl.certificate.location", "ssl.key.location")
    before = mount.read().source
    content = [Path(before[name]).read_bytes() for name in names]
    mount.issue(mount.authority)
    after = mount.read().source
    assert [Path(before[name]).read_bytes() for name in names] == content
    for security in (before, after, mount.read().source):
        check_usable(security)
    assert all(before[name] != after[name] for name in names)
    assert mount.read().source == after


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    mount = Mount(tmp_path, authentication=MTLS)
    (mount.folder / "user/user.key").write_bytes(mount.authority.issue("other").key.read_bytes())
    mount.look()
    assert [type(error) for error in mount.refusals] == [CredentialsUnusable]


@pytest.mark.parametrize("text", ["no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_authority_that_is_no_certificate_is_refused_and_not_fatal(mount: Mount, text: str) -> None:
    (mount.folder / "ca-0/ca.crt").write_text(text)
    mount.look()
    assert [(type(error), error.fatal) for error in mount.refusals] == [(CredentialsUnusable, False)]


def test_what_clients_read_for_each_token_asks_for_no_drain(tmp_path: Path) -> None:
    mount = Mount(tmp_path, authentication=OAUTH)
    for value in itertools.islice(itertools.cycle("abc"), 6):
        (mount.folder / "user/client-secret").write_text(value)
        mount.look()
    assert (mount.changes, mount.connections) == (0, 0)
