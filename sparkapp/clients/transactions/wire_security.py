"""TLS and tokens for kafka-python, from librdkafka's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from sparkapp.clients.security.oauth_token import token_of
from sparkapp.clients.security.tls_diagnosis import tls_context, uses_tls

_TOKEN_CONFIG = "sasl.oauthbearer.config"  # noqa: S105 - a property's name


class _TokenProvider(AbstractTokenProvider):
    """kafka-python asks for a token for each connection."""

    def __init__(self, config: str) -> None:
        self._config = config

    def token(self) -> str:
        return token_of(self._config).value


def security_options(config: Mapping[str, str]) -> dict[str, Any]:
    """kafka-python's options beyond those that are plain text; reads the files of TLS.

    Called where a connection is opened.

    :raises CredentialsUnusable: a certificate or key cannot be read or used.
    """
    options: dict[str, Any] = {}
    if _TOKEN_CONFIG in config:
        options["sasl_oauth_token_provider"] = _TokenProvider(config[_TOKEN_CONFIG])
    if uses_tls(config):
        options["ssl_context"] = tls_context(config)
    return options
