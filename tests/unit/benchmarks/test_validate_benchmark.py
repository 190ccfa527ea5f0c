"""The topic of the validator's benchmark has just the falls that all contestants must find."""

from __future__ import annotations

import json

from benchmarks.validate_topic import FALLS, Counters
from sexton.audit.validating import Validating
from sexton.audit.validation import Rules
from sexton.base.partitions import TopicPartition
from sexton.records import decode


def test_as_many_counters_fall_as_it_says() -> None:
    counters = Counters(20_000, 2_000, 3)
    last: dict[bytes | None, int] = {}
    falls = 0
    folded = Validating(
        TopicPartition("t", 3), Rules(value="json:count"), start=0, end=20_000, seed=1
    )
    for chunk in counters.chunks():
        for record in decode(chunk).records():
            told = json.loads(record.value or b"")
            assert told["account"].encode() == record.key
            falls += told["count"] < last.get(record.key, 0)
            last[record.key] = told["count"]
        folded.take(chunk.tobytes(), ())
    assert falls == FALLS and len(last) == 2_000
    assert not folded.again()
    assert folded.facts().counts == {"state-regression": FALLS}
