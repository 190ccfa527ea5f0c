"""Mistakes to plant in the brokers, to see whether the chaos run finds them.

A checker that has never found anything proves nothing. While a plant is in place, functions of the
real brokers are others; afterwards they are as before:

    hunt = HUNTS["acknowledged-at-once"]
    with planted("acknowledged-at-once"):
        chaos(1, plan=hunt.plan, enough=hunt.enough)      must end with a violation

Each has a plan of faults, and something that clients must have done meanwhile, with which it shows
nearly every time. The same plans without it find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sexton.log import producers
from sexton.log.partition import PartitionLog
from sexton.log.producers import AppendedBatch
from sexton.log.reading import Read
from sexton.machines import replication
from sexton.machines.offset_messages import NO_PRODUCER_ID, Marker, OffsetRecord
from sexton.machines.offset_table import Key, OffsetTable
from sexton.node.outside import Caller
from sexton.node.produce import Produce
from sexton.protocol.messages.produce import ProduceRequest
from sexton.records.layout import BatchHeader
from tests.chaos.history import Fate, History
from tests.chaos.nemesis import Fault, busy_leader_dies, elect, hasty_return
from tests.patching import Patch, Plant, patching

Enough = Callable[[History], bool]


def faults_are_enough(_history: History) -> bool:
    return True


def some_are_aborted(history: History) -> bool:
    return history.ended(Fate.NOT_DONE) >= 6


def copies_are_given_up(history: History) -> bool:
    return history.given_up >= 2


@dataclass(frozen=True, slots=True)
class Hunt:
    plant: Plant
    plan: tuple[Fault, ...]
    enough: Enough
    finds: frozenset[str]  # any of these is what it does


HUNTS: dict[str, Hunt] = {}


def hunted(
    *finds: str, plan: tuple[Fault, ...], enough: Enough = faults_are_enough
) -> Callable[[Plant], Plant]:
    def enter(plant: Plant) -> Plant:
        HUNTS[plant.__name__.replace("_", "-")] = Hunt(plant, plan, enough, frozenset(finds))
        return plant

    return enter


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The mistake of that name is in the brokers meanwhile."""
    with patching() as patch:
        HUNTS[name].plant(patch)
        yield


# ── replication ──

LEADER_DIES = (busy_leader_dies, busy_leader_dies)
COMES_BACK = (hasty_return,)
CALM = (elect, elect)


@hunted("lost-write", plan=LEADER_DIES)
def acknowledged_at_once(patch: Patch) -> None:
    """A leader answers acks=all when it has the records itself."""

    def handle(self: Produce, caller: Caller, request: ProduceRequest, version: int) -> None:
        if request.transactional_id is None:
            request = replace(request, acks=1)
        right(self, caller, request, version)

    right = patch(Produce, "handle", handle)


@hunted("lost-write", "moved-write", plan=COMES_BACK)
def in_sync_at_first_fetch(patch: Patch) -> None:
    """A follower joins the ISR before it has what was acknowledged without it."""

    def may_join(leader: replication.Leader, node: int) -> bool:
        return node in leader.fetchers and node not in leader.membership.isr

    patch(replication.Leader, "_may_join", may_join)


@hunted("duplicate", plan=LEADER_DIES)
def repeats_not_recognised(patch: Patch) -> None:
    """A batch that is sent again is appended again."""

    def repeat(_producer: producers.Producer, _header: BatchHeader) -> AppendedBatch | None:
        return None

    def check_data(*_what: object) -> None:
        pass

    patch(producers, "_repeat", repeat)
    patch(producers, "_check_data", check_data)


# ── transactions ──


@hunted("aborted-read", plan=CALM, enough=some_are_aborted)
def aborted_not_told(patch: Patch) -> None:
    """A read_committed fetch does not say which of its transactions were aborted."""

    def read(log: PartitionLog, offset: int, max_bytes: int, **more: Any) -> Read:
        found: Read = right(log, offset, max_bytes, **more)
        return Read(found.slice)

    right = patch(PartitionLog, "read", read)


@hunted("aborted-read", plan=CALM, enough=some_are_aborted)
def stable_up_to_the_high_watermark(patch: Patch) -> None:
    """read_committed readers get what belongs to open transactions."""
    patch(PartitionLog, "last_stable_offset", property(lambda log: log.high_watermark))


@hunted("not-copied", plan=CALM, enough=copies_are_given_up)
def offsets_outside_of_transactions(patch: Patch) -> None:
    """What a transaction says of a group's offsets counts at once, whether it commits or not."""

    def apply(table: OffsetTable, entry: OffsetRecord | Marker, place: int) -> list[Key]:
        if isinstance(entry, OffsetRecord):
            entry = replace(entry, producer_id=NO_PRODUCER_ID)
        keys: list[Key] = right(table, entry, place)
        return keys

    right = patch(OffsetTable, "apply", apply)
