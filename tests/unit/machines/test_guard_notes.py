"""The guard's memory: whoever reads it, however compacted, comes to the same answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.machines.guard_notes import (
    Audited,
    Doubt,
    Entry,
    Hold,
    Lags,
    LastSeen,
    Maintenance,
    Memory,
    Note,
    Panic,
    Saying,
    Size,
    State,
    decode,
    encode,
    key_of,
)

NOTE = Note("orders", 1, "a", "planned", "id", Lags("100", None), False, 5, 5, ("away",))
Log = list[tuple[bytes, bytes | None] | None]


def memory_of(*sayings: Saying) -> Memory:
    memory = Memory()
    for offset, saying in enumerate(sayings):
        memory.apply(offset, *encode(saying), now_ms=offset)
    return memory


def note(by: str, state: State, *, seen: int = -1, **changes: Any) -> Note:
    return replace(NOTE, by=by, state=state, seen=seen, **changes)


SAYINGS: list[Saying] = [
    replace(NOTE, doubts=(Doubt(3, 1, "why"),), again=True, revision=2),
    Hold("orders", True, 7),
    Maintenance(99),
    Audited("orders", 3),
    LastSeen(4),
    Panic(True, Lags(None, "5"), 9),
    Size("orders", 1, 3, 4096, 9),
]


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_was_said_is_read_again(saying: Saying) -> None:
    assert decode(*encode(saying)) == saying


@pytest.mark.parametrize("saying", SAYINGS)
def test_a_field_that_is_something_else_is_not_understood(saying: Saying) -> None:
    """One note of which nobody makes sense must not keep every guard from starting."""
    key, value = encode(saying)
    for name, right in json.loads(value).items():
        wrong: list[object] = [[[1]], 1.5, None, 7 if isinstance(right, str | list) else "7"]
        if name == "previous":
            wrong += [{"min": 5, "max": None}, {"min": None, "max": []}]
        if name == "doubts":
            wrong += [[{"partition": "3", "replica": 1, "why": "why"}], [3]]
        for each in wrong:
            changed = json.dumps(json.loads(value) | {name: each}).encode()
            assert decode(key, changed) is None, (name, each)


def test_what_is_not_understood_is_counted_and_changes_nothing() -> None:
    memory = memory_of(NOTE)
    for at, value in enumerate((b"", b"[]", b"{}", b'{"format":2}', b"\xff"), 10):
        memory.apply(at, key_of(NOTE), value, 0)
    memory.apply(20, b"not json", b"{}", 0)
    memory.apply(21, b"[" * 200_000, b"[" * 200_000, 0)
    memory.apply(22, b"[" * 200_000, None, 0)
    assert memory.not_understood == 7
    assert memory.in_force("orders") == Entry(NOTE, 0, is_over=False)


def test_the_first_plan_says_what_was_there() -> None:
    entry = memory_of(note("a", "planned"), note("b", "planned", previous=Lags("7"))).last("orders")
    assert entry is not None and entry.note.previous == Lags("100", None)


def test_a_plan_for_a_cycle_that_is_over_has_no_effect() -> None:
    memory = memory_of(
        note("a", "planned"),
        note("a", "cleared", seen=0),
        note("b", "planned", previous=Lags("7")),
    )
    assert memory.in_force("orders") is None


def test_an_act_that_the_clearing_guard_did_not_know_of_keeps_the_cycle_open() -> None:
    memory = memory_of(
        note("a", "planned"),
        note("a", "thawing", seen=0),
        note("b", "frozen", seen=1),
        note("a", "cleared", seen=1),
    )
    entry = memory.in_force("orders")
    assert entry is not None and entry.note.state == "frozen"
    assert entry.note.previous == Lags("100", None)
    memory.apply(4, *encode(note("a", "cleared", seen=2)), now_ms=0)
    assert memory.in_force("orders") is None


def test_an_operators_wish_is_not_overwritten_by_who_has_not_heard_of_it() -> None:
    wish = Lags("9", None)
    memory = memory_of(
        note("a", "frozen"),
        note("b", "frozen", previous=wish, revision=1, seen=0),
        note("a", "thawing", seen=0),
    )
    entry = memory.in_force("orders")
    assert entry is not None and (entry.note.state, entry.note.previous) == ("thawing", wish)


def test_the_highest_cycle_counts_even_if_an_older_one_comes_back() -> None:
    memory = memory_of(replace(NOTE, cycle=2, state="cleared"))
    memory.apply(1, *encode(note("z", "frozen")), now_ms=0)
    assert memory.in_force("orders") is None
    assert memory.outdated("orders") == [key_of(note("z", "frozen"))]


def test_what_is_outdated_can_be_forgotten() -> None:
    memory = memory_of(note("a", "cleared"), replace(NOTE, cycle=2))
    for key in memory.outdated("orders"):
        memory.apply(9, key, None, 0)
    entry = memory.last("orders")
    assert entry is not None and entry.note.cycle == 2
    assert memory.outdated("orders") == []


STATES: tuple[State, ...] = ("frozen", "thawing", "cleared")


@given(st.data())
def test_compaction_changes_nothing(data: st.DataObject) -> None:
    """Three guards write what they may, each knowing the log up to some point."""
    log: Log = []
    planned: set[str] = set()
    for step in range(data.draw(st.integers(1, 10))):
        by = data.draw(st.sampled_from("abc"))
        seen = data.draw(st.integers(-1, len(log) - 1))
        state = data.draw(st.sampled_from(STATES))
        if by not in planned:
            planned.add(by)
            state = "planned"  # a guard's first note of a cycle, if it does not take one over
        log.append(encode(note(by, state, seen=seen, at_ms=step, previous=Lags(str(step)))))
    whole, compacted = Memory(), Memory()
    last = {record[0]: at for at, record in enumerate(log) if record is not None}
    upto = data.draw(st.integers(0, len(log)))  # the cleaner has got so far
    for offset, record in enumerate(log):
        assert record is not None
        whole.apply(offset, *record, now_ms=0)
        if offset >= upto or last[record[0]] == offset:
            compacted.apply(offset, *record, now_ms=0)
    assert compacted.last("orders") == whole.last("orders")
