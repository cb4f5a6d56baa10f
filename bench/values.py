"""Values of the records of a bench. Pure."""

from __future__ import annotations

import os

DIFFERENT_VALUES = 50_000
"""An even number; a topic has the values again and again."""


def incompressible(size: int) -> list[bytes]:
    """Values of ``size`` bytes that hardly compress."""
    return [os.urandom(size // 2).hex().encode()[:size].ljust(size, b"x") for _ in range(DIFFERENT_VALUES)]
