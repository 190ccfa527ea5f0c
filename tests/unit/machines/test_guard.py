"""What the guard decides, told as stories in a world without faults (`guard_world`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sexton.machines import guard_decisions
from sexton.machines.guard import UNSEEN, Guard
from sexton.machines.guard_events import GuardConfig
from sexton.machines.guard_notes import (
    FOREVER,
    Audited,
    Hold,
    Lags,
    LastSeen,
    Maintenance,
    Note,
    Saying,
    encode,
)
from sexton.machines.guard_promise import findings
from sexton.machines.guard_watched import Watched
from tests.unit.machines.guard_world import CONFIG, Life, World

NOT_SET = Lags()
DAY_MS = 86_400_000  # as long as this world's topics keep tombstones


def quiet_world(config: GuardConfig = CONFIG, own: Lags = NOT_SET) -> World:
    world = World(0, config, faults=False)
    for topic in world.topics.values():
        topic.own = topic.truth = own
    return world


def let_pass(world: World, ms: int) -> None:
    until_ms = world.now_ms + ms
    while world.now_ms < until_ms:
        world.step()


def say(world: World, saying: Saying) -> None:
    world.log.append(encode(saying))


def codes(life: Life) -> set[str]:
    return {finding.code for finding in findings(life.guard)}


def in_force(life: Life, topic: str = "t0") -> Note:
    entry = life.guard.memory.in_force(topic)
    assert entry is not None
    return entry.note


def test_both_lags_are_raised_and_set_back_as_they_were() -> None:
    for own in (Lags(), Lags("5", None), Lags(None, "60"), Lags("5", "60"), Lags(None, FOREVER)):
        world = quiet_world(own=own)
        world.start_guard()
        let_pass(world, 3_000)
        world.leave("t0")
        let_pass(world, 8_000)
        raised = FOREVER if own.max not in (None, FOREVER) else own.max
        assert world.topics["t0"].own == Lags(FOREVER, raised)
        assert world.topics["t1"].own == own, "nothing is wrong with it"
        world.come_back("t0")
        let_pass(world, CONFIG.hold_ms - 2_000)
        assert world.topics["t0"].own.min == FOREVER, "not before the hold-down is over"
        let_pass(world, 20_000)
        assert world.topics["t0"].own == own


def test_what_somebody_unfroze_is_told_and_left_alone() -> None:
    world = quiet_world(own=Lags("5"))
    life = world.start_guard()
    world.leave("t0")
    let_pass(world, 8_000)
    world.wish("t0", Lags("7"))
    let_pass(world, 20_000)
    assert world.topics["t0"].own == Lags("7")
    assert "guard-drift" in codes(life)
    world.come_back("t0")
    let_pass(world, 20_000)
    assert world.topics["t0"].own == Lags("7")
    assert life.guard.memory.in_force("t0") is None


def test_if_asked_it_is_frozen_again_and_the_new_wish_is_kept() -> None:
    world = quiet_world(replace(CONFIG, reapply=True), Lags("5", "60"))
    life = world.start_guard()
    let_pass(world, 3_000)
    world.leave("t0")
    let_pass(world, 8_000)
    world.wish("t0", Lags("7", None))
    let_pass(world, 8_000)
    assert world.topics["t0"].own.min == FOREVER
    assert in_force(life).previous == Lags("7", None)
    world.come_back("t0")
    let_pass(world, 20_000)
    assert world.topics["t0"].own == Lags("7", None)


@pytest.mark.parametrize("reapply", [True, False])
def test_a_broker_that_is_cut_off_does_not_hide_that_somebody_unfroze_it(reapply: bool) -> None:
    """It goes on to say that the topic is frozen; the other two say otherwise."""
    world = quiet_world(replace(CONFIG, reapply=reapply), Lags("5"))
    life = world.start_guard()
    let_pass(world, 3_000)
    world.leave("t0")
    let_pass(world, 8_000)
    world._cut_off_or_heal()
    world.wish("t0", Lags("7"))
    let_pass(world, 15_000)
    if reapply:
        assert world.topics["t0"].own.min == FOREVER
        assert in_force(life).previous == Lags("7")
    else:
        assert "guard-drift" in codes(life)


def test_nor_does_one_that_knows_an_earlier_topic_of_that_name() -> None:
    world = quiet_world(replace(CONFIG, reapply=True), Lags("5"))
    life = world.start_guard()
    let_pass(world, 3_000)
    world._cut_off_or_heal()
    world.topics["t0"] = replace(world.topics["t0"], topic_id="id-new")
    let_pass(world, 3_000)
    world.leave("t0")
    let_pass(world, 12_000)
    assert world.topics["t0"].own.min == FOREVER
    world.wish("t0", Lags("7"))
    let_pass(world, 15_000)
    assert world.topics["t0"].own.min == FOREVER
    assert in_force(life).previous == Lags("7")


def test_a_topic_that_others_froze_is_left_alone() -> None:
    world = quiet_world(own=Lags(FOREVER))
    life = world.start_guard()
    world.leave("t0")
    let_pass(world, 10_000)
    assert life.guard.memory.in_force("t0") is None
    assert "guard-foreign-freeze" in codes(life)
    world.come_back("t0")
    let_pass(world, 20_000)
    assert world.topics["t0"].own == Lags(FOREVER)


def test_a_replica_in_doubt_holds_the_topic_until_somebody_has_looked() -> None:
    world = quiet_world()
    world.leave("t0")  # before anybody guards it
    life = world.start_guard()
    let_pass(world, 8_000)
    assert [doubt.replica for doubt in in_force(life).doubts] == [3]
    assert "guard-doubt" in codes(life)
    world.come_back("t0")
    let_pass(world, 30_000)
    assert world.topics["t0"].own.min == FOREVER
    world.settle()  # where somebody looks
    assert world.topics["t0"].own == Lags()


@pytest.mark.parametrize(
    ("ahead_ms", "doubted"), [(-1_000, False), (CONFIG.blind_ms, False), (86_400_000, True)]
)
def test_a_guard_whose_clock_was_wrong_does_not_vouch_for_the_future(
    ahead_ms: int, doubted: bool
) -> None:
    """It noted when it last saw all well. Until that time has come every absence would seem to have
    begun just now; clocks that differ a little are no matter."""
    world = quiet_world()
    say(world, LastSeen(world.now_ms + ahead_ms))
    world.leave("t0")
    life = world.start_guard()
    let_pass(world, 8_000)
    assert world.topics["t0"].own.min == FOREVER
    assert ("guard-doubt" in codes(life)) is doubted


def test_nor_does_it_speak_for_those_that_came_after_it() -> None:
    world = quiet_world()
    say(world, LastSeen(world.now_ms + 86_400_000))
    say(world, LastSeen(world.now_ms - 1_000))
    world.leave("t0")
    life = world.start_guard()
    let_pass(world, 8_000)
    assert "guard-doubt" not in codes(life)


@pytest.mark.parametrize(
    ("last_seen_ago_ms", "told"), [(None, False), (DAY_MS - 60_000, False), (DAY_MS, True)]
)
def test_that_nobody_guarded_for_long_is_told_though_all_is_well_now(
    last_seen_ago_ms: int | None, told: bool
) -> None:
    """A replica that left and came back meanwhile has left no trace, and may lack deletions."""
    world = quiet_world()
    world.now_ms += 3 * DAY_MS
    if last_seen_ago_ms is not None:
        say(world, LastSeen(world.now_ms - last_seen_ago_ms))
    life = world.start_guard()
    let_pass(world, 8_000)
    assert ("guard-gap" in codes(life)) is told
    assert all(topic.own == NOT_SET for topic in world.topics.values()), "there is no doubt either"


def test_a_guard_that_was_blind_for_long_says_so() -> None:
    world = quiet_world()
    life = world.start_guard()
    let_pass(world, 8_000)
    assert "guard-gap" not in codes(life)
    world.now_ms += DAY_MS
    let_pass(world, 60_000)
    assert "guard-gap" in codes(life)
    assert all(topic.own == NOT_SET for topic in world.topics.values())


def test_a_broker_that_was_away_is_one_thing_to_look_at_however_many_partitions() -> None:
    world = quiet_world()
    world.leave("t0")
    life = world.start_guard()
    let_pass(world, 8_000)
    (first,) = in_force(life).doubts
    others = [replace(first, partition=number) for number in (1, 2)]
    say(world, replace(in_force(life), doubts=(first, *others, replace(first, replica=2))))
    let_pass(world, 3_000)
    found = [each for each in findings(life.guard) if each.code == "guard-doubt"]
    assert [(each.where, each.evidence["partitions"]) for each in found] == [
        ("t0 on broker 2", "0"),
        ("t0 on broker 3", "0,1,2"),
    ]


def test_a_leader_that_changes_while_a_replica_is_filled_holds_the_topic() -> None:
    world = quiet_world()
    life = world.start_guard()
    let_pass(world, 3_000)
    topic = world.topics["t0"]
    world.leave("t0")
    let_pass(world, 5_000)
    topic.isr, topic.leader_epoch = (2, 1), 1
    let_pass(world, 3_000)
    world.come_back("t0")
    let_pass(world, 30_000)
    assert topic.own.min == FOREVER
    assert "guard-doubt" in codes(life)


def test_another_guard_goes_on_where_one_was_killed() -> None:
    world = quiet_world(own=Lags("5", "60"))
    first = world.start_guard()
    world.leave("t0")
    let_pass(world, 8_000)
    world.kill(first)
    second = world.start_guard()
    let_pass(world, 5_000)
    assert in_force(second).by == first.guard.name, "there is nothing to add"
    world.come_back("t0")
    let_pass(world, 3_000)
    say_audited(world)
    let_pass(world, 30_000)
    assert world.topics["t0"].own == Lags("5", "60")


def filled_twice_and_audited_once() -> tuple[World, Life]:
    """Filled under two leaders twice in one cycle, and looked at only after the first time."""
    world = quiet_world()
    life = world.start_guard()
    topic = world.topics["t0"]
    for epoch in (1, 2):
        let_pass(world, 3_000)
        world.leave("t0")
        let_pass(world, 5_000)
        topic.isr, topic.leader_epoch = topic.isr[::-1], epoch
        let_pass(world, 3_000)
        world.come_back("t0")
        if epoch == 1:
            let_pass(world, 3_000)
            say_audited(world)
            assert in_force(life).cycle == 1
    let_pass(world, 60_000)
    return world, life


def test_an_audit_says_nothing_of_a_replica_that_leaves_after_it() -> None:
    world, life = filled_twice_and_audited_once()
    topic = world.topics["t0"]
    assert topic.own.min == FOREVER
    assert "guard-doubt" in codes(life)
    say_audited(world)
    let_pass(world, 30_000)
    assert topic.own.min is None


def test_without_that_rule_the_topic_is_thawed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_decisions, "_has_left", lambda _case, _note: False)
    world, _life = filled_twice_and_audited_once()
    assert world.topics["t0"].own.min is None


def say_audited(world: World) -> None:
    for name in world.topics:
        say(world, Audited(name, 1))


def test_everything_is_frozen_when_the_cluster_is_seen_again() -> None:
    world = quiet_world()
    life = world.start_guard()
    let_pass(world, 3_000)
    world.now_ms += CONFIG.blind_ms
    let_pass(world, 4_000)
    assert [topic.own.min for topic in world.topics.values()] == [FOREVER] * 3
    assert in_force(life).why == (UNSEEN,)
    let_pass(world, 30_000)
    assert [topic.own.min for topic in world.topics.values()] == [None] * 3


def test_nothing_is_thawed_by_what_was_seen_before_the_guard_stood_still() -> None:
    """Its machine may sleep between a look and what follows from it; the hold-down went on."""
    world = quiet_world()
    world.leave("t0")
    life = world.start_guard()
    let_pass(world, 8_000)
    world.come_back("t0")
    say_audited(world)
    while life.guard.topics["t0"].well_rounds < 3:
        world.step()
    assert world.topics["t0"].own.min == FOREVER, "the hold-down is not over"
    world.leave("t0")
    world.now_ms += CONFIG.blind_ms
    let_pass(world, 20_000)
    set_to = [line for line in world.story if "t0 is set to" in line]
    assert len(set_to) == 1, "frozen once, and never set back"


def test_what_people_ask_for_is_done() -> None:
    world = quiet_world()
    world.start_guard()
    say(world, Hold("t1", True, 0))
    let_pass(world, 20_000)
    assert [topic.own.min for topic in world.topics.values()] == [None, FOREVER, None]
    say(world, Hold("t1", False, 0))
    say(world, Maintenance(world.now_ms + 30_000))
    let_pass(world, 15_000)
    assert [topic.own.min for topic in world.topics.values()] == [FOREVER] * 3
    let_pass(world, 40_000)
    assert [topic.own.min for topic in world.topics.values()] == [None] * 3


def test_what_was_asked_for_a_topic_is_not_asked_for_the_next_of_its_name() -> None:
    """Else it would be frozen from its first day on, and nobody would know why."""
    world = quiet_world()
    life = world.start_guard()
    say(world, Hold("t1", True, 0, "id-1"))
    let_pass(world, 20_000)
    assert world.topics["t1"].own.min == FOREVER
    deleted = world.topics.pop("t1")
    let_pass(world, 15_000)
    world.topics["t1"] = replace(deleted, topic_id="id-new", own=NOT_SET, truth=NOT_SET)
    let_pass(world, 20_000)
    assert world.topics["t1"].own == NOT_SET and life.guard.memory.in_force("t1") is None
    say(world, Hold("t1", True, 0, "id-new"))
    let_pass(world, 20_000)
    assert world.topics["t1"].own.min == FOREVER, "the control"


def test_what_is_frozen_again_is_frozen_since_then() -> None:
    """Its last cycle is not over yet, but cleaning went on in between."""
    world = quiet_world()
    life = world.start_guard()
    say(world, Hold("t1", True, 0))
    let_pass(world, 20_000)
    first_ms = in_force(life, "t1").since_ms
    say(world, Hold("t1", False, 0))
    while world.topics["t1"].own.min == FOREVER:
        world.step()
    again_ms = world.now_ms
    say(world, Maintenance(world.now_ms + 60_000))
    let_pass(world, 20_000)
    assert world.topics["t1"].own.min == FOREVER
    assert in_force(life, "t1").cycle == 1
    assert in_force(life, "t1").since_ms >= again_ms > first_ms


def test_what_was_not_thawed_yet_is_frozen_since_the_beginning() -> None:
    world = quiet_world()
    life = world.start_guard()
    say(world, Hold("t1", True, 0))
    let_pass(world, 20_000)
    since_ms = in_force(life, "t1").since_ms
    say(world, replace(in_force(life, "t1"), state="thawing", by="another"))
    say(world, Maintenance(world.now_ms + 60_000))
    let_pass(world, 20_000)
    assert (in_force(life, "t1").state, in_force(life, "t1").since_ms) == ("frozen", since_ms)


def test_a_topic_that_is_gone_is_forgotten() -> None:
    world = quiet_world()
    life = world.start_guard()
    world.leave("t0")
    let_pass(world, 8_000)
    del world.topics["t0"]
    let_pass(world, 15_000)
    assert life.guard.memory.in_force("t0") is None


def test_a_topic_that_was_only_out_of_sight_is_set_back_when_it_is_seen_again() -> None:
    """An ACL was taken away for a while: brokers leave out what a user may not describe."""
    world = quiet_world(own=Lags("5", "60"))
    life = world.start_guard()
    let_pass(world, 3_000)
    world.leave("t0")
    let_pass(world, 8_000)
    hidden = world.topics.pop("t0")
    let_pass(world, 15_000)
    assert life.guard.memory.in_force("t0") is None
    world.topics["t0"] = hidden
    let_pass(world, 10_000)
    assert in_force(life).previous == Lags("5", "60")
    assert world.topics["t0"].own == Lags(FOREVER, FOREVER)
    world.come_back("t0")
    let_pass(world, 30_000)
    assert world.topics["t0"].own == Lags("5", "60")
    assert life.guard.memory.in_force("t0") is None


def test_what_others_freeze_after_a_cycle_was_over_is_theirs() -> None:
    world = quiet_world(own=Lags("5"))
    life = world.start_guard()
    let_pass(world, 3_000)
    world.leave("t0")
    let_pass(world, 8_000)
    world.come_back("t0")
    let_pass(world, 30_000)
    assert life.guard.memory.in_force("t0") is None
    world.wish("t0", Lags(FOREVER))
    let_pass(world, 20_000)
    assert life.guard.memory.in_force("t0") is None
    assert world.topics["t0"].own == Lags(FOREVER)


def test_runs_that_do_not_stay_count_the_hold_down_together() -> None:
    config = replace(CONFIG, durable_hold=True, late_ms=500, patience_ms=500)
    world = quiet_world(config, Lags("5"))

    def visit() -> None:
        life = world.start_guard()
        let_pass(world, 3_000)
        world.kill(life)
        world.now_ms += 10_000

    visit()
    world.leave("t0")
    visit()
    assert world.topics["t0"].own.min == FOREVER
    world.come_back("t0")
    visit()
    assert world.topics["t0"].own.min == FOREVER, "this one has seen it well for the first time"
    visit()
    visit()
    assert world.topics["t0"].own == Lags("5")
    assert Guard("reader", config).memory.in_force("t0") is None


@pytest.mark.parametrize("why", ["changes get lost", "brokers do not agree", "neither"])
def test_a_topic_that_should_be_frozen_for_long_and_is_not_is_told(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No controller answers, or one of two brokers is cut off from it. The promise is broken."""
    monkeypatch.setattr(World, "_judge", lambda _: None)  # who would call that a mistake
    world = quiet_world()
    life = world.start_guard()
    let_pass(world, 3_000)
    with pytest.MonkeyPatch.context() as broken:
        if why == "changes get lost":
            broken.setattr(World, "_alter", lambda *_: None)
        elif why == "brokers do not agree":
            broken.setattr(Watched, "agreement", lambda _: None)
        world.leave("t0")
        let_pass(world, life.guard.config.reaction_ms - 1_000)
        assert "guard-late" not in codes(life), "it has so much time"
        let_pass(world, 4_000)
        is_frozen = world.topics["t0"].own.min == FOREVER
        assert is_frozen == (why == "neither")
        told = [finding.where for finding in findings(life.guard) if finding.code == "guard-late"]
        assert told == ([] if is_frozen else ["t0"])
    let_pass(world, 8_000)
    assert world.topics["t0"].own.min == FOREVER
    assert "guard-late" not in codes(life)


def test_what_cannot_be_promised_is_named() -> None:
    slow = replace(CONFIG, interval_ms=2 * 86_400_000)
    world = quiet_world(slow, Lags(None, "60000"))
    life = world.start_guard()
    let_pass(world, 3_000)
    assert {"guard-too-slow", "guard-suspends-deadline"} <= codes(life)
    world = quiet_world()
    life = world.start_guard()
    let_pass(world, 3_000)
    assert codes(life) == set()
