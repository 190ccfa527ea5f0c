"""Mistakes in what a pass removes, and in how it takes the place of what was there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from sexton.log import cleaner, cleaner_kernels, cleaner_plan, cleaner_rules, cleaner_swap, workshop
from sexton.log.cleaner_plan import Chunk
from sexton.log.cleaner_rules import LastBatches, Transactions
from sexton.log.names import SWAP
from sexton.log.partition import PartitionLog
from sexton.log.segment import Segment
from sexton.records.control import ControlRecord
from sexton.records.layout import CONTROL
from sexton.records.tables import Array, HeaderTable
from sexton.records.tables import field as column
from tests.patching import Patch
from tests.simulation.planted.planting import plant

Fates = Callable[..., Array]


def _change_fates(patch: Patch, change: Callable[[HeaderTable, Array, int], None]) -> None:
    """Lets `change` have the last word on the fate of each batch: headers, fates, end."""
    right: Fates = cleaner_rules.fates

    def fates(
        headers: HeaderTable,
        markers: list[ControlRecord | None],
        transactions: Transactions,
        last_batches: LastBatches,
        bounds: cleaner_rules.Bounds,
    ) -> Array:
        fate = right(headers, markers, transactions, last_batches, bounds)
        change(headers, fate, bounds.end)
        return fate

    patch(cleaner_plan, "fates", fates)


def _keep_the_bit(patch: Patch) -> None:
    """Data of a transaction whose outcome is applied stays transactional."""

    def change(_headers: HeaderTable, fate: Array, _end: int) -> None:
        fate &= ~np.uint8(cleaner_kernels.CLEAR_TRANSACTIONAL)

    _change_fates(patch, change)


@plant
def markers_gone_before_their_data(patch: Patch) -> None:
    """A marker goes when its time has come although data of its transaction remains below it."""
    _keep_the_bit(patch)

    def marker(
        self: Transactions, producer_id: int, last_offset: int, record: ControlRecord | None
    ) -> bool:
        right(self, producer_id, last_offset, record)
        return True

    right = patch(Transactions, "marker", marker)


@plant
def markers_deduplicated(patch: Patch) -> None:
    """A control record has a key, equal for all ABORTs, and only the last of each key is kept."""

    def change(headers: HeaderTable, fate: Array, end: int) -> None:
        control = column(headers, "attributes") & CONTROL != 0
        below = control & (column(headers, "base_offset") < end)
        fate[below] &= np.uint8(cleaner_kernels.STAYS_EMPTY)
        fate[below] |= np.uint8(cleaner_kernels.DEDUPLICATE)

    _change_fates(patch, change)


MOST_KEYS = 2


@plant
def half_a_pass(patch: Patch) -> None:
    """When the set of keys is full the pass ends midway, and claims to have seen everything."""

    def key_set(self: workshop.Workshop, *args: int) -> workshop.KeySet:
        keys: workshop.KeySet = right(self, *args)
        keys.most = min(keys.most, MOST_KEYS)
        return keys

    def read(self: Any, keys: workshop.KeySet, _marks: object, *, last: bool) -> None:
        assert last
        bound, full = self._run.bounds.tombstones, False
        for group in reversed(self._plan):
            for chunk in reversed(group.chunks):
                work = self._work(_as_it_is(chunk) if full else chunk)
                if not work.mark(keys, bound, None):
                    full = True
                    work = self._work(_as_it_is(chunk))
                    work.mark(keys, bound, None)
                self._output.add(work)
            self._output.finish(group)

    right = patch(workshop.Workshop, "key_set", key_set)
    patch(cleaner._Reading, "_read", read)


def _as_it_is(chunk: Chunk) -> Chunk:
    return replace(chunk, fates=np.full(len(chunk.fates), cleaner_kernels.KEEP, np.uint8))


@plant
def deleted_before_renamed(patch: Patch) -> None:
    """The old segments are deleted first, and only then the cleaned one gets its name."""

    def swap(log: PartitionLog, old: list[Segment], fresh: Segment) -> None:
        for segment in old:
            segment.remove(log_last=True)
        log.disk.sync_directory(log.directory)
        fresh.rename(SWAP)
        fresh.rename("")
        log.disk.sync_directory(log.directory)
        log.replace_segments(old, fresh)

    patch(cleaner_swap, "_swap", swap)


@plant
def snapshots_kept(patch: Patch) -> None:
    """A producer snapshot that holds a transaction open stays although its marker is removed."""
    patch(cleaner_swap, "_forget_snapshots", lambda _log, _end: None)


@plant
def last_batch_dropped(patch: Patch) -> None:
    """The last batch of a producer goes with its last record, and with it its sequence number."""
    patch(LastBatches, "of", classmethod(lambda cls, _log: cls({}, {})))


@plant
def uncommitted_supersedes(patch: Patch) -> None:
    """A record of a transaction that is still open removes earlier ones of its key."""

    def change(headers: HeaderTable, fate: Array, end: int) -> None:
        data = column(headers, "attributes") & CONTROL == 0
        later = data & (column(headers, "base_offset") >= end)
        fate[later] = cleaner_kernels.DEDUPLICATE | cleaner_kernels.STAYS_EMPTY

    _change_fates(patch, change)


@plant
def markers_without_bound(patch: Patch) -> None:
    """A marker goes once its horizon has passed, whatever MXRO is."""
    _bounds(patch, lambda bounds: replace(bounds, markers=1 << 62))


@plant
def tombstones_without_bound(patch: Patch) -> None:
    """A tombstone goes once its horizon has passed, whatever MTRO is."""
    _bounds(patch, lambda bounds: replace(bounds, tombstones=1 << 62))


def _bounds(patch: Patch, change: Callable[[cleaner_rules.Bounds], cleaner_rules.Bounds]) -> None:
    def coordinated(cls: type, *args: int) -> cleaner_rules.Bounds:
        bounds: cleaner_rules.Bounds = right.__func__(cls, *args)
        return change(bounds)

    right = patch(cleaner_rules.Bounds, "coordinated", classmethod(coordinated))


@plant
def cut_off_batches_hold_producers(patch: Patch) -> None:
    """A producer's last batch is kept, though it may yet be cut off, and the one before goes."""
    patch(cleaner_plan._Unsettled, "stay", lambda _self: None)
