"""What contestants do: the records they read, and how many of them they write. Pure."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from enum import StrEnum

from bench.values import DIFFERENT_VALUES, incompressible

JSON_COLUMNS = "id BIGINT, customer STRING, country STRING, amount DOUBLE, at STRING, note STRING"
"""The columns of the records of :attr:`Shape.PROJECT`, as Spark and Flink both write them."""
EVENT_COLUMNS = "id BIGINT, at BIGINT, note STRING"
"""Those of the shapes with state; ``at`` is in milliseconds."""
LARGE = 50.0
"""Half of the records have an amount above it."""


WINDOW_SECONDS = 10
LAST_MILLIS = 4_102_444_800_000
"""Events from here on (2100) end all windows, and are in no result."""
_STRIDE = 7919
"""Between the ids of two events: a prime, so that all ids come in an order that is not theirs."""
_WINDOWS, _FIRST_MILLIS = 2, 1_767_225_600_000


class Shape(StrEnum):
    """The work on each record."""

    COPY = "copy"
    """Key and value as bytes."""
    PROJECT = "project"
    """Parse JSON, keep the records with an amount above :data:`LARGE`, write id, customer and amount as JSON."""
    COUNT = "count"
    """Parse JSON, count the events of each id in windows of :data:`WINDOW_SECONDS`, write final counts as JSON."""
    DEDUPLICATE = "deduplicate"
    """Parse JSON, write the first event of each id as JSON."""

    @property
    def keeps_state(self) -> bool:
        """Whether the result of a record depends on others."""
        return self in (Shape.COUNT, Shape.DEDUPLICATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A topic and the work on it.

    :param records: in the topic where the options name no other number.
    :param size: bytes of a value; about the size with JSON.
    """

    name: str
    title: str
    records: int
    size: int
    partitions: int
    shape: Shape = Shape.COPY

    def values(self, records: int) -> list[bytes]:
        """Different values; the topic has them again and again.

        :param records: of the topic. With state each of them is another value.
        """
        if self.shape.keeps_state:
            return _events(self.shape, self.size, records, self.partitions)
        return incompressible(self.size) if self.shape is Shape.COPY else _orders(self.size, self.partitions)

    def expected(self, records: int) -> int:
        """Records in the sink after a run over ``records`` of the source."""
        if self.shape is Shape.COPY:
            return records
        if self.shape.keeps_state:
            return _ids(self.shape, records) * (_WINDOWS if self.shape is Shape.COUNT else 1)
        turns, rest = divmod(records, 2 * self.partitions)
        return turns * self.partitions + max(0, rest - self.partitions)


def _orders(size: int, partitions: int) -> list[bytes]:
    """In turn, as many small orders as there are partitions and as many large. So all partitions have equal work."""
    chance = random.Random(7)
    orders = []
    for number in range(DIFFERENT_VALUES):
        amount = round(chance.uniform(0.01, LARGE - 1) + (LARGE if number // partitions % 2 else 0), 2)
        order = {
            "id": number, "customer": f"customer-{chance.randrange(10_000):05}",
            "country": chance.choice(["DE", "FR", "IT", "PL"]), "amount": amount, "at": "2026-01-01T00:00:00Z",
            "note": "",
        }  # fmt: skip
        missing = max(0, size - len(json.dumps(order)))
        order["note"] = f"{chance.getrandbits(4 * missing):0{missing}x}" if missing else ""
        orders.append(json.dumps(order).encode())
    return orders


def _ids(shape: Shape, records: int) -> int:
    """Different ids: each has two events in each window, or every second id has two."""
    return records // 4 if shape is Shape.COUNT else 2 * records // 3


def _events(shape: Shape, size: int, records: int, partitions: int) -> list[bytes]:
    """Events in the order of their time. The last of each partition ends all windows."""
    ids, body, chance = _ids(shape, records), records - partitions, random.Random(7)
    events = []
    for number in range(records):
        since = number * _WINDOWS * WINDOW_SECONDS * 1000 // body
        event = {
            "id": number * _STRIDE % ids, "at": _FIRST_MILLIS + since if number < body else 2 * LAST_MILLIS, "note": "",
        }  # fmt: skip
        missing = max(0, size - len(json.dumps(event)))
        event["note"] = f"{chance.getrandbits(4 * missing):0{missing}x}" if missing else ""
        events.append(json.dumps(event).encode())
    return events


WORKLOADS = (
    Workload(name="small", title="Records of 100 bytes, 4 partitions", records=3_000_000, size=100, partitions=4),
    Workload(
        name="long", title="Records of 100 bytes, 4 partitions, longer tasks", records=10_000_000, size=100,
        partitions=4,
    ),
    Workload(name="large", title="Records of 1 KiB, 4 partitions", records=1_000_000, size=1024, partitions=4),
    Workload(name="wide", title="Records of 100 bytes, 64 partitions", records=3_000_000, size=100, partitions=64),
    Workload(
        name="json", title="JSON of 200 bytes: parse, filter, project, 4 partitions", records=1_000_000, size=200,
        partitions=4, shape=Shape.PROJECT,
    ),
    Workload(
        name="count", title="JSON of 100 bytes: windows of 10 s by a million ids, 4 partitions", records=4_000_000,
        size=100, partitions=4, shape=Shape.COUNT,
    ),
    Workload(
        name="deduplicate", title="JSON of 100 bytes: the first of each of two million ids, 4 partitions",
        records=3_000_000, size=100, partitions=4, shape=Shape.DEDUPLICATE,
    ),
)  # fmt: skip
GROWTH = "growth"
"""The workload that is measured with several parallelisms and numbers of partitions."""
LATENCY = "latency"
"""The workload that is measured in milliseconds: few records a second through a job that runs on."""

PARALLELISMS, PARTITIONS = (1, 2, 4, 8), (4, 16, 64, 256, 1000)
_USUAL_PARALLELISM, _USUAL_PARTITIONS = 2, 64


@dataclass(frozen=True, slots=True)
class Step:
    """A size of the job, in the workload :data:`GROWTH`."""

    parallelism: int
    partitions: int

    @property
    def variant(self) -> str:
        """Its name in the results."""
        return f"parallelism {self.parallelism}, {self.partitions} partitions"


BY_PARALLELISM = tuple(Step(parallelism, _USUAL_PARTITIONS) for parallelism in PARALLELISMS)
BY_PARTITIONS = tuple(Step(_USUAL_PARALLELISM, partitions) for partitions in PARTITIONS)
STEPS = tuple(dict.fromkeys((*BY_PARALLELISM, *BY_PARTITIONS)))
