"""The kinds of schedules: which engine, and which pace of its commits."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.job.spec import Engine


class Pace(StrEnum):
    """Of commits."""

    TWO_PHASE = "two-phase"
    LOCAL = "local"


class Kind(NamedTuple):
    """Of a schedule. That of the local pace also has attempts of the other kinds in between."""

    engine: Engine
    pace: Pace


KINDS = (
    Kind(Engine.MICRO_BATCH, Pace.TWO_PHASE),
    Kind(Engine.CONTINUOUS, Pace.TWO_PHASE),
    Kind(Engine.CONTINUOUS, Pace.LOCAL),
)


def chosen(engine: Engine | None, pace: Pace | None) -> tuple[Kind, ...]:
    """Those of this engine and this pace; None: of any."""
    return tuple(kind for kind in KINDS if engine in (None, kind.engine) and pace in (None, kind.pace))
