"""Counts records that parse or are transformed, and records that are not, by topic and schema: is the topic bad?

Workers add their counts to the totals of their process, which reach the driver with those of the Kafka clients. A total
is named by a kind of group, the group, and what it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

MAX_GROUPS = 100
"""Schemas or topics that a process counts apart. Records can name any number of schema ids."""
MAX_ERROR = 300
TOPIC, SCHEMA = "topic", "schema"
TRANSFORM = "transform"
"""The kind of the groups of topics whose records the user's function takes or does not take."""
_PARSED, _BAD, _EXAMPLE = "parsed", "bad", "example"
_SEPARATOR = "\0"
"""No topic has it."""
_call: Any = pc.call_function
Add = Callable[[Mapping[str, int]], None]
"""Adds to the totals of the process."""


class Group(NamedTuple):
    """Records that are judged together: those of a topic, or of a schema of the registry."""

    kind: str
    name: str


class Example(NamedTuple):
    """A record that does not parse."""

    topic: str
    partition: int
    offset: int
    error: str


class Tally(NamedTuple):
    """Records of a group since its process began, with a record that did not parse."""

    parsed: int = 0
    bad: int = 0
    example: Example | None = None


_known: set[Group] = set()
_shown: set[Group] = set()


def note(
    positions: pa.RecordBatch,
    error: Any,
    add: Add,
    *,
    framed: Any | None,
    by_topic: bool = True,
    topics_as: str = TOPIC,
) -> None:
    """Adds a batch to the totals of this process; called in workers by decoders, and by what calls the function.

    :param positions: columns ``topic``, ``partition`` and ``offset``; others are not read.
    :param error: the error text of each record, or null.
    :param framed: raw values, if their format has the frame of a registry.
    :param by_topic: whether the groups of topics are counted, too.
    :param topics_as: the kind of the groups of topics.
    """
    # Python may not have the values of other columns: their times and dates have any year.
    positions = positions.select(["topic", "partition", "offset"])
    keys = {topics_as: positions.column("topic").cast(pa.binary())} if by_topic else {}
    if framed is not None:
        has_frame = _call("equal", [_call("binary_slice", [framed], pc.SliceOptions(0, 1)), b"\0"])
        ids = _call("binary_slice", [framed], pc.SliceOptions(1, 5))
        keys[SCHEMA] = pc.if_else(has_frame, ids, pa.scalar(None, pa.binary()))
    for kind, key in keys.items():
        bad = key.filter(pc.is_valid(error)) if error.null_count < len(error) else key.slice(0, 0)
        parsed = key if not len(bad) else key.filter(pc.is_null(error))
        _count(kind, parsed, _PARSED, add)
        for group in _count(kind, bad, _BAD, add) - _shown:
            _show(group, positions.filter(pc.is_valid(error)), bad, error.drop_null(), add)


def tallies(workers: Mapping[str, Mapping[str, int]]) -> dict[Group, Tally]:
    """The groups of all workers, from their totals; called by the driver."""
    found: dict[Group, Tally] = {}
    for totals in list(workers.values()):
        for name, count in totals.items():
            kind, _, rest = name.partition(_SEPARATOR)
            if kind not in {TOPIC, SCHEMA, TRANSFORM}:
                continue
            group_name, what, *example = rest.split(_SEPARATOR)
            group = Group(kind, group_name)
            before = found.get(group, Tally())
            if what == _EXAMPLE:
                topic, partition, error = example
                found[group] = before._replace(example=Example(topic, int(partition), count - 1, error))
            else:
                found[group] = before._replace(**{what: getattr(before, what) + count})
    return found


def counted(group: Group, parsed: int, bad: int, example: Example | None) -> dict[str, int]:
    """Totals of a group, as :func:`tallies` reads them."""
    head = f"{group.kind}{_SEPARATOR}{group.name}{_SEPARATOR}"
    totals = {f"{head}{_PARSED}": parsed, f"{head}{_BAD}": bad}
    if example is not None:
        text = " ".join(example.error.replace(_SEPARATOR, " ").split())[:MAX_ERROR]
        position = _SEPARATOR.join((_EXAMPLE, example.topic, str(example.partition), text))
        totals[f"{head}{position}"] = example.offset + 1  # a total of 0 is none
    return {name: total for name, total in totals.items() if total}


def _count(kind: str, keys: Any, what: str, add: Add) -> set[Group]:
    groups = set()
    for name, count in _counts(kind, keys):
        group = Group(kind, name)
        if group in _known or len(_known) < 2 * MAX_GROUPS:
            _known.add(group)
            groups.add(group)
            add(counted(group, **{_PARSED: 0, _BAD: 0, what: count}, example=None))
    return groups


def _counts(kind: str, keys: Any) -> Iterator[tuple[str, int]]:
    for each in pc.value_counts(keys.drop_null()).to_pylist() if len(keys) else ():
        yield _name(kind, each["values"]), each["counts"]


def _name(kind: str, key: bytes) -> str:
    return str(int.from_bytes(key, "big")) if kind == SCHEMA else key.decode()


def _show(group: Group, positions: pa.RecordBatch, keys: Any, errors: Any, add: Add) -> None:
    for row, key in enumerate(keys.to_pylist()):
        if key is not None and _name(group.kind, key) == group.name:
            topic, partition, offset = (column[row].as_py() for column in positions.columns)
            example = Example(topic, partition, offset, errors[row].as_py())
            add(counted(group, 0, 0, example))
            _shown.add(group)
            return
