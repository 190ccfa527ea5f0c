"""What is known when one of the brokers that are asked may not have heard the newest state?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sexton.machines.guard import Guard
from sexton.machines.guard_events import Decide, LookAgain, Recalled, Remember, Seen
from sexton.machines.guard_health import (
    LEADER_CHANGED,
    UNKNOWN,
    PartitionSight,
    TopicSight,
)
from sexton.machines.guard_notes import Audited, Doubt, Lags, Note, State, encode
from sexton.machines.guard_views import NEVER, Views
from tests.unit.machines.guard_world import CONFIG
from tests.unit.machines.test_guard import in_force, let_pass, quiet_world

AWAY = TopicSight("t", "id", (PartitionSight(0, 1, 0, (1, 2, 3), (1, 2)),))
DAY_MS = 86_400_000


def known_after(*by: str) -> int:
    views = Views()
    for second, each in enumerate(by, 1):
        views.look(each, second, brokers=3)
    return views.known_ms


def test_what_two_brokers_say_alike_was_so_when_the_first_of_them_was_asked() -> None:
    assert known_after("a") == NEVER
    assert known_after("a", "b") == 1
    assert known_after("a", "b", "c") == 2
    assert known_after("a", "b", "b") == 1, "the same one again proves nothing"
    assert known_after("a", "a") == NEVER


def test_one_broker_has_to_do_when_no_other_answers_in_its_turn() -> None:
    assert known_after("a", "a", "a") == 2
    assert known_after("a", "b", "b", "b") == 3


def test_an_absence_is_not_short_because_a_broker_had_not_heard_of_it() -> None:
    world = quiet_world()
    before = world.start_guard()
    world._cut_off_or_heal()  # the broker that the next guard asks first
    world.kill(before)
    world.leave("t0")
    world.now_ms += 2 * DAY_MS
    life = world.start_guard()
    let_pass(world, 8_000)
    assert in_force(life).doubts == (Doubt(0, 3, UNKNOWN),)


def test_a_broker_that_never_heard_of_a_topic_does_not_make_an_absence_short() -> None:
    seen = Seen(1_000, frozenset({1, 2, 3}), {"t": AWAY}, "a")
    for other in ({}, {"t": replace(AWAY, topic_id="an earlier one")}):
        guard = Guard("guard", CONFIG)
        guard.handle(seen)
        guard.handle(replace(seen, now_ms=2_000, by="b", topics=other))
        guard.handle(replace(seen, now_ms=3_000, by="c"))
        assert guard.topics["t"].health.doubts(3_000, DAY_MS) == (Doubt(0, 3, UNKNOWN),)
        guard.handle(replace(seen, now_ms=4_000, by="a", topics={}))
        guard.handle(replace(seen, now_ms=5_000, by="b", topics={}))
        assert not guard.missed, "it was deleted, both say"


def test_one_broker_that_never_heard_of_a_topic_does_not_have_its_note_cleared() -> None:
    """Not even by `guard thaw --all`, which has no hold-down to wait for."""
    guard = Guard("guard", replace(CONFIG, hold_ms=0))
    note = Note("t", 1, "another", "frozen", "id", Lags("5"), False, since_ms=0, at_ms=0)
    guard.handle(Recalled(1_000, ((0, *encode(note)),)))
    seen = Seen(1_000, frozenset({1, 2, 3}), {}, "a")

    def cleared(now_ms: int, by: str) -> list[str]:
        guard.handle(replace(seen, now_ms=now_ms, by=by))
        notes = [each.saying for each in guard.handle(Decide(now_ms)) if isinstance(each, Remember)]
        return [each.topic for each in notes if isinstance(each, Note) and each.state == "cleared"]

    assert cleared(1_000, "a") == []
    assert cleared(2_000, "b") == ["t"], "it was deleted, both say"


def test_a_guard_that_has_just_started_looks_at_another_broker_at_once() -> None:
    guard = Guard("guard", CONFIG)
    seen = Seen(1_000, frozenset({1, 2, 3}), {}, "a")
    guard.handle(seen)
    assert guard.handle(Decide(1_000)) == [LookAgain()]
    guard.handle(replace(seen, now_ms=2_000, by="b"))
    assert LookAgain() not in guard.handle(Decide(2_000))


def test_a_replica_that_one_broker_says_is_back_is_looked_at_again_at_once() -> None:
    """A rolling restart takes the next broker down soon: if that is the leader before a second one
    was asked, the replica counts as filled while the leader changed, and an audit has to come."""
    guard = Guard("guard", CONFIG)
    back = replace(AWAY, partitions=(PartitionSight(0, 1, 0, (1, 2, 3), (1, 2, 3)),))
    looks = []
    for second, (by, sight) in enumerate(
        [("a", AWAY), ("b", AWAY), ("c", AWAY), ("a", back), ("b", back), ("c", back)], 1
    ):
        guard.handle(Seen(second * 1_000, frozenset({1, 2, 3}), {"t": sight}, by))
        looks.append(guard._is_worth_a_second_look())
    assert looks == [True, False, False, True, False, False]
    assert not guard.topics["t"].health.out


def test_without_topic_ids_a_topic_does_not_inherit_what_is_known_of_another() -> None:
    guard = Guard("guard", CONFIG)
    no_id = "AAAAAAAAAAAAAAAAAAAAAA"
    gone = TopicSight("gone", no_id, (PartitionSight(0, 1, 50, (1, 2, 3), (1, 2, 3)),))
    seen = Seen(1_000, frozenset({1, 2, 3}), {"gone": gone}, "a")
    guard.handle(seen)
    guard.handle(replace(seen, now_ms=2_000, by="b", topics={"t": replace(AWAY, topic_id=no_id)}))
    assert guard.topics["t"].reasons, "it is frozen for a replica that is away"


@pytest.mark.parametrize("state", ["planned", "frozen"])
def test_a_doubt_that_comes_up_when_all_is_well_again_is_noted(state: State) -> None:
    """Else no audit could settle it, and the guard that comes next would know nothing of it."""
    guard = Guard("guard", CONFIG)
    note = Note("t", 1, "guard", state, "id", Lags("5"), False, since_ms=0, at_ms=0)
    guard.handle(Recalled(1_000, ((0, *encode(note)),)))
    well = replace(AWAY, partitions=(PartitionSight(0, 2, 1, (1, 2, 3), (1, 2, 3)),))
    for second, (by, sight) in enumerate([("a", AWAY), ("b", AWAY), ("c", well)], 1):
        guard.handle(Seen(second * 1_000, frozenset({1, 2, 3}), {"t": sight}, by))
    (kept,) = [each for each in guard.handle(Decide(3_000)) if isinstance(each, Remember)]
    assert isinstance(kept.saying, Note)
    assert kept.saying.doubts == (Doubt(0, 3, LEADER_CHANGED),)
    assert (kept.saying.state, kept.saying.again) == ("frozen", state == "planned")
    guard.handle(Recalled(3_000, ((1, *encode(kept.saying)),)))
    assert not [each for each in guard.handle(Decide(3_000)) if isinstance(each, Remember)]


BACK = replace(AWAY, partitions=(PartitionSight(0, 1, 0, (1, 2, 3), (1, 2, 3)),))
ELSEWHERE = replace(AWAY, partitions=(PartitionSight(0, 2, 1, (1, 2, 3), (1, 2, 3)),))
AUDITED = encode(Audited("t", 1))


def notes_of(guard: Guard, now_ms: int) -> list[Note]:
    said = [each.saying for each in guard.handle(Decide(now_ms)) if isinstance(each, Remember)]
    return [each for each in said if isinstance(each, Note)]


@pytest.mark.parametrize(
    ("sights", "audited_after", "in_doubt"),
    [
        # One broker has seen it back, the audit is noted, and then the leader is another one: it
        # may have left again, and been filled while that came to be.
        ((AWAY, AWAY, BACK, ELSEWHERE), 3, True),
        # It has left since the audit, and that it did could not be noted: then it was back.
        ((AWAY, AWAY, BACK, BACK, AWAY, ELSEWHERE), 4, True),
        # The control: all of that was before the audit.
        ((AWAY, AWAY, BACK, ELSEWHERE), 4, False),
        ((AWAY, AWAY, BACK, BACK, ELSEWHERE), 3, False),
    ],
)
def test_an_audit_does_not_hide_what_was_seen_after_it(
    sights: tuple[TopicSight, ...], audited_after: int, in_doubt: bool
) -> None:
    guard = Guard("guard", CONFIG)
    note = Note("t", 1, "guard", "frozen", "id", Lags("5"), False, since_ms=0, at_ms=0)
    guard.handle(Recalled(1_000, ((0, *encode(note)),)))
    for second, sight in enumerate(sights, 1):
        guard.handle(Seen(second * 1_000, frozenset({1, 2, 3}), {"t": sight}, "ab"[second % 2]))
        if second == audited_after:
            guard.handle(Recalled(second * 1_000, ((1, *AUDITED),)))
    now_ms = len(sights) * 1_000
    noted = notes_of(guard, now_ms)
    assert [each.doubts for each in noted] == [(Doubt(0, 3, LEADER_CHANGED),)] * in_doubt
    if in_doubt:
        guard.handle(Recalled(now_ms, ((2, *encode(noted[0])),)))
        assert not guard.memory.settles(noted[0]), "whoever comes next knows that it counts no more"
        guard.handle(Recalled(now_ms, ((3, *AUDITED),)))
        assert guard.memory.settles(noted[0]), "another audit settles it"
        assert not notes_of(guard, now_ms)


def test_doubts_that_an_audit_has_settled_stay_in_doubt_if_its_replica_left_again_unnoted() -> None:
    """The note that it left was lost with the round; a guard that comes next must know of it."""
    guard = Guard("guard", CONFIG)
    doubts = (Doubt(0, 3, LEADER_CHANGED),)
    note = Note("t", 1, "guard", "frozen", "id", Lags("5"), False, 0, 0, doubts=doubts)
    guard.handle(Recalled(1_000, ((0, *encode(note)), (1, *AUDITED))))
    for second, sight in enumerate((BACK, BACK, AWAY, BACK, BACK, BACK), 1):
        guard.handle(Seen(second * 1_000, frozenset({1, 2, 3}), {"t": sight}, "ab"[second % 2]))
    (kept,) = notes_of(guard, 6_000)
    assert kept.doubts == doubts and kept.unwell == 2
