"""Ordered retry on one broker, the embedded one and Apache Kafka: a storm, calm, starts, and size.

    storm       10,000 messages over 1,000 keys, each of which fails once, without backoff: from the
                first one sent until all are handled and every key is free
    calm        nothing fails: beside a plain loop that reads, writes and commits in transactions
                of the same size
    cold start  1,000,000 lock records of which 10,000 are held: from assignment to ready
    memory      what a held lock takes in an instance
    size        of the lock topic after 1,000,000 locks and releases, cleaned

The clusters are processes of their own; the instance runs in this one.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.contestants import Contestant, apache_kafka, sexton_up
from benchmarks.measure import By, race
from benchmarks.registry import Setting
from benchmarks.result import AtMostSeconds, Result, TimesAsFast, TimesTheMemory, Unit
from benchmarks.retry_calm import ours, plain
from benchmarks.retry_start import cold_start, memory
from benchmarks.retry_storm import storm
from benchmarks.retry_topic import lock_topic_sizes

STORM_S = 1.1  # kafka-resilience, a snapshot of December 2025: 11.0 s on this class of machine
COLD_START_S = 1.0
CALM = 1 / 1.1
WARM_ROUNDS = 5  # Java compiles what it has run a lot: the first storm takes twice as long
MOST_ROUNDS = 5
# Times the size of a topic that never held anything but what is held; without compaction, ten.
MOST_GROWN = 2.0


def run(setting: Setting) -> Iterator[Result]:
    rounds = min(setting.repeat, MOST_ROUNDS)
    with sexton_up(1) as at:
        yield from _on(at, "embedded cluster", rounds)
    with apache_kafka(1, keep=setting.keep) as at:
        yield from _on(at, "Apache Kafka", rounds)


def _on(at: Contestant, where: str, rounds: int) -> Iterator[Result]:
    for _ in range(WARM_ROUNDS):
        storm(at)
    best = race({"": lambda: storm(at)}, By.WALL, rounds)[""]
    goal = AtMostSeconds(STORM_S)
    yield Result("retry", f"storm, {where}", By.WALL, best, goal=goal, unit=Unit.DURATION)

    for _ in range(WARM_ROUNDS):
        ours(at), plain(at)
    both = race({"ours": lambda: ours(at), "plain": lambda: plain(at)}, By.WALL, rounds)
    yield Result(
        "retry", f"nothing fails, {where}", By.WALL, both["ours"], "plain transactions",
        both["plain"], TimesAsFast(CALM), Unit.EVENTS,
    )  # fmt: skip

    best = race({"": lambda: cold_start(at)}, By.WALL, rounds)[""]
    case = f"cold start, 1 M lock records, 10,000 held, {where}"
    goal = AtMostSeconds(COLD_START_S)
    yield Result("retry", case, By.WALL, best, goal=goal, unit=Unit.DURATION)

    cleaned, alone = lock_topic_sizes(at)
    case = f"size of the lock topic after 1 M cycles, 100,000 held, {where}"
    goal_size = TimesTheMemory(MOST_GROWN)
    yield Result("retry", case, By.MEMORY, cleaned, "what is held", alone, goal_size)
    if where != "Apache Kafka":
        yield Result("retry", "memory of 100,000 held locks", By.MEMORY, memory())
