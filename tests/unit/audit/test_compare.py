"""What is suspected, and what is explained before anyone looks again. Each with its control."""

from __future__ import annotations

from dataclasses import replace

from sexton.audit.compare import (
    comparable,
    differing_buckets,
    key_suspicions,
    look_at,
    span_suspicions,
    was_compacted,
)
from sexton.audit.facts import BUCKETS, BucketEntries, Damage, ReplicaFacts, Scope
from tests.unit.audit.replicas import PARTITION, Audit, TextReplica

EVERY = frozenset(range(BUCKETS))
WITH, WITHOUT = ["0 k=1", "2 z=1"], ["2 z=1"]


def entries(node: int, lines: list[str], end: int = 3) -> BucketEntries:
    replica = TextReplica(node, lines)
    return Audit([replica]).entries(replica, Scope(PARTITION, 0, end, True, 7), EVERY, [])


def facts(node: int, lines: list[str], *, compacted: bool = True) -> ReplicaFacts:
    replica = TextReplica(node, lines)
    end = replica.high_watermark
    return Audit([replica]).facts(replica, Scope(PARTITION, 0, end, compacted, 7))


def with_facts(found: BucketEntries, facts: ReplicaFacts) -> BucketEntries:
    return replace(found, facts=facts)


def test_a_key_that_one_lacks_is_suspected() -> None:
    (suspicion,) = key_suspicions([entries(1, WITHOUT), entries(2, WITH)])
    assert suspicion.key == b"k"
    assert suspicion.entries[1] is None
    assert suspicion.entries[2] is not None and suspicion.entries[2].offset == 0
    assert look_at(suspicion)[0] == 0


def test_a_key_that_was_written_since_is_not() -> None:
    """Wherever the later record was seen, it can be what removed the older one."""
    since = ["3 k=2"]
    assert key_suspicions([entries(1, WITHOUT + since), entries(2, WITH)]) == []
    assert key_suspicions([entries(1, WITHOUT), entries(2, WITH + since)]) == []
    assert key_suspicions([entries(1, [*WITHOUT, "3 -k"]), entries(2, WITH)]) == []
    assert len(key_suspicions([entries(1, [*WITHOUT, "3 y=2"]), entries(2, WITH)])) == 1


def test_one_that_retention_has_come_to_is_not() -> None:
    found = entries(1, WITHOUT)
    for log_start, suspected in ((0, 1), (1, 0)):
        moved = with_facts(found, replace(found.facts, log_start=log_start))
        assert len(key_suspicions([moved, entries(2, WITH)])) == suspected


def test_a_tombstone_is_as_good_as_nothing() -> None:
    assert key_suspicions([entries(1, WITHOUT), entries(2, ["1 -k", "2 z=1"])]) == []
    assert len(key_suspicions([entries(1, ["1 -k", "2 z=1"]), entries(2, WITH)])) == 1


def test_a_replica_that_was_not_read_to_the_end_is_not_compared() -> None:
    late = entries(2, WITH)
    behind = with_facts(late, replace(late.facts, read_to=2))
    assert key_suspicions([entries(1, WITHOUT), behind]) == []
    assert comparable([late.facts, behind.facts]) == [late.facts]
    one, other = facts(1, WITHOUT), facts(2, WITH)
    assert len(differing_buckets([one, other])) == 1
    assert differing_buckets([one, replace(other, read_to=2)]) == frozenset()


def test_what_a_damaged_batch_may_hold_is_not_missed() -> None:
    lacking = entries(1, WITHOUT)
    damaged = with_facts(lacking, replace(lacking.facts, damage=(Damage(0, 1, "torn", crc=False),)))
    assert key_suspicions([damaged, entries(2, WITH)]) == []
    before = with_facts(lacking, replace(lacking.facts, damage=()))
    assert len(key_suspicions([before, entries(2, WITH)])) == 1


ABORTED = ["0 @7 k=1", "1 @7 abort", "2 z=1"]


def test_an_aborted_transaction_that_another_lacks_is_suspected() -> None:
    (suspicion,) = span_suspicions([facts(1, ABORTED), facts(2, ["2 z=1"])])
    assert (suspicion.node, suspicion.others) == (1, (2,))
    assert span_suspicions([facts(1, ABORTED), facts(2, ABORTED)]) == []


def test_one_that_another_has_not_come_to_is_not() -> None:
    late = replace(facts(2, ["2 z=1"]), read_to=1)
    assert span_suspicions([facts(1, ABORTED), late]) == []
    cut = replace(facts(2, ["2 z=1"]), log_start=2)
    assert span_suspicions([facts(1, ABORTED), cut]) == []


def test_a_topic_that_was_once_compacted_shows_it_on_every_replica() -> None:
    whole, thin = ["0 a=1", "1 b=1", "2 c=1"], ["0 a=1", "2 c=1"]
    empty = ["0 a=1", "1-2 2:c=1"]
    assert was_compacted([facts(1, thin, compacted=False), facts(2, empty, compacted=False)])
    assert not was_compacted([facts(1, thin, compacted=False), facts(2, whole, compacted=False)])
