"""One range of offsets, read by one task: chunks from a broker to Arrow batches for Spark.

    broker ──chunk──▶ decode ──▶ which rows ──▶ RecordBatch ──▶ Spark
       ╰──── the next chunk is under way meanwhile ────╯

A range is read whole or the task fails. Offsets that went away since the range was planned end it
with `DataLoss`; with `failOnDataLoss` off the read goes on where the log begins now, though that be
in the middle of a batch, and ends where it ends. All that was planned had been committed: a log
that ends before was cut, by an unclean election.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.listing import LATEST, list_offsets
from sexton.client.reading import OffsetsGone, PartitionReader
from sexton.client.replica import Chunk, Isolation
from sexton.client.retrying import until_it_works
from sexton.log.inspect.table import ABORT
from sexton.records.columns import Columns
from sexton.records.decoder import BadBatch, Batches, Decoder, scan
from sexton.records.tables import Array
from sexton.spark.arrow import ArrowMaker, Origin, Rows
from sexton.spark.background import BackgroundLoop
from sexton.spark.loss import begins_later, ends_earlier
from sexton.spark.options import SourceOptions
from sexton.spark.ranges import OffsetRange
from sexton.spark.visible import Decided, TailMarkers, shown_rows

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


class _Outcomes(Protocol):
    def of(self, columns: Columns) -> Array: ...


@dataclass(frozen=True, slots=True)
class _Piece:
    chunk: Chunk  # of whole batches: may begin before `start`
    start: int
    end: int  # the chunk may reach beyond it, as far as the broker has come since it was asked
    outcomes: _Outcomes | None  # None: nobody needs them


def read_range(options: SourceOptions, wanted: OffsetRange) -> Iterator[Any]:
    """The records of a range as Arrow batches."""
    origin = Origin(wanted.at.topic, wanted.at.partition, wanted.node)
    maker, decoder = ArrowMaker(options.columns, origin), Decoder()
    committed = options.isolation is COMMITTED
    with BackgroundLoop() as loop:
        for piece in loop.each(_RangeReader(options, wanted).pieces()):
            for columns in decoded(decoder, scan(piece.chunk.data), str(wanted.at), options):
                outcome = piece.outcomes.of(columns) if piece.outcomes is not None else None
                hidden = outcome == ABORT if committed and outcome is not None else None
                rows = shown_rows(
                    columns, piece.start, piece.end, hidden,
                    with_control=options.with_transactions and not committed,
                )  # fmt: skip
                yield from maker.batches(Rows(columns, rows, outcome))


def decoded(
    decoder: Decoder, batches: Batches, what: str, options: SourceOptions
) -> Iterator[Columns]:
    """The records of a chunk, valid until the next is asked for; damage is an error."""
    for columns, bad in decoder.parts(batches, what):
        if bad and options.fail_on_data_loss:
            raise _corrupt(what, bad[0])
        yield columns


def _corrupt(what: str, bad: BadBatch) -> CorruptLog:
    hint = "to read the rest, set failOnDataLoss to false"
    return CorruptLog(f"{what}, batch at offset {bad.base_offset}", bad.why, hint)


class _RangeReader:
    """The asynchronous side of it."""

    def __init__(self, options: SourceOptions, wanted: OffsetRange) -> None:
        self._options = options
        self._wanted = wanted
        self._from = wanted.start  # what is before it is not shown, or was deleted meanwhile

    async def pieces(self) -> AsyncGenerator[_Piece, None]:
        options, wanted = self._options, self._wanted
        config = options.client_config(wanted.max_bytes_per_s)
        async with Client(options.bootstrap_servers, config) as client:
            reader = PartitionReader(
                client, wanted.at, wanted.node, wanted.topic_id, options.patience
            )
            if options.isolation is COMMITTED:
                parts = self._decided(reader, wanted.start, wanted.end)
            elif not options.with_transactions:
                parts = self._plain(reader, wanted.start, wanted.end)
            else:
                parts = self._explained(client, reader)
            async with aclosing(parts):
                async for piece in parts:
                    yield piece

    async def _plain(
        self, reader: PartitionReader, start: int, end: int
    ) -> AsyncGenerator[_Piece, None]:
        async for chunk in self._chunks(reader, start, end, UNCOMMITTED):
            yield _Piece(chunk, self._from, end, None)

    async def _decided(
        self, reader: PartitionReader, start: int, end: int
    ) -> AsyncGenerator[_Piece, None]:
        async for chunk in self._chunks(reader, start, end, COMMITTED):
            aborted = [(entry.first_offset, entry.producer_id) for entry in chunk.aborted]
            yield _Piece(chunk, self._from, end, Decided(aborted))

    async def _explained(
        self, client: Client, reader: PartitionReader
    ) -> AsyncGenerator[_Piece, None]:
        """Everything, and how each transaction ended as far as the log tells."""
        start, end = self._wanted.start, self._wanted.end
        stable, latest = await self._edges(client)
        async for piece in self._decided(reader, start, min(end, stable)):
            yield piece
        start = max(start, stable)
        if start < end:
            tail = TailMarkers()
            decoder = Decoder()
            async for chunk in self._chunks(reader, start, max(end, latest), UNCOMMITTED):
                for columns in decoded(
                    decoder, scan(chunk.data), str(reader.partition), self._options
                ):
                    tail.note(columns)
            async for chunk in self._chunks(reader, start, end, UNCOMMITTED):
                yield _Piece(chunk, self._from, end, tail)

    async def _edges(self, client: Client) -> tuple[int, int]:
        """Last stable offset and high watermark, of the leader or the replica that is meant."""
        at, patience = self._wanted.at, self._options.patience
        if self._wanted.node is not None:
            told = await until_it_works(client.replica(at, self._wanted.node).offsets, patience)
            return told.last_stable, told.high_watermark
        stable = await list_offsets(client, {at: LATEST}, COMMITTED, patience, newest=True)
        latest = await list_offsets(client, {at: LATEST}, UNCOMMITTED, patience, newest=True)
        return stable[at], latest[at]

    async def _chunks(
        self, reader: PartitionReader, start: int, end: int, isolation: Isolation
    ) -> AsyncGenerator[Chunk, None]:
        """What is in [start, end), or of what is left of it if the user can do with that."""
        while start < end:
            chunks = reader.read(
                start, end, isolation=isolation, chunk_bytes=self._options.chunk_bytes
            )
            try:
                async with aclosing(chunks):
                    async for chunk in chunks:
                        yield chunk
                return
            except OffsetsGone as gone:
                if self._options.fail_on_data_loss:
                    raise self._loss(gone) from gone
                if gone.offset >= gone.log_end:
                    return
                start = self._from = gone.log_start
            except Refused as error:  # nor was it there later, for as long as we have patience
                if error.error is not KafkaError.OFFSET_NOT_AVAILABLE:
                    raise
                log_end = await until_it_works(reader.log_end, self._options.patience)
                if log_end >= end:
                    raise
                if self._options.fail_on_data_loss:
                    raise ends_earlier(self._what, end, log_end, "log end") from error
                return

    @property
    def _what(self) -> str:
        at, node = self._wanted.at, self._wanted.node
        return str(at) if node is None else f"{at} on broker {node}"

    def _loss(self, gone: OffsetsGone) -> Exception:
        if gone.offset < gone.log_start:
            return begins_later(self._what, gone.offset, gone.log_start)
        return ends_earlier(self._what, self._wanted.end, gone.log_end, "log end")
