"""Damaged bytes, made from valid bytes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_TOKENS = (b"null", b"-1", b"9223372036854775808", b"1e400", b'""', b"[]", b"{}", b"\x00", b"\xff" * 9,
          b"\x80\x80\x80\x80\x10", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"true", b'"\\ud800"',
          b"\\ud800")  # fmt: skip


def damaged(random: Random, seeds: Sequence[bytes]) -> bytes:
    """A seed with a few pieces replaced: by random bytes, known tokens, nothing, or a piece of a seed."""
    value = bytearray(random.choice(seeds))
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(value) + 1)
        end = min(len(value), at + random.choice((1, 1, 2, 8, 64)))
        other = random.choice(seeds)
        begin = random.randrange(len(other) + 1)
        piece = random.choice(
            (
                bytes([random.randrange(256)]), random.choice(_TOKENS), b"", bytes(value[at:end]) * 2,
                other[begin : begin + 16], random.randbytes(random.randrange(9)),
            )
        )  # fmt: skip
        value[at:end] = piece
    return bytes(value)
