from __future__ import annotations

import json
from collections import Counter

from sexton.base.findings import Finding, Severity
from sexton.report.findings import (
    COLUMNS,
    describe_counts,
    finding_lines,
    finding_object,
    finding_row,
    finding_text,
)

FINDING = Finding(
    code="corrupt-batch",
    severity="error",
    where="orders-3/00000000000000000042.log at position 1337",
    message="the batch's CRC is wrong",
    evidence={"stored": 1, "computed": "0x2", "cause": 'a "bit" flip', "sure": True, "key": None},
    remedy="restore the replica from its leader",
)
BARE = Finding("offset-gap", "note", "orders-3 at offset 7", "compacted away")


def test_a_person_reads_what_where_why_and_what_to_do() -> None:
    assert list(finding_lines(FINDING, width=None)) == [
        "error    corrupt-batch  orders-3/00000000000000000042.log at position 1337",
        "         the batch's CRC is wrong",
        '         stored=1 computed=0x2 cause="a \\"bit\\" flip" sure=true key=-',
        "         → restore the replica from its leader",
    ]
    assert list(finding_lines(BARE, width=None)) == [
        "note     offset-gap  orders-3 at offset 7",
        "         compacted away",
    ]


def test_lines_keep_to_the_width_and_lose_no_word() -> None:
    lines = list(finding_lines(FINDING, width=50))
    assert max(map(len, lines)) <= 50
    assert " ".join(lines).split() == " ".join(finding_lines(FINDING, width=None)).split()


def test_a_remedy_that_goes_on_stands_to_the_right_of_its_arrow() -> None:
    lines = list(finding_lines(FINDING, width=40))
    assert lines[-2:] == ["         → restore the replica from its", "           leader"]


def test_colour_changes_no_character() -> None:
    for width in (20, 40, 100):
        plain = "\n".join(finding_lines(FINDING, width))
        assert finding_text(FINDING, width).plain == plain


def test_a_program_reads_an_object_or_a_row_of_stable_columns() -> None:
    assert json.loads(json.dumps(finding_object(FINDING))) == {
        "code": "corrupt-batch",
        "severity": "error",
        "where": "orders-3/00000000000000000042.log at position 1337",
        "message": "the batch's CRC is wrong",
        "evidence": {
            "stored": 1,
            "computed": "0x2",
            "cause": 'a "bit" flip',
            "sure": True,
            "key": None,
        },
        "remedy": "restore the replica from its leader",
    }
    assert len(finding_row(FINDING)) == len(COLUMNS)
    assert finding_row(BARE) == (
        "note", "offset-gap", "orders-3 at offset 7", "compacted away", "", None,
    )  # fmt: skip


def test_counts_are_said_in_words_worst_first() -> None:
    counts: Counter[Severity] = Counter(["note", "error", "error"])
    assert describe_counts(counts) == "2 errors, 1 note"
    assert describe_counts(Counter()) == "no findings"
