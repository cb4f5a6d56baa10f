"""A digest of the user's modules: of a ConfigMap's content, and of the same content where a node has mounted it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def digest_of_modules(files: Mapping[str, bytes]) -> str:
    """Called by the operator when it starts an attempt, and by the driver before it imports the modules.

    :param files: content by name.
    """
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    return digest.hexdigest()
