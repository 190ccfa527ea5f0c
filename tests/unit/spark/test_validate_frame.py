"""The task that judges rows of a DataFrame, without Spark: what it is given, keeps and says."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sexton.audit.validating import UnreadableRecord
from sexton.audit.validation import PartitionFacts, Rules
from sexton.base.partitions import TopicPartition
from sexton.spark import validate_frame
from sexton.spark.validate_frame import FramePlan, folder

AT = TopicPartition("t", 0)
Row = tuple[int, str, float]  # offset, key, value


@pytest.fixture(autouse=True)
def _a_new_worker() -> Iterator[None]:
    validate_frame._REMEMBERED.clear()
    yield
    validate_frame._REMEMBERED.clear()


def plan(directory: Path) -> FramePlan:
    return FramePlan(Rules(value="n"), 7, frozenset(), directory=str(directory))


def judged(
    before: FramePlan, rows: Sequence[Row], *, again: bool = False, time: int | None = 0
) -> tuple[PartitionFacts | None, FramePlan]:
    """What one micro-batch comes to, and the plan of the next one."""
    offsets, keys, values = (list(column) for column in zip(*rows, strict=True))
    count = len(rows)
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "_deleted": [False] * count,
            "_time": pa.array([time] * count, pa.int64()),
            "_key": pa.array([key.encode() for key in keys], pa.binary()),
            "_value": pa.array(values, pa.float64() if before.fractions else pa.int64()),
        }
    )
    (answer,) = folder(replace(before, again=again))([batch])
    if not answer.num_rows:
        return None, before
    (facts,) = (PartitionFacts.from_json(json.loads(each.as_py())) for each in answer["facts"])
    (files,) = (tuple(json.loads(each.as_py())) for each in answer["files"])
    return facts, replace(before, kept={AT: (facts.end, files)})


def found(facts: PartitionFacts | None) -> list[tuple[str, str]]:
    assert facts is not None
    return [(each.last_value, each.value) for each in facts.sightings]


def test_a_batch_that_is_run_again_changes_nothing(tmp_path: Path) -> None:
    rows = [(0, "a", 110), (1, "a", 105)]
    facts, after = judged(plan(tmp_path), rows)
    assert found(facts) == [("110", "105")]
    assert judged(after, rows, again=True) == (None, after)


def test_offsets_that_an_earlier_batch_has_had_are_counted(tmp_path: Path) -> None:
    """As of a topic that was deleted and made again: nobody has judged these."""
    _facts, after = judged(plan(tmp_path), [(5, "a", 110), (6, "a", 111)])
    facts, later = judged(after, [(0, "a", 1), (1, "a", 2)])
    assert facts is not None
    assert (facts.passed_over, facts.records, facts.end) == (2, 0, 7)
    assert later == after  # what was known is known still
    facts, _later = judged(after, [(6, "a", 1), (7, "a", 112)])
    assert facts is not None and (facts.passed_over, facts.records) == (1, 1)


def test_a_worker_remembers_what_it_has_written(tmp_path: Path) -> None:
    """Its files need not be read, as long as they are those that the checkpoint names."""
    _facts, after = judged(plan(tmp_path), [(0, "a", 110), (1, "b", 5)])
    for file in tmp_path.glob("*/*.npz"):
        file.rename(f"{file}.away")
    facts, _later = judged(after, [(2, "a", 105)])
    assert found(facts) == [("110", "105")]


def test_a_step_that_was_never_committed_is_not_remembered(tmp_path: Path) -> None:
    _facts, after = judged(plan(tmp_path), [(0, "a", 1)])
    judged(after, [(1, "a", 110)])  # its driver dies, and another one has other rows
    facts, _later = judged(after, [(1, "a", 2)])
    assert found(facts) == []
    facts, _later = judged(after, [(1, "a", 0)])
    assert found(facts) == [("1", "0")]


def test_another_question_is_not_answered_from_memory(tmp_path: Path) -> None:
    _facts, after = judged(plan(tmp_path), [(0, "a", 1)])
    for file in tmp_path.glob("*/*.npz"):
        file.unlink()
    with pytest.raises(Exception, match="cannot be read"):
        judged(replace(after, rules=Rules(value="n", rising="rising")), [(1, "a", 1)])


def test_memory_of_a_worker_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_frame, "MOST_BYTES_REMEMBERED", 0)
    _facts, after = judged(plan(tmp_path), [(0, "a", 110)])
    assert not validate_frame._REMEMBERED
    facts, _later = judged(after, [(1, "a", 105)])
    assert found(facts) == [("110", "105")]


def test_a_record_without_a_time_is_judged_like_any_other(tmp_path: Path) -> None:
    facts, _after = judged(plan(tmp_path), [(0, "a", 110), (1, "a", 105)], time=None)
    assert found(facts) == [("110", "105")]


def test_what_is_no_number_is_left_out_or_an_error(tmp_path: Path) -> None:
    rows = [(0, "a", 1.5), (1, "a", math.nan), (2, "a", 2.5)]
    fractions = replace(plan(tmp_path), fractions=frozenset({"value"}))
    with pytest.raises(UnreadableRecord, match="offset 1: value is null there, or no number: n"):
        judged(fractions, rows)
    facts, _after = judged(replace(fractions, rules=Rules(value="n", skip_unreadable=True)), rows)
    assert found(facts) == [] and facts is not None and facts.unreadable == 1
