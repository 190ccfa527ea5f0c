"""Batches that cannot be read, and topics without compaction, whose replicas must be alike.

Where nothing is compacted an offset that one replica holds and another lacks is lost there, without
any excuse. What nobody holds was perhaps removed while the topic was compacted: it is mentioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sexton.audit.facts import Damage, ReplicaFacts
from sexton.audit.finding import AuditFinding, Verdict, judged
from sexton.audit.parting import parted
from sexton.audit.window import LogWindow, Slot
from sexton.audit.words import named, sentence
from sexton.base.partitions import TopicPartition


def judge_damage(facts: ReplicaFacts) -> list[AuditFinding]:
    """Batches of one replica that could not be read."""
    return [_damaged(facts, each) for each in facts.damage]


def _damaged(facts: ReplicaFacts, damage: Damage) -> AuditFinding:
    said = f"A batch of replica {facts.node} at offset {damage.offset} cannot be read: {damage.why}"
    because = "the wrong checksum shows which bytes have changed; keys in it were not compared"
    return judged(
        "corrupt-batch",
        facts.scope.partition,
        (facts.node,),
        f"{said}.",
        Verdict(None, "certain", because),
        offsets={facts.node: damage.offset},
    )


def judge_range(partition: TopicPartition, windows: Sequence[LogWindow]) -> list[AuditFinding]:
    """Whole windows of the same stretch, of a topic that is not compacted."""
    held = {window.node: _held(window) for window in windows}
    by_node = {window.node: window for window in windows}
    findings: list[AuditFinding] = []
    end = min((window.end for window in windows), default=0)
    first = max((window.first for window in windows), default=0)
    every = sorted({offset for slots in held.values() for offset in slots})
    lost: dict[tuple[int, ...], list[int]] = {}
    different: list[int] = []
    for offset in every:
        if not first <= offset < end:
            continue
        lacking = tuple(node for node in sorted(held) if offset not in held[node])
        if lacking:
            lost.setdefault(lacking, []).append(offset)
        elif len({_content(slots[offset]) for slots in held.values()} - {None}) > 1:
            different.append(offset)
    shown = tuple(by_node[node] for node in sorted(by_node))
    for lacking, offsets in lost.items():
        having = tuple(node for node in sorted(held) if node not in lacking)
        findings.append(_lost(partition, lacking, having, offsets, shown))
    if different:
        slots = {node: held[node][different[0]] for node in sorted(held)}
        findings.append(_different(partition, slots, different[0], shown))
    return findings


def _held(window: LogWindow) -> dict[int, Slot]:
    """By offset; a batch that is there and cannot be read is a finding of its own."""
    slots: dict[int, Slot] = {}
    for slot in window.slots:
        if slot.kind != "empty":
            last = min(slot.last_offset + 1, window.end)  # a damaged header may say anything
            slots.update(dict.fromkeys(range(max(slot.offset, window.first), last), slot))
    return slots


def _content(slot: Slot) -> tuple[object, ...] | None:
    """None: nobody can say."""
    if slot.kind == "damaged":
        return None
    return slot.kind, slot.key, slot.value_digest, slot.timestamp, slot.producer_id, slot.epoch


def _lost(
    partition: TopicPartition,
    lacking: tuple[int, ...],
    having: tuple[int, ...],
    offsets: list[int],
    windows: tuple[LogWindow, ...],
) -> AuditFinding:
    because = (
        f"the topic is not compacted, so what {named(having, 'holds', 'hold')} must be on every "
        "replica whose log is past it"
    )
    return judged(
        "missing-record",
        partition,
        lacking,
        sentence(
            f"{named(lacking, 'has', 'have')} lost {_counted(len(offsets))}, the first at offset "
            f"{offsets[0]}"
        ),
        Verdict(having, "certain", because),
        offsets={
            node: None if node in lacking else offsets[0] for node in sorted((*lacking, *having))
        },
        windows=windows,
    )


def _counted(records: int) -> str:
    return "a record" if records == 1 else f"{records} records"


def _different(
    partition: TopicPartition,
    slots: Mapping[int, Slot],
    offset: int,
    windows: tuple[LogWindow, ...],
) -> AuditFinding:
    nodes = tuple(slots)
    sound = {node: slot for node, slot in slots.items() if slot.kind != "damaged"}
    return judged(
        "corrupt-batch",
        partition,
        nodes,
        sentence(f"{named(nodes, 'holds', 'hold')} different records at offset {offset}"),
        Verdict(None, "unknown", parted(sound)),
        offsets=dict.fromkeys(nodes, offset),
        windows=windows,
    )


def judge_gaps(facts: Sequence[ReplicaFacts]) -> list[AuditFinding]:
    """What no replica of a topic without compaction holds; one finding tells of all."""
    common = set.intersection(*(set(each.gaps) for each in facts)) if facts else set()
    if not common:
        return []
    first, end = min(common)
    nodes = tuple(sorted(each.node for each in facts))
    more = f", and {len(common) - 1} more gaps" if len(common) > 1 else ""
    because = "all replicas agree; without compaction nothing removes single records"
    return [
        judged(
            "offset-gap",
            facts[0].scope.partition,
            nodes,
            f"No replica holds the offsets from {first} to {end - 1}{more}.",
            Verdict(None, "unknown", because),
            offsets=dict.fromkeys(nodes, first),
        )
    ]
