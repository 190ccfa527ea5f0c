"""Deadlines that move, and memory that does not grow with them."""

from __future__ import annotations

from sexton.machines.alarms import Alarms


def test_alarms_ring_in_order_and_once() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.by("b", 5)
    alarms.by("a", 5)
    alarms.by("c", 3)
    assert alarms.first_ms == 3
    assert alarms.due(2, 10) == []
    assert alarms.due(5, 2) == ["c", "a"]
    assert alarms.due(5, 2) == ["b"]
    assert alarms.first_ms is None


def test_a_deadline_that_moves_away_leaves_the_alarm_as_it_is() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.by("a", 5)
    alarms.by("a", 9)
    assert alarms.at("a") == 5


def test_a_deadline_that_comes_nearer_moves_the_alarm() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.by("a", 9)
    alarms.by("a", 5)
    assert alarms.due(5, 10) == ["a"]
    assert alarms.due(9, 10) == []


def test_a_cancelled_alarm_does_not_ring() -> None:
    alarms: Alarms[str] = Alarms()
    alarms.by("a", 5)
    alarms.cancel("a")
    assert alarms.first_ms is None
    alarms.by("a", 5)
    assert alarms.due(5, 10) == ["a"]


def test_memory_follows_the_keys_and_not_the_changes() -> None:
    alarms: Alarms[int] = Alarms()
    for round_trip in range(1000):
        for key in range(10):
            alarms.by(key, 1_000_000 - round_trip)
    assert len(alarms._heap) <= 2 * 10 + 17
    assert alarms.due(999_001, 100) == list(range(10))
