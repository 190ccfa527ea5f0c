"""A short stretch of one replica's log, offset by offset: what people are shown as evidence.

    offset     0        1        2        3
    replica 1  ·        ·        k=7      commit      · : nothing, it was cleaned away
    replica 3  k=5      ·        k=7      commit

A long stretch is thinned: only what has to do with the key or producer in question is kept slot by
slot. Which offsets are not held at all is always known, since that is what the rules reason with.
"""

from __future__ import annotations

from typing import Literal

from sexton.audit.plain import Plain
from sexton.base.lazy_dataclass import dataclass
from sexton.records.layout import NO_LEADER_EPOCH

Kind = Literal["value", "tombstone", "commit", "abort", "empty", "control", "damaged"]


@dataclass(frozen=True, slots=True)
class Slot(Plain):
    """One offset, or the range of a batch that was emptied, as a replica holds it."""

    offset: int
    last_offset: int  # equal, but for an empty batch
    kind: Kind  # empty: only the batch's header is left; control: a record that ends nothing
    key: bytes | None
    value_digest: str | None
    timestamp: int
    producer_id: int
    epoch: int
    transactional: bool
    base_offset: int  # of its batch
    batch_last: int
    shown: bool | None  # does a read_committed consumer get it? None: not decided yet
    control: bool  # it is a marker, or a marker's emptied batch
    leader_epoch: int = NO_LEADER_EPOCH  # of whoever led when it was written


@dataclass(frozen=True, slots=True)
class LogWindow(Plain):
    """What one replica holds of [first, end)."""

    node: int
    first: int
    end: int
    log_start: int
    last_stable: int
    high_watermark: int
    slots: tuple[Slot, ...]
    gaps: tuple[tuple[int, int], ...]  # stretches [start, end) of which no record is held
    thinned: int  # slots that were left out

    def at(self, offset: int) -> Slot | None:
        """The record that is held there."""
        return next(
            (slot for slot in self.slots if slot.offset == offset and slot.kind != "empty"), None
        )

    def covers(self, offset: int) -> bool:
        """Is a batch there whose range has the offset, whether or not the record is?"""
        return any(slot.base_offset <= offset <= slot.batch_last for slot in self.slots)

    def lacks_any(self, start: int, end: int) -> bool:
        """Is an offset of [start, end) not held, or not known to be?"""
        outside = start < end and (start < self.first or end > self.end)
        return outside or any(low < end and start < high for low, high in self.gaps)

    def marker_after(self, producer_id: int, offset: int) -> Slot | None:
        """The producer's first marker past an offset: it decides what the records before it are."""
        return next(
            (
                slot
                for slot in self.slots
                if slot.producer_id == producer_id
                and slot.offset > offset
                and slot.kind in ("commit", "abort")
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Focus(Plain):
    """What a window is about; the rest may be thinned."""

    key: bytes | None
    producers: tuple[int, ...]
    offsets: tuple[int, ...]
    marker: int = -1  # of a transaction that is in question: a look should come as far as this
