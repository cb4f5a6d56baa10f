"""The curves of load that the autoscaler has to follow, or has to leave alone."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bench.autoscaler.simulation import Job, Run, World
from kafkasparkjob_operator.workload import Autoscaler

QUICK = Autoscaler(max_parallelism=12, stabilization_seconds=10, scale_down_delay_seconds=300, catch_up_seconds=120)
DEFAULTS = Autoscaler(max_parallelism=12)
_HOUR = 3600.0
_DAY = 24 * _HOUR


def noise(share: float, seed: int) -> Callable[[float], float]:
    """A factor around 1 that changes with each second; the same for the same seed."""

    def factor(at: float) -> float:
        return 1 + share * random.Random(f"{seed}/{at:.0f}").uniform(-1, 1)

    return factor


def daily(at: float) -> float:
    """Few records at night, and ten times as many at noon."""
    return 1000 + 4500 * (1 - math.cos(2 * math.pi * at / _DAY))


def step(at: float) -> float:
    """Four times as many records from a moment on."""
    return 800 if at < 600 else 3200


def spike(at: float) -> float:
    """Ten times as many records for 20 s."""
    return 6000 if 600 <= at < 620 else 600


def leak(at: float) -> float:
    """A slow growth without an end."""
    return 500 + 2.0 * at


def idle(_: float) -> float:
    """Nothing to read."""
    return 0.0


def steady(_: float) -> float:
    """The same number of records."""
    return 2000.0


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve with its policy.

    :param title: of its plot. :param starts_with: ``spec.parallelism``.
    """

    title: str
    world: World
    policy: Autoscaler
    starts_with: int = 1

    def run(self) -> Run:
        return Job(self.world, self.policy, spec_parallelism=self.starts_with).run()


CURVES: Mapping[str, Curve] = {
    "daily-wave": Curve(
        title="daily wave, ±10 % noise",
        world=World(rate=daily, seconds=2 * _DAY, tick=20.0, noise=noise(0.1, 1)), policy=DEFAULTS,
    ),
    "step": Curve(title="step × 4", world=World(rate=step, seconds=1800, noise=noise(0.1, 2)), policy=QUICK),
    "step-restart": Curve(
        title="step × 4, restarts",
        world=World(rate=step, seconds=1800, in_place=False, noise=noise(0.1, 3)), policy=DEFAULTS,
    ),
    "spike": Curve(title="spike × 10 of 20 s", world=World(rate=spike, seconds=1800), policy=DEFAULTS),
    "slow-leak": Curve(
        title="slow growth", world=World(rate=leak, seconds=_HOUR, noise=noise(0.1, 4)), policy=DEFAULTS
    ),
    "hot-partition": Curve(
        title="one hot partition", world=World(rate=steady, weights=(60.0, *[1.0] * 11), seconds=_HOUR), policy=QUICK,
        starts_with=2,
    ),
    "idle": Curve(title="idle", world=World(rate=idle, seconds=_HOUR), policy=DEFAULTS, starts_with=6),
    "broken-sink": Curve(
        title="sink broken for 10 minutes",
        world=World(rate=steady, seconds=_HOUR, sink=lambda at: 0.0 if 900 <= at < 1500 else 1e9), policy=QUICK,
        starts_with=3,
    ),
    "slow-sink": Curve(
        title="sink takes 1500 records/s",
        world=World(rate=steady, weights=(1.0,) * 24, seconds=_HOUR, sink=lambda _: 1500.0),
        policy=replace(QUICK, max_parallelism=24), starts_with=3,
    ),
    "no-room": Curve(
        title="step × 4, room for 3 subtasks", world=World(rate=step, seconds=_HOUR, room=3), policy=QUICK,
    ),
}  # fmt: skip
