"""What can the guard promise, for which topic, and what must somebody look at?

    a replica leaves the ISR ──interval──▶ seen ──▶ noted ──▶ frozen     at worst `reaction_ms`
                             ├──────────────────────────────────────────────────────┤
    a tombstone written now ─┴──────────── delete.retention.ms ─────────────▶ may be removed

As long as the upper line is shorter, no tombstone that the replica misses goes before cleaning
stops. A topic for which it is not is named: raise its `delete.retention.ms` or look more often. The
time until Kafka notices that a replica is gone does not count: until then the high watermark waits
for that replica, and nothing above the high watermark is cleaned.

What the guard cannot do, and says: a broker that is cut off from the controller does not hear of
the freeze. It is out of every ISR by then, and is not to be trusted longer than the budget.
"""

from __future__ import annotations

from collections.abc import Iterator

from sexton.base.findings import Finding
from sexton.machines.guard import Guard
from sexton.machines.guard_decisions import is_frozen, matches, restoring
from sexton.machines.guard_notes import FOREVER, Entry, Lags
from sexton.machines.guard_watched import Watched


def findings(guard: Guard) -> Iterator[Finding]:
    """Everything that people should know of, the worst first for each topic."""
    if guard.not_seen is not None:
        yield Finding(
            "guard-blind", "error", "cluster", "the cluster cannot be seen",
            {"why": guard.not_seen}, "nothing is protected until it can be: check the network",
        )  # fmt: skip
    if guard.memory.not_understood:
        yield Finding(
            "guard-memory", "warning", "memory", "some notes are not understood",
            {"notes": guard.memory.not_understood}, "a later sexton wrote them: use that one",
        )  # fmt: skip
    yield from _of_gap(guard)
    for name in sorted(guard.topics):
        watched = guard.topics[name]
        if watched.options is None or watched.options.compacted:
            yield from _of_topic(guard, watched, guard.memory.in_force(name))


def _of_gap(guard: Guard) -> Iterator[Finding]:
    """For guards that stay: one that looks once was told when the next look is."""
    if guard.config.durable_hold:
        return
    (from_ms, until_ms), known = guard.gap, guard.topics.values()
    concerned = [
        each.sight.name
        for each in known
        if each.sight.replicated and each.options is not None and each.options.compacted
        and each.options.delete_retention_ms <= until_ms - from_ms
    ]  # fmt: skip
    if concerned:
        yield Finding(
            "guard-gap", "warning", "cluster",
            "nobody guarded it for longer than delete.retention.ms: a replica that was away "
            "meanwhile, and is back, may lack deletions",
            {"from_ms": from_ms, "until_ms": until_ms, "topics": len(concerned)},
            "audit them: `sexton audit --all-compacted`",
        )  # fmt: skip


def _of_topic(guard: Guard, watched: Watched, entry: Entry | None) -> Iterator[Finding]:
    name, options = watched.sight.name, watched.options
    if watched.failed is not None:
        yield Finding(
            "guard-options", "error", name, "its options cannot be seen",
            {"why": watched.failed}, "allow DescribeConfigs on the topic",
        )  # fmt: skip
    if watched.refused is not None:
        yield Finding(
            "guard-refused", "error", name, "a change of its options was refused",
            {"why": watched.refused}, "allow AlterConfigs on the topic, or check its lags",
        )  # fmt: skip
    if options is None or not watched.sight.replicated:
        return
    yield from _of_promise(guard, watched)
    if _is_late(guard, watched):
        yield Finding(
            "guard-late", "error", name,
            "a replica is away and it is not frozen, for longer than the guard's reaction",
            {"since_ms": watched.bare_since_ms or 0, "state": will_be(watched, entry)},
            "see whether a controller answers, and whether a broker is cut off from it: two have "
            "to show the same options before they are changed",
        )  # fmt: skip
    if entry is None:
        if is_frozen(options):
            last = guard.memory.last(name)
            known = last.note.previous if last is not None else None
            yield Finding(
                "guard-foreign-freeze", "warning", name,
                "it is frozen and no note says by whom: the guard leaves it alone",
                {"last_known": _lags(known)},
                "if a `sexton repair` of it was interrupted, run it again: it knows what was set; "
                "otherwise, if nobody wants this, delete min.compaction.lag.ms, and check "
                "max.compaction.lag.ms, which may be raised as well",
            )  # fmt: skip
        return
    if entry.note.state == "frozen" and watched.unfrozen_since_ms is not None:
        yield Finding(
            "guard-drift", "error", name, "somebody unfroze it while a replica is away",
            {"now": _lags(options.own), "before": _lags(entry.note.previous)},
            "freeze it again with `sexton guard run --reapply`, or wait until all are back",
        )  # fmt: skip
    elif options.own.max == FOREVER and entry.note.previous.max not in (None, FOREVER):
        yield Finding(
            "guard-deadline", "note", name,
            "max.compaction.lag.ms is suspended: what had to be deleted by then stays longer",
            {"max_compaction_lag_ms": entry.note.previous.max},
        )  # fmt: skip
    if not guard.memory.settles(entry.note):
        yield from _doubts(watched, entry)


def _doubts(watched: Watched, entry: Entry) -> Iterator[Finding]:
    """One for each broker and reason: a broker that was away has many replicas, all with one."""
    alike: dict[tuple[int, str], list[int]] = {}
    for doubt in entry.note.doubts:
        if watched.health.holds(doubt):
            alike.setdefault((doubt.replica, doubt.why), []).append(doubt.partition)
    name = watched.sight.name
    for (broker, why), numbers in alike.items():
        yield Finding(
            "guard-doubt", "error", f"{name} on broker {broker}", f"this replica {why}",
            {"partitions": ",".join(map(str, numbers))},
            f"audit the topic (`sexton audit -t {name}`) and repair it if replicas differ, then "
            f"`sexton guard thaw {name} --audited`",
        )  # fmt: skip


def _of_promise(guard: Guard, watched: Watched) -> Iterator[Finding]:
    name, options, config = watched.sight.name, watched.options, guard.config
    assert options is not None
    if options.delete_retention_ms <= config.reaction_ms:
        yield Finding(
            "guard-too-slow", "warning", name,
            "it cannot be protected: tombstones may go before the guard can act",
            {"delete_retention_ms": options.delete_retention_ms,
             "reaction_ms": config.reaction_ms},
            "raise delete.retention.ms, or look more often (--interval)",
        )  # fmt: skip
    if options.max_lag_ms < int(FOREVER) and options.own.max != FOREVER:
        yield Finding(
            "guard-suspends-deadline", "note", name,
            "a freeze would suspend max.compaction.lag.ms, a deadline for deletions",
            {"max_compaction_lag_ms": options.max_lag_ms},
        )  # fmt: skip


def _is_late(guard: Guard, watched: Watched) -> bool:
    """If it is not known otherwise why."""
    since_ms = watched.bare_since_ms
    if since_ms is None or watched.failed or watched.refused or watched.unfrozen_since_ms:
        return False
    return guard.last_seen_ms - since_ms > guard.config.reaction_ms


def is_protected(guard: Guard, watched: Watched) -> bool:
    """Does the promise hold for this topic?"""
    options = watched.options
    return options is not None and options.delete_retention_ms > guard.config.reaction_ms


def will_be(watched: Watched, entry: Entry | None) -> str:
    """What the topic is now, in a word."""
    options = watched.options
    if options is None:
        return "unknown"
    if not options.compacted:
        return "not compacted"
    if entry is None:
        return "frozen by others" if is_frozen(options) else "free"
    if entry.note.state == "frozen" and not is_frozen(options):
        return "freezing" if entry.note.again and matches(options, entry.note) else "unfrozen"
    if entry.note.state == "thawing":
        return "thawing" if restoring(options.own, entry.note) else "set back"
    return "freezing" if entry.note.state == "planned" else "frozen"


def _lags(lags: Lags | None) -> str:
    if lags is None:
        return "unknown"
    return f"min {lags.min or 'not set'}, max {lags.max or 'not set'}"
