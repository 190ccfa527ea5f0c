"""Which replicas are compared with which, and up to where?"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.replica import ReplicaOffsets
from sexton.client.topology import PartitionPlace, Topic, Topology
from sexton.survey import plan as plan_module
from sexton.survey.plan import Group, PartitionPlan, Wanted, _offset_of, grouped, plan

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


def test_where_nothing_is_deleted_the_leader_says_where_the_log_begins() -> None:
    found = grouped(
        AT, True, [1, 2], stands((1, 10, 90, 90), (2, 40, 90, 90), (3, 0, 80, 80)),
        start=0, seed=1, leader=1, deletes=False,
    )  # fmt: skip
    assert told(list(found)) == [((1, 2), 10, 90), ((1, 3), 10, 80)]


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


@dataclass
class Asked:
    """A client whose replicas say where a time is; None: that one fails."""

    offsets: dict[int, int | None]

    def replica(self, _partition: TopicPartition, node: int) -> Any:
        return Told(self.offsets[node])


@dataclass
class Told:
    offset: int | None

    async def offset_at(self, _time_ms: int) -> int:
        if self.offset is None:
            raise PeerError("broker", "is away")
        return self.offset


def since(offsets: dict[int, int | None], *replicas: tuple[int, int, int, int]) -> tuple[int, Any]:
    client = cast("Client", Asked(offsets))
    return asyncio.run(_offset_of(client, AT, stands(*replicas), 1_000))


BOTH = (1, 0, 90, 90), (2, 0, 90, 90)


def test_a_time_is_where_any_replica_has_its_first_record() -> None:
    assert since({1: 70, 2: 40}, *BOTH) == (40, {})


def test_one_that_has_nothing_since_then_does_not_widen_it() -> None:
    assert since({1: 70, 2: 72, 3: 30}, *BOTH, (3, 0, 30, 30)) == (70, {})
    assert since({1: 90, 2: 90}, *BOTH) == (90, {}), "nobody has: all is older"


def test_one_that_cannot_say_is_named_and_the_others_are_compared() -> None:
    assert since({1: 70, 2: None}, *BOTH) == (70, {2: "broker: is away"})
    assert since({1: None, 2: None}, *BOTH)[1].keys() == {1, 2}


# ── a moment later ──


def planned(
    monkeypatch: pytest.MonkeyPatch, *looks: dict[int, ReplicaOffsets]
) -> list[tuple[tuple[int, ...], int, int]]:
    """The groups of a partition whose replicas stand so, at one look after the other."""
    left = list(looks)
    place = PartitionPlace(AT, 1, 0, (1, 2, 3), (1, 2, 3), ())
    topology = Topology("c", 1, {}, {AT.topic: Topic(AT.topic, bytes(16), False, {0: place})})

    class Asks:
        async def topology(self, *_: object) -> Topology:
            return topology

    async def configs(*_: object) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        return {AT.topic: {"cleanup.policy": "compact"}}, {}

    async def look(*_: object) -> tuple[dict[int, ReplicaOffsets], tuple[()]]:
        return left.pop(0), ()

    async def silent(*_: object) -> dict[int, str]:
        return {}

    async def sizes(_client: object, plans: Sequence[PartitionPlan]) -> list[PartitionPlan]:
        return list(plans)

    told_by = {"_configs": configs, "look": look, "_silent": silent, "_with_sizes": sizes}
    for name, tells in told_by.items():
        monkeypatch.setattr(plan_module, name, tells)
    monkeypatch.setattr(plan_module, "NEWS_S", 0.0)
    wanted = Wanted("nowhere:1", topics=(AT.topic,))
    (found,) = asyncio.run(plan(cast("Client", Asks()), wanted, seed=1)).partitions
    assert not left
    return told(list(found.groups))


def test_a_pinned_one_does_not_hold_others_back_beside_live_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its high watermark is always a little behind that of its leader."""
    first = stands((1, 0, 90, 90), (2, 0, 88, 88), (3, 0, 5, 85))
    then = stands((1, 0, 120, 120), (2, 0, 118, 118), (3, 0, 5, 115))
    assert planned(monkeypatch, first, then) == [((1, 2), 0, 118), ((1, 3), 0, 5)]


def test_one_that_waits_for_a_transaction_which_ended_meanwhile_is_not_taken_for_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = stands((1, 0, 90, 90), (2, 0, 88, 88), (3, 0, 5, 85))
    then = stands((1, 0, 120, 120), (2, 0, 118, 118), (3, 0, 112, 115))
    assert planned(monkeypatch, first, then) == [((1, 2, 3), 0, 112)]
