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
    """

    def __init__(self, secrets: Mapping[str, Sequence[str]]) -> None:
        self._word = f"canary-{uuid.uuid4().hex}"
        self.secrets = secrets

    def value(self, secret: str, key: str) -> str:
        return f"{self._word}-{secret}-{key}"

    def manifests(self) -> list[dict[str, Any]]:
        """The Secrets."""
        return [
            {
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret},
                "stringData": {key: self.value(secret, key) for key in keys},
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
            if any(form in rest for form in self._forms()):
                found.append(name)
        return found

    def _forms(self) -> list[str]:
        """The common beginning of all values, as text and as base64 at each of the three alignments."""
        forms = [self._word]
        for before in range(3):
            encoded = base64.b64encode(b"\0" * before + self._word.encode()).decode()
            # Characters at both ends also depend on the neighbours.
            forms.append(encoded[4:-4])
        return forms


def text_of(found: Any) -> str:
    """Objects as the text that is searched."""
    return json.dumps(found, ensure_ascii=False)
