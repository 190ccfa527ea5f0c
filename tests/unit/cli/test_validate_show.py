"""What a validation says of faults that were counted and are too many to be told one by one."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from sexton.audit.checks import MOST_SIGHTINGS, VALUE
from sexton.audit.validation import NO_OFFSET, STATE_REGRESSION, PartitionFacts, Rules, Sighting
from sexton.base.partitions import TopicPartition
from sexton.cli.engines import Engine
from sexton.cli.output import Output
from sexton.cli.validate_request import Request
from sexton.cli.validate_show import Told, show, show_end
from sexton.cli.writers import Format
from sexton.survey.baseline import load_baseline, write_baseline
from sexton.survey.validating import Validation

AT = TopicPartition("counts", 0)
REQUEST = Request(
    topic="counts", partitions=(), settings={}, rules=Rules(value="int"), table=None, table_key="",
    table_value=None, since=None, until=None, settle=None, follow=False, checkpoint=None,
    interval="1s", engine=Engine.local, master="", max_bytes_per_s=None, most_keys=None,
    baseline=None, write_baseline=None, html=None, parquet=None, show_keys=False,
)  # fmt: skip


def regressions(offsets: Iterable[int]) -> tuple[Sighting, ...]:
    return tuple(
        Sighting(STATE_REGRESSION, AT, b"k", None, "2", "1", offset - 1, offset, 0)
        for offset in offsets
    )


def validation(told: Sequence[Sighting], count: int) -> Validation:
    counts = {STATE_REGRESSION: count}
    facts = PartitionFacts(
        AT, 0, 9000, 9000, 1, 1, 0, 0, 0, 0, NO_OFFSET, counts, tuple(told), judged={VALUE: 9000}
    )  # fmt: skip
    return Validation("counts", "c", REQUEST.rules, (facts,), tuple(told), counts, (), (), 0, 1)


class Answer:
    """What was said as JSON lines, and the code that it ended with."""

    def __init__(self, chosen: Format = Format.jsonl) -> None:
        self.stdout = io.StringIO()
        self.out = Output("validate", chosen, self.stdout, io.StringIO())

    @property
    def findings(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.stdout.getvalue().splitlines()]
        return [each for each in lines if each["type"] == "finding"]

    @property
    def code(self) -> int:
        try:
            self.out.__exit__(None, None, None)
        except typer.Exit as ended:
            return ended.exit_code
        return 0


@pytest.fixture
def known(tmp_path: Path) -> Path:
    """A baseline of all that is told one by one."""
    path = tmp_path / "known.json"
    write_baseline(path, regressions(range(1, MOST_SIGHTINGS + 1)))
    return path


def test_what_is_counted_beyond_a_baseline_is_found(known: Path) -> None:
    told = regressions(range(1, MOST_SIGHTINGS + 1))
    answer = Answer()
    show(validation(told, MOST_SIGHTINGS + 500), replace(REQUEST, baseline=known), answer.out)
    (finding,) = answer.findings
    assert (finding["code"], finding["evidence"]) == (STATE_REGRESSION, {"count": 500})
    assert answer.code == 1


def test_a_baseline_that_has_all_of_it_is_believed(known: Path) -> None:
    told = regressions(range(1, MOST_SIGHTINGS + 1))
    answer = Answer()
    show(validation(told, MOST_SIGHTINGS), replace(REQUEST, baseline=known), answer.out)
    assert answer.findings == [] and answer.code == 0


def test_people_are_told_how_many_more_there_are() -> None:
    told = regressions(range(1, MOST_SIGHTINGS + 1))
    answer = Answer(Format.table)
    show(validation(told, MOST_SIGHTINGS + 500), REQUEST, answer.out)
    said = answer.stdout.getvalue()
    assert "500 more were counted" in said and "950 more findings: --format json" in said


def test_a_stream_tells_what_comes_after_the_first_thousand(known: Path) -> None:
    """The checkpoint keeps no more of them; what a step finds is told nevertheless."""
    kept = regressions(range(1, MOST_SIGHTINGS + 1))
    request, answer = replace(REQUEST, baseline=known), Answer()
    stream = Told(request, answer.out)
    stream.tell(kept, validation(kept, MOST_SIGHTINGS))
    assert answer.findings == []
    later = regressions([5000, 5002])
    stream.tell(later, validation(kept, MOST_SIGHTINGS + 2))
    assert [each["evidence"]["new_offset"] for each in answer.findings] == [5000, 5002]
    show_end(validation(kept, MOST_SIGHTINGS + 3), request, stream, answer.out)
    assert answer.findings[2]["evidence"] == {"count": 1}  # of an earlier run
    assert answer.code == 1


def test_a_baseline_is_written_at_the_end_alone(tmp_path: Path) -> None:
    """And after the old one was read: it may be the same file."""
    path = tmp_path / "known.json"
    write_baseline(path, [])
    request, answer = replace(REQUEST, baseline=path, write_baseline=path), Answer()
    found = validation(regressions([5]), 1)
    stream = Told(request, answer.out)
    stream.tell(found.sightings, found)
    assert load_baseline(path).acknowledged == frozenset()
    show_end(found, request, stream, answer.out)
    assert len(answer.findings) == 1 and answer.code == 1
    assert load_baseline(path).acknowledged == {found.sightings[0].identity}
