"""Which replicas are compared with which, and up to where?"""

from __future__ import annotations

from sexton.base.partitions import TopicPartition
from sexton.client.replica import ReplicaOffsets
from sexton.survey.plan import Group, grouped

AT = TopicPartition("orders", 0)


def stands(*replicas: tuple[int, int, int, int]) -> dict[int, ReplicaOffsets]:
    """(node, log start, last stable, high watermark)"""
    return {
        node: ReplicaOffsets(node, start, stable, watermark, watermark)
        for node, start, stable, watermark in replicas
    }


def groups(isr: list[int], *replicas: tuple[int, int, int, int], start: int = 0) -> list[Group]:
    return list(grouped(AT, True, isr, stands(*replicas), start=start, seed=1))


def told(found: list[Group]) -> list[tuple[tuple[int, ...], int, int]]:
    return [(group.nodes, group.scope.start, group.scope.end) for group in found]


def test_those_that_keep_up_are_compared_to_the_lowest_last_stable_offset() -> None:
    found = groups([1, 2, 3], (1, 0, 90, 90), (2, 0, 88, 88), (3, 0, 90, 90))
    assert told(found) == [((1, 2, 3), 0, 88)]


def test_the_highest_log_start_counts() -> None:
    found = groups([1, 2], (1, 10, 90, 90), (2, 40, 90, 90))
    assert told(found) == [((1, 2), 40, 90)]


def test_one_outside_the_isr_does_not_hold_the_others_back() -> None:
    found = groups([1, 2], (1, 0, 90, 90), (2, 0, 90, 90), (3, 0, 30, 30))
    assert told(found) == [((1, 2), 0, 90), ((1, 3), 0, 30)]


def test_nor_does_one_whose_last_stable_offset_is_pinned() -> None:
    """Its log is past where the others know the end of the transaction."""
    found = groups([1, 2, 3], (1, 0, 90, 90), (2, 0, 90, 90), (3, 0, 5, 90))
    assert told(found) == [((1, 2), 0, 90), ((1, 3), 0, 5)]


def test_one_that_only_lags_is_not_taken_for_pinned() -> None:
    found = groups([1, 2], (1, 0, 90, 90), (2, 0, 60, 80))
    assert told(found) == [((1, 2), 0, 60)]


def test_since_moves_the_start() -> None:
    found = groups([1, 2], (1, 0, 90, 90), (2, 0, 90, 90), start=70)
    assert told(found) == [((1, 2), 70, 90)]


def test_a_start_past_the_end_leaves_nothing_to_compare() -> None:
    found = groups([1, 2], (1, 0, 90, 90), (2, 0, 90, 90), start=200)
    assert told(found) == [((1, 2), 200, 200)]


def test_without_an_answer_there_is_nothing() -> None:
    assert groups([1, 2]) == []
