"""Do Arrow's columns say what the records say?"""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.client.committed import committed_batches
from sexton.client.replica import Chunk
from sexton.log.inspect.outcomes import NAMES
from sexton.log.inspect.table import ABORT
from sexton.protocol.messages.fetch import AbortedTransaction
from sexton.records import Columns, Spans, decode
from sexton.records.columns import write_headers
from sexton.records.control import ControlType, marker_batch
from sexton.records.layout import LOG_APPEND_TIME, TRANSACTIONAL
from sexton.spark import arrow
from sexton.spark.arrow import ArrowMaker, Origin, Rows
from sexton.spark.columns import COLUMNS, EXTRA, HEADERS, PATH, REPLICA
from sexton.spark.visible import Decided, TailMarkers, shown_rows
from tests.handmade import batch, record
from tests.log_text import at_offset

Header = tuple[str, bytes | None]
HEADER_LISTS = st.lists(
    st.lists(st.tuples(st.text(max_size=200), st.none() | st.binary(max_size=200)), max_size=4),
    max_size=6,
)


@given(st.lists(st.none() | st.binary(max_size=300), max_size=20))
def test_byte_strings_keep_their_bytes(items: list[bytes | None]) -> None:
    assert arrow.binary(Spans.from_list(items)).to_pylist() == items


@given(HEADER_LISTS)
def test_headers_keep_their_order_and_nulls(lists: list[list[Header]]) -> None:
    spans = Spans.from_list([write_headers(each) for each in lists])
    found = arrow.headers(spans)
    found.validate(full=True)
    expected = [[{"key": key, "value": value} for key, value in each] or None for each in lists]
    assert found.to_pylist() == expected


@pytest.mark.parametrize("behind", [[], [write_headers([("h", b"1")])]])
def test_no_headers_may_be_written_in_two_bytes(behind: list[bytes]) -> None:
    found = arrow.headers(Spans.from_list([b"\x80\x00", *behind])).to_pylist()
    assert found == [None, *([{"key": "h", "value": b"1"}] for _ in behind)]


def test_words_need_nothing_that_somebody_else_has_imported() -> None:
    """In a process that has imported nothing but this: pyarrow does not load its functions."""
    asked = "[each.as_py() for each in arrow._words(np.array([1, 0, 7]), {0: 'a', 1: 'b'})]"
    script = f"import numpy as np; from sexton.spark import arrow; print({asked})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == "['b', 'a', None]", done.stderr


def columns_of(*batches: bytes) -> Columns:
    return decode(b"".join(batches))


def made(columns: Columns, names: tuple[str, ...], **of_all: Any) -> list[dict[str, Any]]:
    maker = ArrowMaker(names, Origin("orders", 3, **of_all))
    outcome = Decided([]).of(columns)
    rows = shown_rows(columns, 0, 1 << 60, None, with_control=True)
    found = list(maker.batches(Rows(columns, rows, outcome)))
    return pa.Table.from_batches(found).to_pylist()  # type: ignore[no-any-return]


def test_every_column_has_its_value() -> None:
    headers = write_headers([("h", b"1")])
    columns = columns_of(
        batch(record(key=b"a", value=None, headers=headers), base_offset=7),
        marker(8, 9, ControlType.ABORT, epoch=2),
    )
    names = (*COLUMNS, HEADERS, REPLICA, PATH, *EXTRA)
    first, second = made(columns, names, replica=2, path="/logs")
    time = first.pop("timestamp")
    assert time.timestamp() == 1_700_000_000
    assert first == {
        "key": b"a", "value": None, "topic": "orders", "partition": 3, "offset": 7,
        "timestampType": 0, "headers": [{"key": "h", "value": b"1"}], "replica": 2,
        "path": "/logs", "producer_id": None, "producer_epoch": None, "transactional": False,
        "control": None, "outcome": None,
    }  # fmt: skip
    assert second["control"] == "ABORT"
    assert (second["producer_id"], second["producer_epoch"], second["offset"]) == (9, 2, 8)


def test_log_append_time_is_the_time_of_the_batch() -> None:
    columns = columns_of(
        batch(record(timestamp_delta=-500), attributes=LOG_APPEND_TIME, max_timestamp=9_000)
    )
    (row,) = made(columns, ("timestamp", "timestampType"))
    assert (row["timestamp"].timestamp(), row["timestampType"]) == (9.0, 1)


def test_a_time_that_spark_cannot_hold_is_null() -> None:
    columns = columns_of(batch(record(), base_timestamp=1 << 62, max_timestamp=1 << 62))
    assert made(columns, ("timestamp",)) == [{"timestamp": None}]


def test_batches_for_spark_are_small_and_complete() -> None:
    large = bytes(arrow.BATCH_BYTES // 2)
    columns = columns_of(batch(*(record(n, value=large) for n in range(5)), last_offset_delta=4))
    maker = ArrowMaker(("offset", "value"), Origin("orders", 0))
    rows = shown_rows(columns, 1, 5, None, with_control=False)
    found = [each.column(0).to_pylist() for each in maker.batches(Rows(columns, rows))]
    assert list(chain(*found)) == [1, 2, 3, 4]
    assert max(map(len, found)) == 1  # two of them are more than a batch may have


# ── transactions ──


def data(offset: int, producer: int) -> bytes:
    told = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    return batch(record(), base_offset=offset, attributes=TRANSACTIONAL, **told)


def marker(offset: int, producer: int, kind: ControlType, epoch: int = 0) -> bytes:
    told = marker_batch(
        kind, producer_id=producer, producer_epoch=epoch, coordinator_epoch=0, timestamp=0
    )
    return at_offset(told, offset)


LOGS = st.lists(st.tuples(st.sampled_from([7, 8]), st.sampled_from("dca")), max_size=12)


@given(LOGS, st.integers(0, 12))
def test_a_consumers_rule_and_ours_agree(log: list[tuple[int, str]], cut: int) -> None:
    """`committed_batches` goes batch by batch as Kafka's consumer does; ours goes by columns."""
    kinds = {"c": ControlType.COMMIT, "a": ControlType.ABORT}
    whole = [
        data(offset, who) if what == "d" else marker(offset, who, kinds[what])
        for offset, (who, what) in enumerate(log)
    ]
    chunk = Chunk(memoryview(b"".join(whole[cut:])), 99, 0, 99, 99, tuple(aborted(log, cut)))
    expected = [each.header.base_offset for each in committed_batches(chunk)]
    if not chunk.data:
        return
    columns = decode(chunk.data)
    outcome = Decided([(a.first_offset, a.producer_id) for a in chunk.aborted]).of(columns)
    rows = shown_rows(columns, 0, 99, outcome == ABORT, with_control=False)
    assert columns.offset[rows].tolist() == expected


def aborted(log: list[tuple[int, str]], start: int) -> list[AbortedTransaction]:
    """What a broker lists for a fetch from `start`, from the log itself."""
    begun: dict[int, int] = {}
    found = []
    for offset, (who, what) in enumerate(log):
        if what == "d":
            begun.setdefault(who, offset)
        else:
            first = begun.pop(who, None)
            if what == "a" and first is not None and offset >= start:
                found.append(AbortedTransaction(who, first))
    return found


def test_above_the_last_stable_offset_the_next_marker_tells() -> None:
    columns = columns_of(
        data(0, 7), data(1, 8), marker(2, 7, ControlType.ABORT), data(3, 7), data(4, 9),
        marker(5, 7, ControlType.COMMIT),
    )  # fmt: skip
    tail = TailMarkers()
    tail.note(columns)
    told = [NAMES.get(code) for code in tail.of(columns).tolist()]
    assert told == ["aborted", "open", None, "committed", "open", None]
