"""What is written to the topics of ordered retry reads back as it was, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.base.errors import CorruptLog
from sexton.machines.retry_columns import Rows, ids_of, last_of_each
from sexton.machines.retry_records import (
    COMMAND,
    VERBS,
    Command,
    Header,
    LetterSays,
    LockRecord,
    NoteSays,
    RetryRecord,
    TaskName,
    Watermark,
    command_record,
    dead_letter_headers,
    headers_again,
    note_headers,
    read_command,
    read_letter,
)
from sexton.records.columns import Spans

NAME = TaskName("orders", 3)
some_bytes = st.none() | st.binary(max_size=12)


def test_a_lock_is_a_line_that_people_can_read() -> None:
    lock = LockRecord(False, 2, 1731750000000, 1731740000000, b"order 123")
    assert lock.encode() == b"1 waiting 2 1731750000000 1731740000000 order 123"
    assert LockRecord(True, 9, 0, 5, None).encode() == b"1 dead 9 0 5"


@given(st.booleans(), st.integers(0, 99), st.integers(0, 1 << 50), some_bytes)
def test_a_lock_reads_back(dead: bool, attempts: int, at_ms: int, key: bytes | None) -> None:
    lock = LockRecord(dead, attempts, at_ms, at_ms // 2, key)
    assert LockRecord.decode(lock.encode()) == lock


@pytest.mark.parametrize(
    "value", [b"", b"1 waiting 2 3", b"2 waiting 2 3 4 k", b"1 asleep 2 3 4 k", b"1 dead x 3 4 k"]
)
def test_a_lock_that_nobody_understands_is_not_taken_for_none(value: bytes) -> None:
    with pytest.raises(CorruptLog):
        LockRecord.decode(value)


@given(
    some_bytes,
    some_bytes,
    some_bytes,
    st.lists(st.tuples(st.sampled_from(["h", "sexton.retry.key"]), some_bytes), max_size=5),
)
def test_a_message_comes_back_from_the_retry_topic_as_it_was(
    key: bytes | None,
    lock_key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    record = RetryRecord(key, lock_key, value, tuple(headers), 1731740000000)
    kept, with_ours = record.encode()
    assert kept is not None, "a null value would be a tombstone"
    assert RetryRecord.decode(kept, with_ours) == record


def test_another_record_is_no_retry_record() -> None:
    with pytest.raises(CorruptLog):
        RetryRecord.decode(b"", [("a", b""), ("b", b""), ("c", b""), ("d", b"")])
    *ours, (timestamp, _) = RetryRecord(None, None, b"", (), 5).encode()[1]
    with pytest.raises(CorruptLog):
        RetryRecord.decode(b"", [*ours, (timestamp, b"noon")])


@pytest.mark.parametrize("do", VERBS)
def test_a_command_reads_back(do: str) -> None:
    command = Command(do, 17, b"\xff", "ada", 5)  # type: ignore[arg-type]
    key, value = command_record(NAME, command, "1f")
    assert key == b"command:1f"
    assert read_command(NAME, value) == command


@pytest.mark.parametrize(
    "value",
    [b"", b"{}", b"[]", b'{"format":1,"do":"explode","id":null,"key":null,"by":"","at_ms":0}',
     b'{"format":1,"do":"skip","id":"orders-4-1","key":null,"by":"","at_ms":0}',
     b'{"format":1,"do":"skip","id":null,"key":null,"by":"","at_ms":0}',
     b'{"format":1,"do":"skip","id":"orders-3-1","key":null,"by":"","at_ms":Infinity}',
     pytest.param(b"[" * 200_000, id="nested")],
)  # fmt: skip
def test_what_is_no_command_of_this_task_is_not_obeyed(value: bytes) -> None:
    assert read_command(NAME, value) is None


def test_w_travels_in_the_metadata() -> None:
    assert Watermark(17, 6).encode() == "sexton.retry 1 W=17 of=6"
    assert Watermark.decode("sexton.retry 1 W=17 of=6") == Watermark(17, 6)


@pytest.mark.parametrize("metadata", [None, "", "W=17", "sexton.retry 2 W=17 of=6"])
def test_other_metadata_says_nothing_about_w(metadata: str | None) -> None:
    assert Watermark.decode(metadata) is None


def test_a_copied_letter_that_died_again_tells_of_its_last_death() -> None:
    first = dead_letter_headers(b"orders-0-1", 9, "busy", timestamp_ms=1, held=True)
    second = dead_letter_headers(b"orders-0-7", 2, "no such customer", timestamp_ms=2)
    mine: list[Header] = [("trace", b"t")]
    letter = [*mine, *note_headers(b"orders-0-1", b"orders-0-7"), *first, *second]
    assert read_letter(letter) == LetterSays(b"orders-0-7", 2, "no such customer", held=False)
    assert headers_again(letter) == mine
    note = note_headers(b"orders-0-7", b"orders-0-9")
    assert read_letter(note) == NoteSays(b"orders-0-7", "orders-0-9")
    assert read_letter(mine) is None


def test_a_dead_letter_tells_why_in_headers() -> None:
    headers = dict(
        dead_letter_headers(
            b"orders-3-17", 4, "no such customer", "KeyError", "x" * 99, timestamp_ms=1_234
        )
    )
    assert headers["sexton.dead.timestamp"] == b"1234"
    assert headers["sexton.dead.reason"] == b"no such customer"
    assert headers["sexton.dead.attempts"] == b"4"
    timeless = dict(dead_letter_headers(b"i", 1, "r", "E", "é" * 100_000, timestamp_ms=-1))
    assert "sexton.dead.timestamp" not in timeless
    long = timeless["sexton.dead.stack"]
    assert long is not None and len(long) <= 16_000 and long.decode()


IDS = [
    b"orders-3-0", b"orders-3-7", b"orders-3-07", b"orders-3-", b"orders-3-1x", b"orders-3--1",
    b"orders-30-1", b"orders-3-12345678", b"orders-3-123456789", b"orders-3-1234567890123456",
    b"orders-3-12345678901234567", b"orders-3-1234567890123456789", b"", b"orders", b"command:1",
    b"orders-3-1234/678", b"orders-3-1234:678", b"orders-3-99999999",
]  # fmt: skip


def test_columns_and_python_read_the_same_ids() -> None:
    keys: list[bytes | None] = [None, *IDS, *reversed(IDS), None]
    found = ids_of(NAME, Spans.from_list(keys)).tolist()
    expected = [None if key is None else NAME.offset_of(key) for key in keys]
    assert found == [-1 if each is None else each for each in expected]
    assert NAME.offset_of(b"orders-3-12345678901234567") == 12345678901234567
    assert NAME.offset_of(b"orders-3-07") is None


@given(st.lists(st.binary(min_size=1, max_size=20).map(lambda tail: b"t-0-" + tail), max_size=9))
def test_columns_and_python_read_the_same_of_anything(keys: list[bytes]) -> None:
    name = TaskName("t", 0)
    some: list[bytes | None] = [*keys, b"t-0-5"]
    expected = [name.offset_of(key or b"") for key in some]
    found = ids_of(name, Spans.from_list(some)).tolist()
    assert found == [-1 if each is None else each for each in expected]


def test_the_last_record_of_an_id_counts() -> None:
    keys: list[bytes | None] = [NAME.id_of(each) for each in (5, 6, 5, 7, 6)]
    keys.append(COMMAND + b"x")
    values: list[bytes | None] = [b"a", b"b", None, b"c", b"d", b"e"]
    rows = Rows(np.arange(10, 16), Spans.from_list(keys), Spans.from_list(values))
    last = last_of_each(NAME, rows)
    assert last.gone == [5]
    assert dict(zip(last.live, last.values(rows), strict=True)) == {6: b"d", 7: b"c"}
    assert dict(zip(last.live, last.offsets(rows), strict=True)) == {6: 14, 7: 13}
    assert last.others == [5]
