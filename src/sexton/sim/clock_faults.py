"""What can happen to clocks: minutes off, or hours ahead or behind for a while."""

from __future__ import annotations

from random import Random

from sexton.sim.stage import HOUR_MS, Stage, Undo, fault


def _shift_clock(stage: Stage, address: int, shift_ms: int) -> None:
    stage.world.processes[address].ahead_ms += shift_ms


@fault
def skewed_clock(stage: Stage, random: Random) -> tuple[str, Undo]:
    """One broker's clock is minutes off."""
    address, shift = random.choice(stage.brokers()), random.choice((-1, 1)) * 300_000
    _shift_clock(stage, address, shift)
    told = f"broker {address}'s clock is {shift // 1000} s off"
    return told, lambda: _shift_clock(stage, address, -shift)


@fault
def clock_jumps_ahead(stage: Stage, random: Random) -> tuple[str, Undo]:
    """One broker believes for a while that hours or days have passed."""
    address, shift = random.choice(stage.brokers()), random.choice((6, 30)) * HOUR_MS
    _shift_clock(stage, address, shift)
    told = f"broker {address}'s clock jumps {shift // HOUR_MS} h ahead"
    return told, lambda: _shift_clock(stage, address, -shift)


@fault
def clock_falls_back(stage: Stage, random: Random) -> tuple[str, Undo]:
    """One broker's clock is set back by hours."""
    address, shift = random.choice(stage.brokers()), -random.choice((2, 12)) * HOUR_MS
    _shift_clock(stage, address, shift)
    told = f"broker {address}'s clock is set back by {-shift // HOUR_MS} h"
    return told, lambda: _shift_clock(stage, address, -shift)
