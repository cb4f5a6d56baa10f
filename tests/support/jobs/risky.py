"""A transform that fails for each record that is no number, and such records among numbers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from confluent_kafka import Producer

SQL = "SELECT key, CAST(CAST(value AS STRING) AS INT) AS value FROM source"
_MODULE = """
from pyspark.sql import functions as f


@f.udf("string")
def number(text):
    return str(int(text))


def numbers(source):
    return source.select("key", number(source.value.cast("string")).alias("value"))


def shuffled(source):
    return numbers(source.repartition(2))


def counted(source):
    numbered = source.withColumn("n", number(source.value.cast("string")))
    counts = numbered.groupBy("key").agg(f.max("n").alias("n"))
    return counts.select("key", f.col("n").alias("value"))
"""
LOCATION = "risky.py:7 in number"
"""Where the function of ``numbers`` fails."""


def risky_code(folder: Path) -> Path:
    """The folder with the module ``risky``, which has ``numbers``, ``shuffled`` and ``counted``."""
    made = folder / "code"
    made.mkdir()
    (made / "risky.py").write_text(_MODULE)
    return made


def produce_numbers(
    broker: str,
    topic: str,
    *,
    partitions: int,
    records: int,
    bad: Collection[tuple[int, int]],
    text: str = "no number",
    first: int = 0,
) -> list[int]:
    """The same number of records in each partition, each with a value of its own, which its key has, too.

    :param bad: partitions and offsets (of an empty topic) of the values that are ``text`` and the number.
    :returns: the values of the other records.
    """  # fmt: skip
    producer = Producer({"bootstrap.servers": broker})
    good = []
    for partition in range(partitions):
        for offset in range(records):
            value = first + partition * records + offset
            is_bad = (partition, offset) in bad
            good += [] if is_bad else [value]
            written = f"{text} {value}" if is_bad else str(value)
            producer.produce(topic, key=f"k{value}", value=written, partition=partition, headers={"h": b"1"})
    assert producer.flush(30) == 0
    return good
