"""Defaults of Spark's settings that depend on each other."""

from __future__ import annotations

from sparkapp.model.job.spark_settings import ROCKSDB_MEMORY, STATE, WRITE_BUFFERS

_MEBIBYTE = 2**20
_PARTS = 64
"""Of RocksDB's cache from 32 MiB on; each block has to fit into one."""
_LARGEST_TABLE = 70_130_000
"""Bytes, as seen with ten million keys (ADR 110)."""
_SMALLEST_ROW = 20
"""Bytes in a table: the key of a deduplication by a number takes 25."""
_FILTER_BITS = 10
"""For each key; Spark sets them."""


def test_the_filter_of_the_largest_table_of_state_fits_into_a_part_of_the_cache() -> None:
    keys = _LARGEST_TABLE / _SMALLEST_ROW
    part = int(STATE[ROCKSDB_MEMORY]) * _MEBIBYTE * (1 - float(STATE[WRITE_BUFFERS])) / _PARTS

    assert keys * _FILTER_BITS / 8 <= part
