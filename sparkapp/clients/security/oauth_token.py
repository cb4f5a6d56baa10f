"""Tokens for SASL OAUTHBEARER, from an authorization server or from a file, the same for every Kafka client.

librdkafka and kafka-python ask for a token before they connect, and librdkafka again before it expires. The secret or
the token is read from its file each time, so that a Secret may change while a job runs. librdkafka has a way of its own
(``sasl.oauthbearer.method=oidc``); it takes the client's secret as a property, and it knows no audience.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sparkapp.model.errors import AuthenticationFailed

LOG = logging.getLogger(__name__)

_SECONDS = 10.0
_OPAQUE_SECONDS = 300.0
"""A token in a file that says nothing of its end is read again so often."""
_ANSWER_BYTES = 1 << 20
_CONFIG = "sasl.oauthbearer.config"


class Token(NamedTuple):
    """A bearer token.

    :param expires_at: seconds since 1970.
    :param principal: who the token is for; librdkafka asks for it, and only logs it.
    """

    value: str
    expires_at: float
    principal: str


def token_of(config: str, now: Callable[[], float] = time.time) -> Token:
    """A token by the value of ``sasl.oauthbearer.config`` (``security_properties.read_security``).

    :raises AuthenticationFailed: there is no token; the message never holds a secret.
    """
    source: Mapping[str, Any] = json.loads(config)
    if "tokenFile" in source:
        return _of_file(Path(source["tokenFile"]), now())
    return _of_endpoint(source, now())


def token_source(config: Mapping[str, str]) -> tuple[Callable[[str], Token], ...]:
    """Of a client's configuration: :func:`token_of` alone where it uses tokens; nothing otherwise."""
    return (token_of,) if _CONFIG in config else ()


def with_token_callback(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration for confluent_kafka: with the callback that fetches tokens, where tokens are used.

    Called right before a client is created. The first token is fetched here: otherwise the client would
    wait 10 s for it, and drop the reason.

    :raises AuthenticationFailed: there is no token.
    """
    return {**config, "oauth_cb": _TokenCallback(config[_CONFIG])} if _CONFIG in config else dict(config)


class _TokenCallback:
    """Called by librdkafka's threads: for the first token, and before each expires."""

    def __init__(self, config: str) -> None:
        self._first: Token | None = token_of(config)

    def __call__(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        token, self._first = self._first, None
        try:
            token = token or token_of(config)
        except AuthenticationFailed:
            LOG.exception("no token for the brokers; the client asks again in 10 s")
            raise
        return token.value, token.expires_at, token.principal, {}


def _of_file(path: Path, now: float) -> Token:
    try:
        value = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text in ASCII"
        raise AuthenticationFailed(f"the token of spec.kafka.authentication cannot be read: {cause}") from None
    if not value:
        raise AuthenticationFailed("the token of spec.kafka.authentication is empty")
    claims = _claims(value)
    expires = claims.get("exp")
    expires_at = float(expires) if isinstance(expires, int | float) else now + _OPAQUE_SECONDS
    if expires_at <= now:
        raise AuthenticationFailed(f"the token of spec.kafka.authentication expired {now - expires_at:.0f} s ago")
    return Token(value, expires_at, str(claims.get("sub", "token")))


def _of_endpoint(source: Mapping[str, Any], now: float) -> Token:
    uri, client_id = source["tokenEndpointUri"], source["clientId"]
    doing = f"fetching a token of {uri} for client {client_id}"
    try:
        secret = Path(source["clientSecretFile"]).read_text(encoding="utf-8").rstrip("\r\n")
        context = _trusting(source["trustedFiles"]) if uri.startswith("https:") else None
        with urllib.request.urlopen(_request(source, secret), timeout=_SECONDS, context=context) as answer:  # noqa: S310 - the scheme is checked where the resource is read
            body = json.loads(answer.read(_ANSWER_BYTES))
        return Token(str(body["access_token"]), now + float(body.get("expires_in", _OPAQUE_SECONDS)), client_id)
    except urllib.error.HTTPError as error:
        raise AuthenticationFailed(f"{doing}: the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise AuthenticationFailed(f"{doing}: {getattr(error, 'reason', None) or error}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise AuthenticationFailed(f"{doing}: the answer has no access_token: {type(error).__name__}") from None


def _request(source: Mapping[str, Any], secret: str) -> urllib.request.Request:
    form = {"grant_type": "client_credentials"}
    form |= {name: source[name] for name in ("scope", "audience") if source.get(name)}
    # RFC 6749, section 2.3.1: both parts are form-encoded before they are joined.
    pair = ":".join(urllib.parse.quote_plus(part) for part in (source["clientId"], secret))
    return urllib.request.Request(  # noqa: S310 - as above
        source["tokenEndpointUri"],
        data=urllib.parse.urlencode(form).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )


def _trusting(files: list[str]) -> ssl.SSLContext:
    if not files:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata="\n".join(Path(file).read_text(encoding="ascii") for file in files))


def _claims(token: str) -> Mapping[str, Any]:
    """The claims of a JSON Web Token, unverified (the broker verifies them); empty for another token."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}
