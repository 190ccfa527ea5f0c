"""Guards are killed between any two steps, in twos, with answers lost and changes late.

Each seed is five simulated minutes. The world judges (`guard_world`): never a lost value, never
left frozen when all is well, never unfrozen while a replica is away longer than the promise. Then
the two mistakes that the design exists to avoid are planted, and must be noticed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from sexton.machines import guard, guard_decisions
from tests.unit.machines.guard_world import CONFIG, World, run

SEEDS = range(24)
REAPPLYING = replace(CONFIG, reapply=True)
STEPS = 800


def test_no_value_is_lost_and_nothing_is_left_frozen() -> None:
    happened: Counter[str] = Counter()
    for seed in SEEDS:
        config = REAPPLYING if seed % 3 == 2 else CONFIG
        happened.update(run(World(seed, config), STEPS).counts)
    # Runs in which nothing happens would prove nothing.
    for what in ("away", "freeze", "thaw", "operator", "operator unfreezes", "compacted"):
        assert happened[what] >= 10, happened


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_the_same_for_long(block: int) -> None:
    for seed in range(10_000 + 50 * block, 10_050 + 50 * block):
        run(World(seed, REAPPLYING if seed % 3 == 2 else CONFIG), 1_500)


def fails(world: World) -> bool:
    try:
        run(world, STEPS)
    except AssertionError:
        return True
    return False


def test_a_note_after_the_change_would_be_noticed() -> None:
    assert any(fails(World(seed, change_before_note=True)) for seed in SEEDS)


def test_a_second_guard_that_takes_a_frozen_value_for_the_old_one_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "can_be_noted", lambda _lags: True)
    monkeypatch.setattr(guard_decisions, "can_be_noted", lambda _lags: True)
    assert not any(fails(World(seed)) for seed in SEEDS[:3]), "who reads all notes sees none"
    assert any(fails(World(seed, forgetful=True)) for seed in SEEDS)
