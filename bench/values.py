"""Values of the records of a bench. Pure."""

from __future__ import annotations

import os

DIFFERENT_VALUES = 50_000
"""A topic has them again and again. A multiple of eight: bench.peers alternates four small and four large orders."""


def incompressible(size: int) -> list[bytes]:
    """Values of ``size`` bytes that hardly compress."""
    return [os.urandom(size // 2).hex().encode()[:size].ljust(size, b"x") for _ in range(DIFFERENT_VALUES)]
