"""What may a cleaner remove? The fate of each batch, before a single record is looked at.

`cleaner_bounds` says which tombstones and markers a pass is free to remove. Everything here is
about batches and their headers; `cleaner_kernels.mark` then judges records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sexton.log.cleaner_bounds import Bounds, LastBatches, Policy
from sexton.log.cleaner_kernels import (
    CLEAR_TRANSACTIONAL,
    DEDUPLICATE,
    DROP,
    EXPIRED,
    KEEP,
    STAYS_EMPTY,
    WANTS_HORIZON,
)
from sexton.log.indexes import AbortedTransaction
from sexton.records.control import ControlRecord, ControlType
from sexton.records.layout import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from sexton.records.tables import Array, HeaderTable, last_offsets
from sexton.records.tables import field as column

__all__ = ["Bounds", "LastBatches", "Policy", "Transactions", "fates"]


@dataclass(slots=True)
class Transactions:
    """Walks the log from its start, batch by batch, and knows which transactions have data left.

    `aborted` are the entries of the transaction index, lowest first offset first. Every transaction
    below the last stable offset that is not among them was committed.
    """

    aborted: list[AbortedTransaction]
    retained: list[AbortedTransaction] = field(default_factory=list)  # for the cleaned index
    _next: int = 0
    _aborting: dict[int, tuple[AbortedTransaction, bool]] = field(default_factory=dict)
    _committing: set[int] = field(default_factory=set)

    def data(self, producer_id: int, last_offset: int) -> bool:
        """A transactional data batch; True if its transaction was aborted."""
        self._reach(last_offset)
        if producer_id in self._aborting:
            self._aborting[producer_id] = (self._aborting[producer_id][0], True)
            return True
        self._committing.add(producer_id)
        return False

    def marker(self, producer_id: int, last_offset: int, marker: ControlRecord | None) -> bool:
        """A control batch; True if no data of its transaction is left below it."""
        self._reach(last_offset)
        if marker is None:
            return True  # emptied by an earlier pass
        if marker.type == ControlType.ABORT:
            entry, has_data = self._aborting.pop(producer_id, (None, False))
            if entry is not None and has_data:
                self.retained.append(entry)
            return not has_data
        if marker.type == ControlType.COMMIT:
            had_data = producer_id in self._committing
            self._committing.discard(producer_id)
            return not had_data
        return False  # not ours to judge

    def _reach(self, offset: int) -> None:
        while self._next < len(self.aborted) and self.aborted[self._next].first_offset <= offset:
            entry = self.aborted[self._next]
            self._aborting.setdefault(entry.producer_id, (entry, False))
            self._next += 1


def fates(
    headers: HeaderTable,
    markers: Iterable[ControlRecord | None],
    transactions: Transactions,
    last_batches: LastBatches,
    bounds: Bounds,
) -> Array:
    """One byte a batch: which of its records may stay, and what becomes of the batch.

    `markers` has the record of each control batch among them, in order.
    """
    attributes, base_timestamp = column(headers, "attributes"), column(headers, "base_timestamp")
    last_offset, producer_id = last_offsets(headers), column(headers, "producer_id")
    past_end = column(headers, "base_offset") >= bounds.end
    fate = np.full(len(headers), DEDUPLICATE, np.uint8)
    fate[past_end] = KEEP
    expired = (attributes & DELETE_HORIZON != 0) & (base_timestamp <= bounds.now_ms)
    fate[expired] |= EXPIRED
    fate[last_offset + 1 == bounds.end] |= STAYS_EMPTY
    fate[_holds_producer(headers, last_offset, producer_id, last_batches)] |= STAYS_EMPTY
    records = iter(markers)
    for index in np.flatnonzero(attributes & (TRANSACTIONAL | CONTROL)).tolist():
        producer, offset = int(producer_id[index]), int(last_offset[index])
        if attributes[index] & CONTROL:
            unneeded = transactions.marker(producer, offset, next(records))
            if past_end[index] and bounds.policy is Policy.COORDINATED:
                continue
            goes = unneeded and bool(expired[index]) and offset < bounds.markers
            rest = fate[index] & STAYS_EMPTY
            fate[index] = rest | (DROP if goes else KEEP | (WANTS_HORIZON if unneeded else 0))
        else:
            aborted = transactions.data(producer, offset)
            if past_end[index]:
                continue
            if aborted:
                fate[index] = (fate[index] & STAYS_EMPTY) | DROP
            if bounds.policy is Policy.COORDINATED:
                fate[index] |= CLEAR_TRANSACTIONAL
    return fate


def _holds_producer(
    headers: HeaderTable, last_offset: Array, producer_id: Array, last_batches: LastBatches
) -> Array:
    """Which batches hold the last that is known of an active producer?"""
    holds = np.isin(last_offset, np.fromiter(last_batches.by_offset, np.int64))
    for index in np.flatnonzero(holds).tolist():
        wanted = last_batches.by_offset[int(last_offset[index])]
        holds[index] = producer_id[index] == wanted
    if last_batches.by_marker:
        control = column(headers, "attributes") & CONTROL != 0
        epoch = column(headers, "producer_epoch")
        for index in np.flatnonzero(control).tolist():
            known = last_batches.by_marker.get(int(producer_id[index]))
            if known is not None and known == epoch[index]:
                holds[index] = True
    return holds
