"""Which faults a seed plans, and when: known before anything runs.

    seed ──▶ #0 at 00:52 killed-leader, #1 at 01:40 power-cut, #2 ...

A fault keeps its number whatever else is left out, and whatever it hits it takes its chances from a
source of its own. So a run can be told again without some of its faults: the others still come at
their times, and the shorter run is the same run up to the first fault that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from sexton.sim.options import HOUR_MS, MINUTE_MS, Options

BUILD_MS = 40 * MINUTE_MS  # what it takes to start a cluster and to create its topics


@dataclass(frozen=True, slots=True)
class Planned:
    number: int
    at_ms: int  # since the run began
    name: str
    lasts_ms: int


def planned(options: Options) -> Iterator[Planned]:
    """Every fault that is tried; one may find nobody to hit when its time comes."""
    plan = Random(f"{options.seed} plan")
    time, number = BUILD_MS, 0
    end = time + options.hours * HOUR_MS
    while options.faults:
        time += int(plan.expovariate(1 / options.fault_pause_ms))
        lasts = int(plan.expovariate(1 / options.fault_lasts_ms))
        name = plan.choice(options.faults)
        if time >= end:
            break
        yield Planned(number, time, name, min(lasts, 3 * options.fault_lasts_ms))
        number += 1


def all_but(options: Options, kept: Iterable[int]) -> frozenset[int]:
    """The numbers to leave out so that only `kept` remain."""
    return frozenset(each.number for each in planned(options)).difference(kept)
