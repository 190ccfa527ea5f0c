"""What the guard knows, for people and programs: topics, why each is frozen, what it costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sexton.base.findings import Finding
from sexton.guard.disk import Costs
from sexton.machines.guard import Guard
from sexton.machines.guard_notes import Entry, Lags
from sexton.machines.guard_promise import findings, is_protected, will_be
from sexton.machines.guard_watched import Watched
from sexton.report import quantities

SET_BACK = "set back"  # it is as it was, and the notes are kept until nobody can come late
FREE = ("free", "not compacted", SET_BACK)
_UNITS = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))


@dataclass(frozen=True, slots=True)
class TopicStatus:
    topic: str
    state: str  # free, freezing, frozen, thawing, set back, unfrozen, frozen by others
    why: tuple[str, ...]
    since_ms: int | None
    previous: Lags | None  # what it is set back to
    protected: bool
    delete_retention_ms: int | None
    well_since_ms: int | None  # since when nothing is in the way of a thaw
    held_back_bytes: int | None
    noted_by: str | None
    doubts: int
    bare: bool = False  # a replica is or may be away, and it is not frozen


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    broker: int
    usable_bytes: int | None
    bytes_per_s: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that this guard has done."""

    at_ms: int
    what: str  # froze, thawed
    topic: str
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    now_ms: int
    guard: str
    cluster_id: str | None
    last_seen_ms: int | None
    not_seen: str | None
    reaction_ms: int
    hold_ms: int
    maintenance_until_ms: int | None
    panic: bool
    topics: tuple[TopicStatus, ...]  # compacted ones, those that are not free first
    brokers: tuple[BrokerStatus, ...]
    findings: tuple[Finding, ...]
    lately: tuple[Deed, ...] = ()  # what this guard did, the newest last

    @property
    def frozen(self) -> int:
        return sum(1 for topic in self.topics if topic.state not in FREE)

    @property
    def ok(self) -> bool:
        return self.not_seen is None and not any(f.severity == "error" for f in self.findings)


def status_of(
    guard: Guard,
    costs: Costs,
    now_ms: int,
    cluster_id: str | None = None,
    lately: Iterable[Deed] = (),
) -> Status:
    topics = [
        _topic(guard, watched, guard.memory.in_force(name), costs, now_ms)
        for name, watched in guard.topics.items()
        if watched.options is None or watched.options.compacted or guard.memory.in_force(name)
    ]
    topics.sort(key=lambda each: (each.state in FREE, each.topic))
    until_ms = guard.memory.maintenance_until_ms
    return Status(
        now_ms,
        guard.name,
        cluster_id,
        guard.last_seen_ms or None,
        guard.not_seen,
        guard.config.reaction_ms,
        guard.config.hold_ms,
        until_ms if until_ms > now_ms else None,
        guard.memory.panic is not None and guard.memory.panic.on,
        tuple(topics),
        tuple(_broker(costs, node) for node in sorted(guard.brokers)),
        tuple(findings(guard)),
        tuple(lately),
    )


def _topic(
    guard: Guard, watched: Watched, entry: Entry | None, costs: Costs, now_ms: int
) -> TopicStatus:
    name, options = watched.sight.name, watched.options
    state = will_be(watched, entry)
    note = entry.note if entry is not None else None
    held = note if state != SET_BACK else None
    wanted = guard.wanted(watched, now_ms)
    return TopicStatus(
        name,
        state,
        wanted or (held.why if held is not None else ()),
        held.since_ms if held is not None else None,
        note.previous if note is not None else None,
        is_protected(guard, watched),
        options.delete_retention_ms if options is not None else None,
        None if wanted else watched.well_since_ms,
        costs.held_back(name) if held is not None else None,
        note.by if note is not None else None,
        len(note.doubts) if note is not None else 0,
        guard.is_unprotected(watched),
    )


def _broker(costs: Costs, node: int) -> BrokerStatus:
    return BrokerStatus(
        node, costs.usable.get(node), costs.bytes_per_s(node), costs.seconds_left(node)
    )


def why_held(status: Status, topic: TopicStatus) -> list[str]:
    """Why a topic is not cleaned now; what froze it may be over by now."""
    well_ms = topic.well_since_ms
    lines = [f"was: {why}" for why in topic.why] if well_ms is not None else list(topic.why)
    if topic.doubts:
        lines.append(f"replicas in doubt: {topic.doubts}; audit them before it is released")
    elif well_ms is not None and topic.state in ("frozen", "freezing"):
        left = status.hold_ms - (status.now_ms - well_ms)
        lines.append(f"all in sync again; a guard releases it in {long(max(left, 0) / 1000)}")
    return lines


def long(seconds: float | None) -> str:
    """A time that people can take in: `2 h 5 min`."""
    if seconds is None:
        return "-"
    left = int(seconds)
    for name, unit, smaller, small in _UNITS:
        if left >= unit:
            rest = left % unit // small
            return f"{left // unit} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{left} s"


def size(count: int | None) -> str:
    """Bytes for people: `12.5 MB`."""
    return "-" if count is None else quantities.size(count)
