"""Which record of a batch has no key, whatever lies before it and however it is compressed?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.base.errors import CorruptLog
from sexton.log.compressed import plain_records
from sexton.log.keyless import first_keyless
from sexton.records import Spans, rows
from sexton.records.encoder import Encoder
from sexton.records.layout import HEADER_BYTES, BatchHeader, Codec

START_MS = 1_700_000_000_000
# Up to 200 bytes and a week: varints of one byte and of several.
KEYS = st.one_of(st.none(), st.binary(max_size=3), st.just(b"k" * 200))
RECORDS = st.lists(st.tuples(KEYS, st.integers(0, 7 * 86_400_000)), min_size=1, max_size=40)


def batch_of(records: list[tuple[bytes | None, int]], codec: Codec) -> bytes:
    keys = [key for key, _ in records]
    key, value = Spans.from_list(keys), Spans.from_list([b"paid"] * len(keys))
    time = np.array([START_MS + later for _, later in records], np.int64)
    columns = rows(time, key, value, batch_bytes=1 << 30, codec=codec)
    return bytes(Encoder().encode(columns))


@pytest.mark.parametrize("codec", list(Codec))
@given(records=RECORDS)
def test_the_first_one_is_found(codec: Codec, records: list[tuple[bytes | None, int]]) -> None:
    batch = batch_of(records, codec)
    header = BatchHeader.unpack(batch)
    keys = [key for key, _ in records]
    plain = plain_records(batch, header, "orders-0") if codec else batch[HEADER_BYTES:]
    found = first_keyless(plain, header.records_count, "orders-0")
    assert found == (keys.index(None) if None in keys else None)


def test_records_that_are_not_there_are_missed() -> None:
    batch = batch_of([(b"k", 0)] * 3, Codec.NONE)
    with pytest.raises(CorruptLog, match="ends within 4 records"):
        first_keyless(batch[HEADER_BYTES:], 4, "orders-0")


def test_lengths_that_lead_nowhere_are_noticed() -> None:
    records = bytearray(batch_of([(b"k", 0)] * 3, Codec.NONE)[HEADER_BYTES:])
    records[0] = 0x03  # the first record is -2 bytes long
    with pytest.raises(CorruptLog):
        first_keyless(bytes(records), 3, "orders-0")
