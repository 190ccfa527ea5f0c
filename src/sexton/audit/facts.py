"""What one replica says of itself, small enough to be compared with what the others say.

    replica 1 ──fold──▶ ReplicaFacts ┐
    replica 2 ──fold──▶ ReplicaFacts ├─ compare ──▶ buckets, transactions that differ
    replica 3 ──fold──▶ ReplicaFacts ┘

A key belongs to one of BUCKETS buckets, by its fingerprint. A bucket's digest is a sum over its
keys, so it does not matter in which order or after how much cleaning they were met. Two replicas
that show the same last values have the same 4096 numbers; where one differs, `BucketEntries` name
the keys in it.
"""

from __future__ import annotations

from typing import Final

from sexton.audit.plain import Plain
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

BUCKETS: Final = 4096
Digests = bytes  # BUCKETS little-endian uint64


@dataclass(frozen=True, slots=True)
class Scope(Plain):
    """What is compared: the same for all replicas of a partition."""

    partition: TopicPartition
    start: int  # compared from here on ...
    end: int  # ... to here, exclusive
    compacted: bool  # cleanup.policy has `compact`
    seed: int  # of the fingerprints, 64 bits
    # cleanup.policy has `delete`, or nobody knows: each broker deletes what is old by itself.
    deletes: bool = True


@dataclass(frozen=True, slots=True)
class AbortedSpan(Plain):
    """A transaction that this replica says was aborted, and what its log holds of it."""

    producer_id: int
    epoch: int | None  # of its data, else of its marker; None: neither was met
    first_offset: int  # as in the broker's list
    marker_offset: int | None  # None: the marker was not met
    first_data: int | None  # data of it that is still in the log
    last_data: int | None


@dataclass(frozen=True, slots=True)
class OpenTransaction(Plain):
    """A transaction that this replica takes to be under way."""

    producer_id: int
    epoch: int
    start_offset: int
    last_timestamp: int


@dataclass(frozen=True, slots=True)
class CoordinatorState(Plain):
    """What the coordinator says of a producer's transactional id (DescribeTransactions)."""

    producer_id: int
    epoch: int
    state: str  # Kafka's word: Ongoing, PrepareCommit, CompleteAbort, Empty, ...
    started_ms: int  # -1: none
    timeout_ms: int
    has_partition: bool  # does the transaction under way take in this partition?


@dataclass(frozen=True, slots=True)
class MisfitMarker(Plain):
    """Data of one epoch, closed by a marker that cannot be its own.

    A marker has the epoch of its data, or the next one (a coordinator bumps it before it aborts for
    a producer, and under transaction.version 2 before every marker).
    """

    producer_id: int
    data_epoch: int
    first_data: int
    last_data: int
    marker_offset: int
    marker_epoch: int
    commits: bool


@dataclass(frozen=True, slots=True)
class Damage(Plain):
    """A batch that could not be read."""

    offset: int
    last_offset: int
    why: str
    crc: bool  # its bytes changed after they were written


@dataclass(frozen=True, slots=True)
class ReplicaFacts(Plain):
    """All that a fold of one replica found."""

    node: int
    scope: Scope
    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    read_to: int  # everything visible below it was read
    records: int  # data records, aborted ones included
    batches: int
    bytes: int
    keys: int  # keys with a visible record below the scope's end
    tombstones: int
    markers: int
    aborted_records: int
    first_timestamp: int  # -1: none
    last_timestamp: int
    digests: Digests
    # The smallest offset at which a key came again that was met before: not cleaned as far as this.
    first_repeat: int | None
    aborted: tuple[AbortedSpan, ...]
    open: tuple[OpenTransaction, ...]
    misfits: tuple[MisfitMarker, ...]
    damage: tuple[Damage, ...]
    # Of a topic without compaction: stretches [start, end) of which it holds nothing.
    gaps: tuple[tuple[int, int], ...] = ()
    # Aborted transactions, markers and damaged batches that there was no room to note one by one.
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class KeyEntry(Plain):
    """The last visible record of one key below the scope's end."""

    key: bytes
    offset: int
    timestamp: int
    value_digest: str | None  # hex of 128 bits of the value; None: a tombstone
    producer_id: int
    epoch: int
    transactional: bool
    base_offset: int  # of its batch
    last_offset: int
    marker_offset: int | None  # transactional: the first marker of this producer after it, here
    beyond: bool  # the key was seen at or past the scope's end as well


@dataclass(frozen=True, slots=True)
class BucketEntries(Plain):
    """The keys of the buckets asked for, on one replica, as far as there is room for them."""

    node: int
    facts: ReplicaFacts
    entries: tuple[KeyEntry, ...]
    moved_on: tuple[bytes, ...]  # keys that were seen at or past the scope's end only
    left_out: int  # keys over the limit, as an estimate
    ceiling: int  # of fingerprints: all keys from the floor up to it are here, none at or over it
    shown: tuple[AbortedSpan, ...]  # spans that were asked for, in which this replica shows data
    floor: int = 0
