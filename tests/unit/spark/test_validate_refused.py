"""`sexton.spark.validate` of a topic: what cannot be answered is refused, not called kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sexton.spark
from sexton.audit.validation import PartitionFacts, Rules
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.survey.validating import Validation

NOWHERE = "localhost:1"  # nobody is asked
NO_SESSION: Any = None


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"key": ["a"], "n": [1]}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"checkpoint": "kept"}, "table: needs the whole topic at once"),
        ({"table_value": "n"}, "table_value: needs value to be compared with"),
        ({"key": "key json:a, key json:b"}, "key: of several parts does not go with table"),
        ({"source": "other"}, "source: needs id"),
        ({"rising": True}, "rising: needs value"),
        ({"value": "jsn:x"}, "value: 'jsn:x' in 'jsn:x' is not understood"),
        ({"table": "s3a://lake/users"}, "s3a://lake/users: is not a path on this machine.*mount"),
        ({"table": "/nowhere/t"}, "/nowhere/t: there is no such table"),
        ({"checkpoint": "s3a://lake/kept"}, "s3a://lake/kept: is not a path on this machine"),
        ({"on_finding": print}, "on_finding: goes with a DataFrame that is a stream"),
        ({"trigger": {"availableNow": True}}, "trigger: goes with a DataFrame that is a stream"),
    ],
)
def test_what_would_be_left_out_is_refused(
    table: Path, given: dict[str, Any], complaint: str
) -> None:
    asked = {"bootstrap_servers": NOWHERE, "table": table, **given}
    with pytest.raises(ConfigError, match=complaint):
        sexton.spark.validate(NO_SESSION, "t", **asked)


def proof(**facts: int) -> sexton.spark.Proof:
    told: dict[str, Any] = dict.fromkeys(
        ("records", "bytes", "keys", "ids", "hidden", "without_key", "unreadable"), 0
    )
    told |= {"first_unreadable": -1, "counts": {}, "sightings": (), **facts}
    left = told["records"] - told["without_key"] - told["unreadable"]
    told["judged"] = {"value": left}
    partition = PartitionFacts(TopicPartition("t", 0), 0, 0, **told)
    return sexton.spark.Proof(
        Validation("t", None, Rules(value="int"), (partition,), (), {}, (), (), 0, 0)
    )


def test_a_promise_about_nothing_is_not_kept() -> None:
    """An empty topic proves nothing; the control: with one record it does."""
    assert not proof().kept
    with pytest.raises(sexton.spark.PromiseBroken, match="Nothing was read"):
        proof().check()
    assert proof(records=1).kept
    proof(records=1).check()


def test_records_that_were_all_left_out_prove_nothing() -> None:
    """The control: with one more that was judged, the promise is kept."""
    nothing = proof(records=2, without_key=1, unreadable=1, first_unreadable=7)
    assert not nothing.kept
    with pytest.raises(sexton.spark.PromiseBroken, match="nothing could be judged"):
        nothing.check()
    assert proof(records=3, without_key=1, unreadable=1, first_unreadable=7).kept


def test_what_was_left_out_is_in_the_verdict() -> None:
    assert str(proof(records=2)) == "t is what was promised."
    some = proof(records=3, without_key=1, unreadable=1, first_unreadable=7)
    assert str(some) == "t is what was promised in all that was looked at."
    assert [each.partition(" was")[0] for each in some.page.limits] == [
        "1 record in which an expression found nothing",
        "1 record without a key",
    ]
