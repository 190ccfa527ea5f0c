"""Are finished batches a producer's after a stamp, and nothing else of them changed?"""

from __future__ import annotations

import numpy as np
import pytest

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.producing import stamp
from sexton.client.retrying import Patience
from sexton.client.transacting import until_ready
from sexton.records.columns import Columns, Spans
from sexton.records.decoder import decode
from sexton.records.encoder import encode, rows
from sexton.records.layout import TRANSACTIONAL, BatchHeader, Codec

KEYS = Spans.from_list([b"a", None, b"c" * 300])
VALUES = Spans.from_list([b"1", b"22" * 100, None])


def batch(codec: Codec) -> bytes:
    return encode(rows(np.array([5, 4, 9]), KEYS, VALUES, codec=codec))


def records(data: bytes) -> list[tuple[object, ...]]:
    columns: Columns = decode(data)
    return [tuple(record) for record in columns.records()]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_stamp_sets_the_producer_and_the_checksum_only(codec: Codec) -> None:
    before = batch(codec)
    after = bytearray(before)
    assert stamp(after, 1 << 40, 7, (1 << 31) - 2) == 3
    told, was = BatchHeader.unpack(after), BatchHeader.unpack(before)
    assert (told.producer_id, told.producer_epoch, told.base_sequence) == (1 << 40, 7, 2147483646)
    assert told.attributes == was.attributes | TRANSACTIONAL
    assert told.crc != was.crc
    same = {"producer_id", "producer_epoch", "base_sequence", "attributes", "crc"}
    assert [v for n, v in told._asdict().items() if n not in same] == [
        v for n, v in was._asdict().items() if n not in same
    ]
    assert records(bytes(after)) == records(before)  # the decoder checks the CRC


def test_a_wrong_checksum_would_be_noticed() -> None:
    """The control of the test above."""
    broken = bytearray(batch(Codec.NONE))
    stamp(broken, 1, 0, 0)
    broken[43] ^= 1
    with pytest.raises(CorruptLog, match="checksum"):
        records(bytes(broken))


async def _refusals(*errors: KafkaError) -> int:
    left = list(errors)
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        if left:
            raise Refused(left.pop(0), "not now")

    await until_ready(ask, Patience(timeout_ms=2_000, backoff_ms=1, most_backoff_ms=1))
    return asked


def test_what_passes_is_waited_for_and_fencing_is_not() -> None:
    import asyncio

    passing = (KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.NOT_COORDINATOR)
    assert asyncio.run(_refusals(*passing)) == 3
    with pytest.raises(Refused, match="PRODUCER_FENCED"):
        asyncio.run(_refusals(KafkaError.PRODUCER_FENCED))


def test_patience_ends_with_the_error_that_came() -> None:
    import asyncio

    async def ask() -> None:
        raise Refused(KafkaError.CONCURRENT_TRANSACTIONS, "still")

    with pytest.raises(Refused, match="CONCURRENT_TRANSACTIONS"):
        asyncio.run(until_ready(ask, Patience(timeout_ms=1, backoff_ms=1, most_backoff_ms=1)))
