"""Order holds in every small history of ordered retry; each mistake of the design's table shows.

pytest tests/property/test_retry_model.py -k mistake -s      prints the shortest stories
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from sexton.machines.retry_settings import Backoff, Settings
from tests.property.retry_group import BOTH
from tests.property.retry_growth import Growing, Reader, search_growth
from tests.property.retry_mistakes import WITHOUT_TRANSACTIONS, Mistake
from tests.property.retry_search import Rules, search
from tests.property.retry_world import Limits

NONE: dict[str, Any] = {
    "failures": 0, "crashes": 0, "rebalances": 0, "late": 0, "aborts": 0, "unknown": 0,
    "compactions": 0, "polls": (0, 2),
}  # fmt: skip


def limits(**some: Any) -> Limits:
    return Limits(**(NONE | some))


def settings(**some: Any) -> Settings:
    return Settings(backoff=Backoff(0), **({"max_attempts": 9} | some))


PLAIN = settings()


@dataclass(frozen=True)
class Small:
    """One small world; `heal`: in every so-many-th state one asks whether it would end well."""

    script: str
    limits: Limits
    settings: Settings = PLAIN
    heal: int = 10


WORLDS = {
    "a crash at any point": Small("aa", limits(failures=2, crashes=1, rebalances=1)),
    "a marker that is late": Small("aa", limits(failures=2, rebalances=1, late=1)),
    "another key meanwhile": Small("aab", limits(failures=1, rebalances=1), heal=5),
    "aborted and unknown": Small("aa", limits(failures=1, rebalances=1, aborts=1, unknown=1)),
    "the partition comes back": Small("aa", limits(failures=1, rebalances=2)),
    "compaction": Small("aaa", limits(failures=2, rebalances=1, compactions=1, atomic=True)),
    "cut short": Small("aaa", limits(failures=2, rebalances=1, crashes=1, cuts=1, atomic=True)),
    "one id per task": Small(
        "aa", limits(failures=1, rebalances=2), settings(ids_per_task=True), heal=5
    ),
    "freed at the ceiling": Small(
        "aab", limits(failures=2, rebalances=1, atomic=True), settings(max_attempts=2), heal=1
    ),
    "held at the ceiling": Small(
        "aab",
        limits(failures=3, rebalances=1, atomic=True),
        settings(max_attempts=2, at_ceiling="held"),
        heal=1,
    ),
    "held at once": Small(
        "aab",
        limits(failures=2, crashes=1, rebalances=1, atomic=True),
        settings(max_attempts=1, at_ceiling="held"),
        heal=1,
    ),
    "without transactions": Small(
        "aa", limits(failures=2, crashes=1, rebalances=1), settings(mode="compensating")
    ),
    "without transactions, compacted": Small(
        "aa",
        limits(failures=1, crashes=1, rebalances=1, compactions=1, atomic=True),
        settings(mode="compensating"),
    ),
}

LARGE = {
    "late": Small("aab", limits(failures=2, rebalances=1, late=1), heal=50),
    "unsure": Small(
        "aab", limits(failures=1, rebalances=1, crashes=1, aborts=1, unknown=1), heal=50
    ),
    "cut": Small("aaba", limits(failures=2, crashes=1, rebalances=1, cuts=1, atomic=True), heal=50),
    "compacted": Small(
        "aaba", limits(failures=2, rebalances=2, compactions=2, atomic=True), heal=50
    ),
    "without transactions": Small(
        "aab", limits(failures=2, crashes=1, rebalances=2), settings(mode="compensating"), heal=50
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_order_holds_in_every_small_history(name: str) -> None:
    world = WORLDS[name]
    found = search(Rules(world.script, world.limits, world.settings), world.heal)
    assert found.what is None, f"\n{found}"
    assert found.states > 100


@pytest.mark.soak
@pytest.mark.parametrize("name", LARGE)
def test_order_holds_in_larger_ones(name: str) -> None:
    world = LARGE[name]
    found = search(Rules(world.script, world.limits, world.settings), world.heal)
    assert found.what is None, f"\n{found}"


# ── mistakes ──

QUICK = {"atomic": True, "polls": (0, 1, 2)}
TWO_LOCKED = "0 starts up; 0 polls A B, runs A fails; 0 writes to lock; 0 writes to retry"


@dataclass(frozen=True)
class Planted:
    script: str
    limits: Limits
    what: str  # the search finds this
    heal: int = 0
    begin: str = ""
    ids_per_task: bool = False


PLANTED = {
    Mistake.DUAL_WRITE: Planted(
        "a", limits(failures=1, crashes=1, rebalances=1, **QUICK), "key a is locked for ever", 1
    ),
    Mistake.BOOLEAN: Planted("aaa", limits(failures=2, **QUICK), "C before B"),
    Mistake.COUNTED_TWICE: Planted("a", limits(failures=1, **QUICK), "key a is locked for ever", 1),
    Mistake.SKIPS_OWN: Planted(
        "aa", limits(failures=1, crashes=1, rebalances=1, **QUICK), "B before A"
    ),
    Mistake.BUSINESS_KEY: Planted(
        "aaa", limits(failures=2, rebalances=1, compactions=1, **QUICK), "C before B"
    ),
    Mistake.UUID_AND_COUNTER: Planted(
        "aaa", limits(failures=2, rebalances=1, compactions=1, **QUICK), "C before B"
    ),
    Mistake.NO_BARRIER: Planted("aa", limits(failures=1, rebalances=1, **QUICK), "B before A"),
    Mistake.REPUBLISH: Planted("aa", limits(failures=2, **QUICK), "B before A"),
    Mistake.RELEASE_REDONE: Planted(
        "aaa", limits(failures=3, rebalances=1, **QUICK), "C before B",
        begin=f"{TWO_LOCKED}; 0 commits offset 2",
    ),
    Mistake.STABLE_OFFSET_BARRIER: Planted(
        "aa", limits(failures=1, rebalances=1, late=1, polls=(0, 1)), "B before A"
    ),
    Mistake.END_BEFORE_OFFSETS: Planted(
        "aa", limits(failures=1, rebalances=1, polls=(0, 1)), "B before A"
    ),
    Mistake.ENDS_ASKED_FOR: Planted(
        "aa", limits(failures=1, rebalances=1, replaced=1, polls=(0, 1)), "B before A"
    ),
    Mistake.LOSS_NOT_NOTICED: Planted(
        "aa", limits(failures=1, rebalances=1, lost=1, polls=(0, 1)), "B before A", 1
    ),
    Mistake.NOT_REQUIRE_STABLE: Planted(
        "a", limits(rebalances=1), "the output of A is there twice"
    ),
    Mistake.SETTLES_WITHOUT_OFFSETS: Planted(
        "a", limits(failures=1, rebalances=1), "the output of A is there twice"
    ),
    Mistake.FENCED_BY_ID_ALONE: Planted(
        "a", limits(rebalances=1), "stuck: the owner has stopped, and the group does not know", 1,
        ids_per_task=True,
    ),
    Mistake.RELEASE_SEEN_EARLY: Planted(
        "aa", limits(failures=1, aborts=1, polls=(0, 1)), "B before A"
    ),
}  # fmt: skip


def planted_rules(mistake: Mistake, planted: Planted, wrong: bool) -> Rules:
    mode = "compensating" if mistake in WITHOUT_TRANSACTIONS else "transactional"
    chosen = settings(mode=mode, ids_per_task=planted.ids_per_task)
    return Rules(planted.script, planted.limits, chosen, mistake if wrong else None)


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.name.lower())
def test_a_mistake_of_the_table_is_found(mistake: Mistake) -> None:
    planted = PLANTED[mistake]
    found = search(planted_rules(mistake, planted, wrong=True), planted.heal, planted.begin)
    print(f"\n{mistake.value}\n{found}")
    assert found.what == planted.what


@pytest.mark.parametrize("mistake", PLANTED, ids=lambda mistake: mistake.name.lower())
def test_without_the_mistake_the_same_world_is_in_order(mistake: Mistake) -> None:
    planted = PLANTED[mistake]
    small = replace(planted, limits=replace(planted.limits, states=2_000))
    found = search(planted_rules(mistake, small, wrong=False), heal_every=10)
    assert found.what is None, f"\n{found}"


def test_a_main_topic_that_grows_under_the_locks_is_not_read() -> None:
    states, story = search_growth(Reader(messages=3, failures=2))
    assert story is None
    assert states > 100


def test_the_mistake_to_read_it_all_the_same_is_found() -> None:
    _, story = search_growth(Reader(messages=3, failures=2, checks=False))
    print(f"\n{Mistake.REPARTITIONED.value}", *(story or ()), sep="\n  ")
    assert story == [
        "A is written to partition 0",
        "the main topic grows",
        "B is written to partition 1",
        "B of 1 is handled",
    ]


def test_what_was_settled_before_it_grew_is_read_on() -> None:
    reader, world = Reader(messages=2, failures=0), Growing()
    for wanted in (
        "A is written to partition 0",
        "A of 0 is handled",
        "all three topics grow",
        "B is written to partition 1",
        "B of 1 is handled",
    ):
        world = dict(reader.moves(world))[wanted]
    assert world.handled == (0, 1)


def test_every_row_of_the_table_is_planted() -> None:
    assert {*PLANTED, Mistake.REPARTITIONED} == set(Mistake)


# ── walks: longer histories, at random ──


def walk(seed: int, mode: str, at_ceiling: str) -> None:
    chance = Random(seed)
    script = "".join(chance.choice("aab") for _ in range(chance.randint(4, 8)))
    many = Limits(
        failures=6, crashes=3, rebalances=4, late=3, aborts=2, unknown=2, compactions=4, cuts=3,
        replaced=1, polls=(0, 1, 3),
    )  # fmt: skip
    chosen = settings(mode=mode, at_ceiling=at_ceiling, max_attempts=chance.choice((1, 3, 9)))
    rules = Rules(script, many, chosen)
    world, story = rules.begin(), list[str]()
    for _step in range(chance.randint(5, 90)):
        moves = list(rules.moves(world))
        if not moves:
            break
        name, world = chance.choice(moves)
        story.append(name)
        if rules.wrong(world) is not None:
            break
    wrong = rules.wrong(world) or rules.stuck(world.copy(*BOTH))
    assert wrong is None, "\n".join([f"seed {seed}: {script}, {mode}", *story, f"⇒ {wrong}"])


@pytest.mark.parametrize("at_ceiling", ["freed", "held"])
@pytest.mark.parametrize("mode", ["transactional", "compensating"])
def test_order_holds_on_long_walks(mode: str, at_ceiling: str) -> None:
    for seed in range(100):
        walk(seed, mode, at_ceiling)


@pytest.mark.soak
@pytest.mark.parametrize("at_ceiling", ["freed", "held"])
@pytest.mark.parametrize("mode", ["transactional", "compensating"])
def test_order_holds_on_many_walks(mode: str, at_ceiling: str) -> None:
    for seed in range(1_000, 4_000):
        walk(seed, mode, at_ceiling)
