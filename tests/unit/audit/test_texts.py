"""Is a value the same text whatever stands beside it, and however it was found?"""

from __future__ import annotations

import numpy as np
import pytest

from sexton.audit.expressions import parts
from sexton.audit.fields import Rows
from sexton.audit.texts import texts
from sexton.records import Spans, decode, encode, rows
from tests.unit.audit.replicas import PARTITION

VALUES = [
    "true", "false", "null", "110", "-1.50", '"text"', '""', "[]", "{}", "[1, 2]",
    '{"y" :  [true, "é", {"x": 3}]}',
]  # fmt: skip
ESCAPED = r'{"x": "a\"b"}'


def read(*values: str | None, path: str = "json:x") -> list[bytes | None]:
    """What the expression finds in each of these records."""
    (expression,) = parts(path, "--table-value")
    items = [None if value is None else value.encode() for value in values]
    every = np.arange(len(items), dtype=np.int64)
    keys = Spans.from_list([b"k"] * len(items))
    columns = decode(encode(rows(every, keys, Spans.from_list(items))))
    return texts(expression, Rows(columns, every, PARTITION)).to_list()


@pytest.mark.parametrize("value", VALUES)
def test_an_escaped_neighbour_changes_nothing(value: str) -> None:
    record = f'{{"a": 1, "x": {value}}}'
    alone = read(record)
    assert read(record, ESCAPED, None, record) == [*alone, b'a"b', None, *alone]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("before", [r'"\"": {"x": 0}, ', '"\\n":\t[1] ,\n', '"\\\\" : null,'])
def test_an_escaped_name_before_it_changes_nothing(value: str, before: str) -> None:
    """A kernel leaves such a record to Python."""
    assert read(f'{{{before}"x" : {value} , "x": 0}}') == read(f'{{"x": {value}}}')


def test_nested_members_are_found_in_both_ways() -> None:
    assert (
        read('{"y": {"x": [1,  2]}}', r'{"\"": 1, "y": {"\"": 2, "x": [1,  2]}}', path="json:y.x")
        == [b"[1,  2]"] * 2
    )


def test_words_and_objects_are_what_is_written() -> None:
    assert read('{"x": true}', '{"x": {"y": 1}}', '{"x": null}', "{}", "no json") == [
        b"true", b'{"y": 1}', None, None, None,
    ]  # fmt: skip
