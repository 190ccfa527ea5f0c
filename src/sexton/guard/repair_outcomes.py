"""How did a transaction end? Every replica of its partition is asked, each by its own log.

A replica that does not have it open any more may still tell: by its list of aborted transactions,
by whether it shows a record of it, or by the marker that ended it, if nothing else can have been
between the two.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sexton.audit.looking import window_of
from sexton.audit.window import Focus, LogWindow
from sexton.base.errors import SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.hidden_transactions import hidden_by
from sexton.client.replica import Chunk, Isolation, Replica, ReplicaOffsets
from sexton.client.topology import PartitionPlace
from sexton.client.transactions import longest_transaction_ms, transactions
from sexton.machines.repair_transactions import (
    Age,
    Coordinated,
    Ending,
    Known,
    Opened,
    judge_ending,
)
from sexton.protocol.messages.describe_producers import ProducerState

MOST_BYTES = 4 << 20  # of one replica; a marker that is further off is not looked for


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica: where it stands, and which producers it knows."""

    node: int
    offsets: ReplicaOffsets | None  # None: `unread` says why
    producers: tuple[ProducerState, ...] = ()
    unread: str | None = None

    @property
    def open(self) -> tuple[ProducerState, ...]:
        """Those with a transaction under way, the first one first."""
        found = [each for each in self.producers if each.current_txn_start_offset >= 0]
        return tuple(sorted(found, key=lambda each: each.current_txn_start_offset))


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that some replica waits for, and all that is known of it."""

    partition: TopicPartition
    producer: ProducerState  # as a replica that waits has it
    known: tuple[Known, ...]
    coordinator: Coordinated | None
    ending: Ending

    @property
    def start(self) -> int:
        return self.producer.current_txn_start_offset

    @property
    def finding_code(self) -> str:
        """Does nobody know of an end, or only some replicas?"""
        everywhere = all(each.fate == "open" for each in self.known)
        return "hanging-transaction" if everywhere else "stuck-partition"


async def views_of(client: Client, place: PartitionPlace) -> list[ReplicaView]:
    """Every assigned replica, those that do not answer with the reason."""
    views = []
    for node in place.replicas:
        replica = client.replica(place.partition, node)
        try:
            offsets, producers = await replica.offsets(), await replica.producers()
            views.append(ReplicaView(node, offsets, tuple(producers)))
        except SextonError as error:
            views.append(ReplicaView(node, None, unread=f"{error.subject}: {error.why}"))
    return views


async def open_transactions(
    client: Client,
    partition: TopicPartition,
    views: list[ReplicaView],
    longest_ms: int | None = None,
) -> list[OpenTransaction]:
    """Each transaction that at least one replica has open, by where it begins.

    `longest_ms`: how long one may take; None: as long as the cluster allows.
    """
    first: dict[tuple[int, int], ProducerState] = {}
    for view in views:
        for each in view.open:
            first.setdefault((each.current_txn_start_offset, each.producer_id), each)
    if not first:
        return []
    if longest_ms is None:
        longest_ms = await longest_transaction_ms(client)
    return [
        await _known(client, partition, views, producer, longest_ms)
        for _place, producer in sorted(first.items(), key=lambda item: item[0])
    ]


async def _known(
    client: Client,
    partition: TopicPartition,
    views: list[ReplicaView],
    producer: ProducerState,
    longest_ms: int,
) -> OpenTransaction:
    known = [await _of_replica(client, partition, view, producer) for view in views]
    asked = await transactions(client, [producer.producer_id])
    told = asked.by_producer.get(producer.producer_id)
    coordinator = None
    if told is not None:
        coordinator = Coordinated(
            told.transactional_id,
            told.coordinator,
            told.state,
            told.epoch,
            told.timeout_ms,
            told.started_ms,
            partition in told.partitions,
        )
    age = Age(producer.last_timestamp, time.time_ns() // 1_000_000, longest_ms)
    opened = Opened(partition, producer.current_txn_start_offset, producer.producer_epoch, age)
    hidden = await hidden_by(client) if told is None and asked.complete else None
    ending = judge_ending(opened, known, coordinator, complete=asked.complete, hidden_by=hidden)
    return OpenTransaction(partition, producer, tuple(known), coordinator, ending)


# ── one replica ──


async def _of_replica(
    client: Client, partition: TopicPartition, view: ReplicaView, producer: ProducerState
) -> Known:
    start = producer.current_txn_start_offset
    if view.offsets is None:
        return Known(view.node, "unreadable", f"cannot be asked ({view.unread})")
    for each in view.open:
        if (each.producer_id, each.current_txn_start_offset) == (producer.producer_id, start):
            return Known(view.node, "open", f"has it open from offset {start} on")
    if view.offsets.last_stable <= start:
        # It lags, or waits for another one that began earlier: it cannot know yet.
        return Known(view.node, "unreadable", f"is not past offset {start} itself")
    try:
        window, aborted = await _window(client.replica(partition, view.node), view.offsets, start)
    except SextonError as error:
        return Known(view.node, "unreadable", f"cannot be asked ({error.subject}: {error.why})")
    if (producer.producer_id, start) in aborted:
        return Known(view.node, "aborted", "lists it as aborted")
    return _by_log(window, producer, start)


def _by_log(window: LogWindow, producer: ProducerState, start: int) -> Known:
    node, producer_id = window.node, producer.producer_id
    marker = window.marker_after(producer_id, start)
    at = marker.offset if marker is not None else None
    held = window.at(start)
    if held is not None and held.producer_id == producer_id and held.shown is not None:
        if held.shown:
            return Known(node, "committed", f"shows its record at offset {start}", at)
        return Known(node, "aborted", f"hides its record at offset {start}", at)
    if marker is not None and not window.lacks_any(start + 1, marker.offset):
        how = f"holds its {marker.kind.upper()} marker at offset {marker.offset}"
        return Known(node, "committed" if marker.kind == "commit" else "aborted", how, at)
    return Known(node, "unknown", "is past it, and holds neither its records nor its marker")


async def _window(
    replica: Replica, offsets: ReplicaOffsets, start: int
) -> tuple[LogWindow, set[tuple[int, int]]]:
    first = max(start, offsets.log_start)
    chunks: list[Chunk] = []
    reached, size = first, 0
    async for chunk in replica.read(
        first, end=offsets.last_stable, isolation=Isolation.READ_COMMITTED
    ):
        chunks.append(chunk)
        reached, size = max(reached, chunk.next_offset), size + len(chunk.data)
        if size >= MOST_BYTES:
            break
    told = [
        (chunk.data, [(each.first_offset, each.producer_id) for each in chunk.aborted])
        for chunk in chunks
    ]
    window = window_of(
        replica.node,
        first,
        min(reached, offsets.last_stable),
        told,
        log_start=offsets.log_start,
        last_stable=offsets.last_stable,
        high_watermark=offsets.high_watermark,
        focus=Focus(None, (), (start,)),
    )
    aborted = {(each.producer_id, each.first_offset) for chunk in chunks for each in chunk.aborted}
    return window, aborted
