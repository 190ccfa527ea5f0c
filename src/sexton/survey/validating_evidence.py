"""Both records of a sighting, read again from the leader: who wrote them, when, under which key.

What a task has folded is long gone when the user is told. So the first sightings are looked at once
more, which also gives what a fold cannot keep for every key: the producer and epoch of the earlier
record. Where a task went on from old state (KAFKA-16017) the new epoch is the tell-tale.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from sexton.audit.expressions import Expression, parts
from sexton.audit.fields import Rows, together
from sexton.audit.validation import LOST, NO_OFFSET, Rules, Sighting
from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.reading import PartitionReader
from sexton.client.retrying import Patience
from sexton.records.decoder import Decoder, scan
from sexton.survey.validating_tasks import Where

MOST_LOOKED_AT = 100
PATIENCE = Patience(timeout_ms=5_000)
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class _Seen:
    key: bytes | None
    id: bytes | None
    timestamp_ms: int
    producer_id: int
    producer_epoch: int


async def with_evidence(
    where: Where, rules: Rules, sightings: Sequence[Sighting]
) -> list[Sighting]:
    """The same sightings, the first of them with all that is known of both records."""
    told = list(sightings)
    if not told:
        return told
    look = _Look(rules)
    async with where.client() as client:
        for number, sighting in enumerate(told[:MOST_LOOKED_AT]):
            try:
                told[number] = await look.at(client, sighting)
            except SextonError:
                continue  # it was seen; who wrote it may stay unknown
    return told


class _Look:
    def __init__(self, rules: Rules) -> None:
        self._key = parts(rules.key, "--key")
        self._id: tuple[Expression, ...] = parts(rules.id, "--id") if rules.id else ()
        source_id = rules.source_id or rules.id
        self._source_id = parts(source_id, "--source-id") if source_id else ()

    async def at(self, client: Client, sighting: Sighting) -> Sighting:
        id_ = self._source_id if sighting.code == LOST else self._id
        new = await self._record(client, sighting.partition, sighting.offset, id_)
        if new is not None:
            sighting = replace(
                sighting,
                key=new.key if sighting.key is None else sighting.key,
                id=new.id if sighting.id is None else sighting.id,
                timestamp_ms=new.timestamp_ms,
                producer_id=new.producer_id,
                producer_epoch=new.producer_epoch,
            )
        if sighting.last_offset == NO_OFFSET:
            return sighting
        topic = sighting.partition.topic
        earlier = TopicPartition(topic, sighting.last_partition)
        old = await self._record(client, earlier, sighting.last_offset, self._id)
        if old is not None:
            sighting = replace(
                sighting,
                last_timestamp_ms=old.timestamp_ms,
                last_producer_id=old.producer_id,
                last_producer_epoch=old.producer_epoch,
            )
        return sighting

    async def _record(
        self, client: Client, at: TopicPartition, offset: int, id_: tuple[Expression, ...]
    ) -> _Seen | None:
        """None: it is not there any more."""
        reader = PartitionReader(client, at, patience=PATIENCE)
        chunks = reader.read(offset, offset + 1, chunk_bytes=CHUNK_BYTES)
        async with aclosing(chunks):
            async for chunk in chunks:
                for columns, _bad in Decoder().parts(scan(chunk.data), str(at)):
                    found = np.flatnonzero(columns.offset == offset)
                    if len(found):
                        rows = Rows(columns, found, at)
                        batch = int(columns.batch[found[0]])
                        header = columns.headers_of_batches[batch]
                        return _Seen(
                            together(self._key, rows, 0),
                            together(id_, rows, 0) if id_ else None,
                            int(columns.timestamp[found[0]]),
                            int(header["producer_id"]),
                            int(header["producer_epoch"]),
                        )
        return None
