"""Are messages that wait read back by their offsets, and no more of them than there is room for?"""

from __future__ import annotations

import asyncio

import numpy as np

from sexton.base.partitions import TopicPartition
from sexton.client.appending import append, append_batch
from sexton.client.client import Client
from sexton.client.retry_reading import first_retry_records, retry_records
from sexton.machines.retry_records import RetryRecord
from sexton.records.columns import Spans, write_headers
from sexton.records.encoder import encode, rows
from sexton.testing.embedded import EmbeddedCluster

AT = TopicPartition("t-retry", 0)
SIZE, COUNT = 1_000, 10


async def write(client: Client) -> None:
    for first in (0, COUNT // 2):  # two batches
        numbers = range(first, first + COUNT // 2)
        waiting = [RetryRecord(b"k", b"k", bytes([n]) * SIZE, (), 5).encode() for n in numbers]
        columns = rows(
            np.arange(len(numbers)),
            Spans.from_list([b"t-0-%d" % number for number in numbers]),
            Spans.from_list([value for value, _ in waiting]),
            Spans.from_list([write_headers(headers) for _, headers in waiting]),
        )
        await append_batch(client, AT, bytes(encode(columns)))


def test_messages_are_read_in_order_until_there_is_no_room() -> None:
    async def run() -> None:
        with EmbeddedCluster(brokers=1) as cluster:
            cluster.create_topic(AT.topic, 1)
            async with Client(cluster.bootstrap_servers) as client:
                await write(client)
                wanted = [8, 1, 3, 6]
                everything = await retry_records(client, AT, wanted)
                assert sorted(everything) == [1, 3, 6, 8]
                assert {len(record.value or b"") for _, record in everything.values()} == {SIZE}
                for most_bytes, offsets in (
                    (1, [1]),  # one at least: else nothing would ever be read
                    (SIZE, [1]),
                    (2 * SIZE, [1, 3]),
                    (2 * SIZE + 500, [1, 3, 6]),
                    (100 * SIZE, [1, 3, 6, 8]),
                ):
                    some, left = await first_retry_records(client, AT, wanted, most_bytes)
                    assert some == {offset: everything[offset] for offset in offsets}
                    assert left == [offset for offset in sorted(wanted) if offset not in some]
                gone = await append(client, AT, [(b"t-0-99", None)])
                assert await first_retry_records(client, AT, [gone], 1) == ({}, [])  # not "left"

    asyncio.run(run())
