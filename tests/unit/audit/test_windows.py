"""A stretch of a log, offset by offset."""

from __future__ import annotations

from sexton.audit.looking import NEAR
from sexton.audit.window import Focus, LogWindow
from tests.unit.audit.replicas import Audit, TextReplica

STORY = """\
0-3 1:a=1 3:-b
4 @7/1 k=1
5 @7/2 abort
6 @8/0 k=2
7 @8/0 commit
9-11 ~5 (empty)
12 @7 (marker)
13 k=3 !
14 z=1
""".splitlines()


def window(first: int, end: int, lines: list[str], focus: Focus | None = None) -> LogWindow:
    replica = TextReplica(1, lines)
    return Audit([replica]).window(replica, first, end, focus)


def words_of(found: LogWindow) -> list[str]:
    shown = {True: "", False: " hidden", None: ""}
    return [f"{slot.offset} {slot.kind}{shown[slot.shown]}" for slot in found.slots]


def test_every_offset_is_what_the_replica_makes_of_it() -> None:
    found = window(0, 100, STORY)
    assert words_of(found) == [
        "1 value",
        "3 tombstone",
        "4 value hidden",
        "5 abort",
        "6 value",
        "7 commit",
        "9 empty",
        "12 empty",
        "13 damaged",
        "14 value",
    ]
    assert found.gaps == ((0, 1), (2, 3), (8, 13))
    assert (found.first, found.end, found.thinned) == (0, 15, 0)
    assert LogWindow.from_json(found.to_json()) == found


def test_a_window_may_begin_within_a_batch() -> None:
    found = window(3, 7, STORY)
    assert words_of(found) == ["3 tombstone", "4 value hidden", "5 abort", "6 value"]
    assert found.gaps == ()
    assert (found.first, found.end) == (3, 7)


def test_what_can_be_asked_of_it() -> None:
    found = window(0, 100, STORY)
    assert found.covers(2)
    assert found.covers(10)
    assert not found.covers(8)
    assert not found.lacks_any(3, 8)
    assert found.lacks_any(3, 9)
    assert found.lacks_any(14, 16)  # it was not looked at so far
    held, marker = found.at(6), found.marker_after(7, 4)
    assert held is not None and held.value_digest is not None and held.base_offset == 6
    assert marker is not None and (marker.offset, marker.epoch) == (5, 2)
    assert found.marker_after(7, 5) is None  # the emptied one ends nothing
    assert found.at(9) is None


def test_what_is_past_the_last_stable_offset_is_not_read() -> None:
    found = window(0, 100, ["0 a=1", "1 @7 b=1", "2 c=1"])
    assert words_of(found) == ["0 value"]
    assert (found.end, found.last_stable, found.high_watermark) == (1, 1, 3)


def test_a_long_window_keeps_what_it_is_about() -> None:
    lines = [f"{offset} x=1" for offset in range(1000)]
    lines[100] = "100 k=1"
    lines[300] = "300 @7 k=2"
    lines[301] = "301 @7 commit"
    lines[500] = "500 k=3"
    del lines[700]
    found = window(0, 1000, lines, Focus(b"k", (7,), (100,)))
    offsets = [slot.offset for slot in found.slots]
    assert offsets == [*range(100 - NEAR, 100 + NEAR + 1), 300, 301, 500]
    assert found.thinned == 999 - len(offsets)
    assert found.gaps == ((700, 701),)
