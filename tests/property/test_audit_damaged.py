"""No bytes that a broker can send make the audit fail: what is wrong becomes a finding."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sexton.audit.facts import BUCKETS, Scope
from sexton.audit.fold import Fold
from sexton.audit.looking import window_of
from sexton.audit.rules import judge_alone
from sexton.audit.window import Focus
from sexton.base.partitions import TopicPartition
from tests.mutations import mutated
from tests.unit.audit.replicas import batch_of

LOG = b"".join(
    map(
        batch_of,
        (
            "0 a=1 b=1 c=1",
            "3 @7/1 a=2",
            "4 @8/0 b=2 k=1",
            "6 @7/2 abort",
            "7 @8/0 commit",
            "8 -c",
            "9-12 ~5 (empty)",
            "13-15 14:k=2",
            "16 @7 (marker)",
        ),
    )
)
ABORTED = [(3, 7), (0, 7), (100, 8), (-5, -1)]


@given(st.integers(0, 1 << 32), st.booleans(), st.booleans())
def test_damaged_batches_are_folded_without_a_fault(
    seed: int, compacted: bool, entries: bool
) -> None:
    data = mutated(Random(seed), LOG)
    scope = Scope(TopicPartition("t", 0), 0, 17, compacted, seed)
    fold = Fold(scope, buckets=frozenset(range(BUCKETS)) if entries else None)
    fold.take(data, ABORTED)
    fold.take(LOG, ABORTED)
    fold.again()
    where = {"log_start": 0, "last_stable": 17, "high_watermark": 17, "log_end": 17, "read_to": 17}
    facts = fold.entries(1, **where).facts
    assert {finding.code for finding in judge_alone(facts)} <= {"corrupt-batch", "marker-mismatch"}
    for focus in (None, Focus(b"k", (7,), (5,))):
        window_of(
            1, 0, 20, [(data, ABORTED)],
            log_start=0, last_stable=17, high_watermark=17, focus=focus,
        )  # fmt: skip
