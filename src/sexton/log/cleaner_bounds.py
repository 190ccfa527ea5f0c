"""What a cleaning pass may rely on, said before it begins.

A tombstone, a COMMIT or ABORT marker, and the empty batch a marker leaves behind are *witnesses*:
each is the only trace of something. Two policies say when a witness may go:

    independent   as Apache Kafka does it: when its delete horizon has passed. A replica that was
                  away for longer misses it for good; this exists to show that, and to compare.
    coordinated   also only below an offset that every replica no longer needs: MTRO for tombstones,
                  MXRO for markers. And once the outcome of a transaction has been applied, its data
                  batches lose the transactional bit, so that nobody who copies them later waits for
                  a marker that is gone.

A broker asks this about every log, every few seconds, and seldom cleans one: so this module, and
whatever decides whether a pass is worth it, does without numpy and without kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from sexton.base.errors import CorruptLog

if TYPE_CHECKING:
    from sexton.log.partition import PartitionLog


class Policy(Enum):
    COORDINATED = "coordinated"
    INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a pass may rely on. All offsets are exclusive."""

    policy: Policy
    now_ms: int
    end: int  # cleaning covers [0, end)
    tombstones: int  # MTRO: an expired tombstone below may go
    markers: int  # MXRO: an expired marker below may go

    @classmethod
    def independent(cls, now_ms: int, end: int) -> Bounds:
        everything = 1 << 62
        return cls(Policy.INDEPENDENT, now_ms, end, everything, everything)

    @classmethod
    def coordinated(cls, now_ms: int, end: int, mtro: int, mxro: int) -> Bounds:
        return cls(Policy.COORDINATED, now_ms, end, mtro, mxro)


@dataclass(frozen=True, slots=True)
class LastBatches:
    """The batches that hold what is known of active producers, by their last offset.

    A producer without a data batch is known by a marker, which carries its epoch. And what is above
    the high watermark may be cut off again: whoever has written there is `unsettled`, and what is
    known of him below that has to stay, too.
    """

    by_offset: dict[int, int]  # last offset of a data batch -> producer id
    by_marker: dict[int, int]  # producer id -> epoch
    unsettled: frozenset[int] = frozenset()  # producer ids

    @classmethod
    def of(cls, log: PartitionLog) -> LastBatches:
        by_offset, by_marker = {}, {}
        for producer in log.producers.known.values():
            if producer.batches:
                by_offset[producer.last_offset] = producer.producer_id
            else:
                by_marker[producer.producer_id] = producer.epoch
        return cls(by_offset, by_marker, _unsettled(log))


def _unsettled(log: PartitionLog) -> frozenset[int]:
    if log.high_watermark == log.end_offset:
        return frozenset()
    above = log.batches(log.high_watermark)
    try:
        return frozenset(header.producer_id for _, _, header in above if header.has_producer)
    except (CorruptLog, OSError):  # whoever reads all of it will say so
        return frozenset(log.producers.known)
