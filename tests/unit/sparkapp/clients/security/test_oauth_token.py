"""Tokens of files and of an authorization server, over real HTTP and TLS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkapp.clients.security.oauth_token import token_of, with_token_callback
from sparkapp.model.errors import AuthenticationFailed
from tests.support.kafka.tls.certificates import CertificateAuthority
from tests.support.kafka.tls.token_server import TokenIssuer, token_server

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


def of_file(file: Path) -> str:
    return json.dumps({"tokenFile": str(file)})


def of_server(url: str, secret: Path, *trusted: Path, **fields: str) -> str:
    return json.dumps(
        {
            "tokenEndpointUri": url, "clientId": "orders/1", "clientSecretFile": str(secret), "scope": "",
            "audience": "",
            "trustedFiles": [str(file) for file in trusted], **fields,
        }
    )  # fmt: skip


def test_a_token_of_a_file_is_read_again_each_time(tmp_path: Path, issuer: TokenIssuer) -> None:
    file = tmp_path / "token"
    for subject in ("first", "second"):
        value = issuer.token(subject)
        file.write_text(value + "\n")
        token = token_of(of_file(file))
        assert (token.value, token.principal) == (value, subject)


def test_a_token_that_says_nothing_of_its_end_is_read_again_soon(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for opaque in ("abc", "a.b.c", "a.e30.c"):
        file.write_text(opaque)
        assert token_of(of_file(file), lambda: NOW).expires_at == NOW + 300


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), ("", "is empty"), ("tökén", "it is not text in ASCII")]
)
def test_a_file_without_a_token(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(AuthenticationFailed, match=message):
        token_of(of_file(file))


def test_a_token_that_has_expired(tmp_path: Path, issuer: TokenIssuer) -> None:
    file = tmp_path / "token"
    file.write_text(issuer.token("orders", lifetime=-60))
    with pytest.raises(AuthenticationFailed, match=r"expired 6\d s ago"):
        token_of(of_file(file))


def test_a_token_of_a_server_for_a_secret_that_changes(tmp_path: Path, issuer: TokenIssuer) -> None:
    authority = CertificateAuthority(tmp_path / "pki")
    secret = tmp_path / "secret"
    server = authority.issue("server", "127.0.0.1")
    with token_server(issuer, {"orders/1": "fürst:1"}, certificate=server) as found:
        secret.write_text("fürst:1\n", encoding="utf-8")
        config = of_server(found.url, secret, authority.certificate, scope="kafka", audience="brokers")
        token = token_of(config, lambda: NOW)
        assert (token.expires_at, token.principal) == (NOW + 300, "orders/1")
        assert found.forms == [{"grant_type": "client_credentials", "scope": "kafka", "audience": "brokers"}]
        found.secrets["orders/1"] = "next"
        with pytest.raises(AuthenticationFailed, match="the server answered 401") as caught:
            token_of(config)
        assert "rst:1" not in str(caught.value)
        secret.write_text("next")
        assert token_of(config).value.count(".") == 2


def test_a_server_that_is_not_trusted(tmp_path: Path, issuer: TokenIssuer) -> None:
    authority, other = CertificateAuthority(tmp_path / "pki"), CertificateAuthority(tmp_path / "other")
    secret = tmp_path / "secret"
    secret.write_text("s")
    with token_server(issuer, {}, certificate=authority.issue("server", "127.0.0.1")) as found:
        for trusted in ((other.certificate,), ()):
            with pytest.raises(AuthenticationFailed, match="certificate verify failed"):
                token_of(of_server(found.url, secret, *trusted))
        assert not found.forms, "the secret was not sent"


def test_a_server_that_is_gone_or_speaks_of_something_else(tmp_path: Path, issuer: TokenIssuer) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    with token_server(issuer, {"orders/1": "s"}) as found:
        found.answer = lambda authorization, form: (200, {"hello": "world"})  # type: ignore[method-assign]
        with pytest.raises(AuthenticationFailed, match="has no access_token"):
            token_of(of_server(found.url, secret))
    with pytest.raises(AuthenticationFailed, match="Connection refused"):
        token_of(of_server(found.url, secret))


def test_a_client_begins_with_a_token_and_asks_for_the_next(tmp_path: Path, issuer: TokenIssuer) -> None:
    file = tmp_path / "token"
    first, second = issuer.token("first"), issuer.token("second")
    file.write_text(first)
    settings = with_token_callback({"sasl.oauthbearer.config": of_file(file), "client.id": "c"})
    file.write_text(second)
    fetch = settings["oauth_cb"]
    assert [fetch(of_file(file))[0] for _ in range(2)] == [first, second]
    file.unlink()
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        fetch(of_file(file))
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        with_token_callback({"sasl.oauthbearer.config": of_file(file)})
    assert with_token_callback({"client.id": "c"}) == {"client.id": "c"}
