"""A guard's time goes on while its machine sleeps, and whatever people set the wall clock to."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from sexton.client.roving import RovingClient
from sexton.guard.clock import clock_that_counts_sleep
from sexton.guard.daemon import Daemon
from sexton.machines.guard_events import GuardConfig

HOUR_MS = 3_600_000


@dataclass
class Machine:
    """Its clocks, in milliseconds, as Linux has them."""

    wall_ms: int = 1_800_000_000_000
    awake_ms: int = 5_000_000
    asleep_ms: int = 0

    def clock_gettime_ns(self, clock: int) -> int:
        assert clock == time.CLOCK_BOOTTIME
        return (self.awake_ms + self.asleep_ms) * 1_000_000

    def clock_gettime(self, clock: int) -> float:
        return self.clock_gettime_ns(clock) / 1e9

    def monotonic_ns(self) -> int:
        return self.awake_ms * 1_000_000

    def monotonic(self) -> float:
        return self.awake_ms / 1000

    def time_ns(self) -> int:
        return self.wall_ms * 1_000_000


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    stand_in = Machine()
    for name in ("clock_gettime_ns", "clock_gettime", "monotonic_ns", "monotonic", "time_ns"):
        monkeypatch.setattr(time, name, getattr(stand_in, name))
    return stand_in


def test_each_system_calls_the_clock_that_counts_sleep_by_another_name() -> None:
    assert clock_that_counts_sleep("linux") == time.CLOCK_BOOTTIME
    assert clock_that_counts_sleep("darwin") == time.CLOCK_MONOTONIC_RAW


def guard() -> Daemon:
    return Daemon(RovingClient("localhost:9092"), GuardConfig())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_an_hour_of_sleep_is_an_hour_in_which_nobody_guarded(machine: Machine) -> None:
    daemon = guard()
    began_ms = daemon.now_ms()
    assert began_ms == machine.wall_ms
    machine.awake_ms += 1_000
    machine.asleep_ms += HOUR_MS
    assert daemon.now_ms() - began_ms == HOUR_MS + 1_000


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_a_wall_clock_that_is_set_back_changes_nothing(machine: Machine) -> None:
    daemon = guard()
    began_ms = daemon.now_ms()
    machine.awake_ms += 1_000
    machine.wall_ms -= HOUR_MS
    assert daemon.now_ms() - began_ms == 1_000
