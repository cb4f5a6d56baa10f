"""Recognizable values in every Secret of a job, and the search for them everywhere else."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any


class Canaries:
    """A value of its own for each key of each Secret.

    :param secrets: the keys of each Secret, by its name.
    :param files: further keys with PEM files, because nobody can choose what a key or certificate contains.
    """

    def __init__(
        self, secrets: Mapping[str, Sequence[str]], files: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        word = f"canary-{uuid.uuid4().hex}"
        files = files or {}
        self.secrets = {
            secret: {key: f"{word}-{secret}-{key}" for key in secrets.get(secret, ())} | dict(files.get(secret, {}))
            for secret in {**secrets, **files}
        }
        lines = [line for keys in files.values() for text in keys.values() for line in _unlike_others(text)]
        self.forms = [form for needle in (word, *lines) for form in _forms(needle)]
        """Texts of which each value has at least one: the common word, or a line of the file."""

    def value(self, secret: str, key: str) -> str:
        return self.secrets[secret][key]

    def manifests(self) -> list[dict[str, Any]]:
        """The Secrets."""
        return [
            {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
                "stringData": keys,
            }
            for secret, keys in self.secrets.items()
        ]  # fmt: skip

    def leaks(self, parts: Mapping[str, str], *, allowed: Sequence[str] = ()) -> list[str]:
        """Names of the parts that have a canary, as it is or in base64.

        :param allowed: values that are expected in these parts.
        """
        found: list[str] = []
        for name, text in parts.items():
            rest = text
            for value in allowed:
                rest = rest.replace(value, "")
            if any(form in rest for form in self.forms):
                found.append(name)
        return found


def _forms(needle: str) -> list[str]:
    """As text, and as base64 at each of the three alignments."""
    forms = [needle]
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + needle.encode()).decode()
        # Characters at both ends also depend on the neighbours.
        forms.append(encoded[4:-4])
    return forms


def _unlike_others(pem: str) -> list[str]:
    """The last lines of a PEM file, which have the public key or the signature. Others are alike in many files."""
    return [line for line in pem.splitlines() if len(line) > _SHORT and not line.startswith("-")][-2:]


_SHORT = 40
"""A shorter line could be in another text by chance."""


def text_of(found: Any) -> str:
    """Objects as the text that is searched."""
    return json.dumps(found, ensure_ascii=False)
