"""An audit of random logs: silent while all is right, and exact when one thing is not.

Replicas write, abort, delete and clean in any order, and are read wherever each of them stands. As
long as none of them missed anything there is no finding. Then one of them misses one thing, in one
of the ways of docs/concepts/what-a-log-may-forget.md, and that is what the audit says: no less, and
nothing else.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sexton.records.layout import BatchHeader
from tests.property.audit_world import LEADER, SLOW, THIRD, World
from tests.reference import records_of
from tests.unit.audit.replicas import Audit, LogReplica

KEYS = st.sampled_from("abc")
VALUES = st.integers(0, 99)
PRODUCERS = st.sampled_from("78")

safe_lines = st.one_of(
    st.builds("{}={}".format, KEYS, VALUES), st.builds("a={} b={} c={}".format, *[VALUES] * 3)
)
lines = st.one_of(
    safe_lines,
    st.builds("-{}".format, KEYS),
    st.builds("@{} {}={}".format, PRODUCERS, KEYS, VALUES),
    st.builds("@{} {}={} {}={}".format, PRODUCERS, KEYS, VALUES, KEYS, VALUES),
    st.builds("@{} -{}".format, PRODUCERS, KEYS),
    st.builds("@{} {}".format, PRODUCERS, st.sampled_from(["commit", "abort"])),
)
keeping = st.sampled_from(
    [
        *("clean 1", "clean 2", "clean 3", "copy 2", "copy 3"),
        *("recreate 2", "recreate 3", "expire 1", "expire 2", "later"),
    ]
)
# What happens between two answers: some writes that all replicas get, and one of them is cleaned.
busy = st.builds(
    lambda some, node: [*some, "copy 2", "copy 3", f"clean {node}"],
    st.lists(lines, min_size=1, max_size=2),
    st.integers(1, 3),
)
moves = st.lists(st.one_of(lines, lines, keeping), max_size=40)
worlds = st.builds(World, independent=st.booleans(), bumps=st.booleans())
# Each of these takes some forty cleanings.
assert settings.default is not None
few = settings(max_examples=settings.default.max_examples // 6)
kafka_worlds = st.builds(World, independent=st.just(True), bumps=st.booleans())


@given(worlds, moves)
def test_replicas_that_missed_nothing_agree(world: World, story: list[str]) -> None:
    for move in story:
        world.move(move)
    assert world.findings() == []
    world.settle()
    assert world.findings() == []


@given(worlds, moves, st.lists(busy, min_size=1, max_size=10))
def test_an_audit_beside_writes_and_cleaning_is_silent(
    world: World, story: list[str], meanwhile: list[list[str]]
) -> None:
    """Between any two answers of a broker something happens. But no tombstone expires: that takes
    `delete.retention.ms`, and an audit of one partition has to be done by then.
    """
    for move in story:
        world.move(move)
    left = islice(cycle(meanwhile), 60)  # else it never comes to an end

    def between() -> None:
        for move in next(left, ()):
            world.move(move)

    assert world.findings(between) == []


def begin(world: World, story: list[str]) -> None:
    """Anything legal, then quiet: what is open is ended, and everyone has everything."""
    for move in story:
        world.move(move)
    world.settle()


def take_away(world: World) -> None:
    world.catch_up()
    world.away = THIRD


def bring_back(world: World, quiet: list[str]) -> None:
    """While it was away others wrote, but nothing that could be missed."""
    for line in quiet:
        world.append(line)
    world.away = None
    world.catch_up()


OTHERS = (LEADER, SLOW)
quiet_lines = st.lists(safe_lines, max_size=5)


def only(world: World) -> Any:
    (finding,) = world.findings()
    return finding


@few
@given(kafka_worlds, moves, quiet_lines)
def test_a_missed_tombstone_is_one_finding(
    world: World, story: list[str], quiet: list[str]
) -> None:
    begin(world, story)
    at = world.append("k=1")
    take_away(world)
    assert world.forget(world.append("-k"), OTHERS)
    bring_back(world, quiet)
    finding = only(world)
    assert finding.code == "tombstone-divergence"
    assert (finding.key, finding.replicas, finding.verdict.right) == (b"k", (THIRD,), OTHERS)
    assert finding.offsets == {LEADER: None, SLOW: None, THIRD: at}


@few
@given(kafka_worlds, moves, quiet_lines)
def test_a_missed_abort_is_one_finding(world: World, story: list[str], quiet: list[str]) -> None:
    begin(world, story)
    world.append("@9 k=1")
    take_away(world)
    assert world.forget(world.append("@9 abort"), OTHERS)
    bring_back(world, quiet)
    world.append("@9 j=1")
    world.append("@9 commit")
    world.catch_up()
    finding = only(world)
    assert finding.code == "aborted-as-committed"
    assert (finding.key, finding.replicas, finding.verdict.right) == (b"k", (THIRD,), OTHERS)
    assert finding.verdict.certainty == ("certain" if world.bumps else "likely")


@few
@given(kafka_worlds, moves, quiet_lines)
def test_a_missed_commit_is_one_finding(world: World, story: list[str], quiet: list[str]) -> None:
    begin(world, story)
    at = world.append("@9 k=1")
    take_away(world)
    marker = world.append("@9 commit")
    world.append("k=2")
    assert world.forget(marker, OTHERS)
    bring_back(world, quiet)
    world.append("@9 j=1")
    world.append("@9 abort")
    world.catch_up()
    finding = only(world)
    assert finding.code == "committed-as-aborted"
    assert (finding.replicas, finding.verdict.right) == ((THIRD,), OTHERS)
    assert finding.offsets[THIRD] == at


@few
@given(kafka_worlds, moves, quiet_lines)
def test_a_partition_that_is_stuck_is_one_finding(
    world: World, story: list[str], quiet: list[str]
) -> None:
    begin(world, story)
    world.append("@9 k=1")
    take_away(world)
    marker = world.append("@9 commit")
    world.append("k=2")
    assert world.forget(marker, OTHERS)
    bring_back(world, quiet)
    finding = only(world)
    assert finding.code == "stuck-partition"
    assert (finding.replicas, finding.verdict.right) == ((THIRD,), OTHERS)
    assert "cannot be known" in finding.verdict.because


@few
@given(worlds, moves, st.integers(0, 30))
def test_a_lost_record_is_one_finding(world: World, story: list[str], which: int) -> None:
    begin(world, story)
    world.append("z=1")
    world.catch_up()
    alive = [
        batch for batch in world.replica(THIRD).batches() if _is_last_of_plain_key(world, batch)
    ]
    assume(alive)
    lost = alive[which % len(alive)]
    broken = Broken(THIRD, world.logs[THIRD], lost)
    found = Audit([world.replica(LEADER), world.replica(SLOW), broken]).findings()
    keys = {record.key for record in records_of(lost) if _is_last(world, record.key, record.offset)}
    assert {finding.key for finding in found} == keys
    assert {(finding.code, finding.replicas) for finding in found} == {("missing-record", (THIRD,))}


class Broken(LogReplica):
    """A log without one of its batches."""

    def __init__(self, node: int, log: Any, lost: bytes) -> None:
        super().__init__(node, log)
        self.lost = lost

    def batches(self) -> list[bytes]:
        return [batch for batch in super().batches() if batch != self.lost]


def _is_last_of_plain_key(world: World, batch: bytes) -> bool:
    """A batch outside of transactions with a value that every replica shows."""
    header = BatchHeader.unpack(batch)
    return (
        not header.is_control
        and not header.is_transactional
        and header.records_count > 0
        and any(
            record.value is not None and _is_last(world, record.key, record.offset)
            for record in records_of(batch)
        )
        and all(record.value is not None for record in records_of(batch))
    )


def _is_last(world: World, key: bytes | None, offset: int) -> bool:
    """By a slow look at the leader: is it the key's last record that is not aborted?"""
    leader = world.replica(LEADER)
    last = -1
    for batch in leader.batches():
        header = BatchHeader.unpack(batch)
        hidden = header.is_transactional and any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in world.logs[LEADER].aborted_between(0, leader.last_stable)
        )
        if not header.is_control and not hidden:
            last = max([last, *(r.offset for r in records_of(batch) if r.key == key)])
    return last == offset
