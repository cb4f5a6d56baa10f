"""An authorization server for SASL OAUTHBEARER: signed tokens by the client credentials grant, and its public key."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from localcluster.kubernetes.pki import Certificate
from tests.support.kafka.tls.json_server import Request, Response, json_server

AUDIENCE = "kafka"
ISSUER = "https://issuer.test"
_KEY_ID = "key-1"


class TokenIssuer:
    """Signs tokens; :meth:`write_keys` writes what a broker verifies them with."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, subject: str, *, lifetime: float = 300.0, audience: str = AUDIENCE) -> str:
        """A JSON Web Token.

        :param lifetime: seconds; negative for an expired token.
        """
        now = int(time.time())
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims = {
            "sub": subject, "iss": ISSUER, "aud": audience, "iat": now - 600, "exp": int(now + lifetime),
            "scope": "kafka",
        }  # fmt: skip
        signed = f"{_part(json.dumps(header).encode())}.{_part(json.dumps(claims).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_part(signature)}"

    def write_keys(self, file: Path) -> None:
        """The public key, as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID,
            "n": _number(numbers.n), "e": _number(numbers.e),
        }  # fmt: skip
        file.write_text(json.dumps({"keys": [key]}))


class TokenServer:
    """What :func:`token_server` serves.

    :param secrets: of the clients, by id.
    """

    def __init__(self, issuer: TokenIssuer, secrets: dict[str, str]) -> None:
        self.issuer = issuer
        self.secrets = secrets
        self.url = ""
        self.forms: list[dict[str, str]] = []
        self.lifetime = 300.0

    def answer(self, authorization: str, form: str) -> tuple[int, dict[str, object]]:
        """Status and body of a response."""
        fields = {name: values[0] for name, values in parse_qs(form).items()}
        self.forms.append(fields)
        client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if self.secrets.get(unquote_plus(client)) != unquote_plus(secret):
            return 401, {"error": "invalid_client"}
        token = self.issuer.token(unquote_plus(client), lifetime=self.lifetime)
        return 200, {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}


@contextmanager
def token_server(
    issuer: TokenIssuer, secrets: dict[str, str], *, certificate: Certificate | None = None
) -> Iterator[TokenServer]:
    """The server, running.

    :param certificate: its own; without one it speaks plain HTTP.
    """
    state = TokenServer(issuer, secrets)

    def answer(request: Request) -> Response:
        return Response(*state.answer(request.authorization or "", request.body))

    with json_server(answer, certificate=certificate) as url:
        state.url = f"{url}/token"
        yield state


def _part(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _number(value: int) -> str:
    return _part(value.to_bytes((value.bit_length() + 7) // 8, "big"))
