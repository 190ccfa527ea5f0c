"""Was a topic made from another one in that one's order, key by key?

Both hold the same ids. The output's records are remembered first, then the source is read and says
at which offset each id was; per key these offsets must not go back:

    source   orders-3   a@17  b@18  c@19
    output              a     c     b          b comes after c, which the source has later

Only the first record of an id counts: whoever has processed something twice has made a duplicate,
which is another finding. An id that the source has twice has no place, and is left out. So is the
order between records that lie in different partitions of the source, where there is none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.across import empty_sketch, mark, marked, sketch_bits
from sexton.audit.expressions import parts
from sexton.audit.fields import FOUND, UNREADABLE, Read, Rows, fingerprints
from sexton.audit.state_table import StateTable
from sexton.audit.validation import ORDER_VIOLATION, Rules, Sighting
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records.tables import Array

MOST_ROWS: Final = 50_000_000  # of one partition; each takes about 130 bytes
_PARTITION_BITS: Final = 16
_OFFSET_BITS: Final = 63 - _PARTITION_BITS
_NOWHERE: Final = np.int64(-1)  # of an id that the source has twice
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)


class OrderFold:
    """One partition of the output, beside as much of the source as it takes."""

    def __init__(self, partition: TopicPartition, rules: Rules, seed: int) -> None:
        assert rules.source is not None and rules.id is not None, "there is an order to keep"
        self._partition, self._seed, self._source = partition, seed, rules.source
        self._key, self._id = parts(rules.key, "--key"), parts(rules.id, "--id")
        self._source_id = parts(rules.source_id or rules.id, "--source-id")
        self._rows: list[tuple[Array, Array, Array, Array]] = []  # ids, status, keys, offsets
        self._count = 0
        self._once = StateTable(kernels.ONCE, MOST_ROWS, may_read_again=False)
        self._places: StateTable | None = None
        self._sketch = empty_sketch(64)

    # ── the output, from start to end ──

    def take_output(self, rows: Rows) -> None:
        ids = fingerprints(self._id, rows, self._seed)
        keys = fingerprints(self._key, rows, self._seed)
        offsets = rows.offsets
        again = self._once.take(ids.values, ids.status, np.zeros(len(rows), np.int64), offsets)
        status = np.where(keys.status == FOUND, ids.status, UNREADABLE).astype(np.uint8)
        status[again[:, 0]] = UNREADABLE
        self._rows.append((ids.values, status, keys.values, offsets))
        self._count += len(rows)
        if self._count > MOST_ROWS:
            why = f"has more than {MOST_ROWS:,} records to compare with {self._source}"
            raise ConfigError(str(self._partition), why, "compare a part of it, with --since")

    # ── the source, one partition after the other ──

    def begin_source(self) -> None:
        self._sketch = empty_sketch(sketch_bits(self._count))
        for ids, status, _keys, _offsets in self._rows:
            mark(self._sketch, Read(ids, status))
        self._places = StateTable(kernels.ONCE, MOST_ROWS, may_read_again=False)

    def take_source(self, rows: Rows) -> None:
        assert self._places is not None
        ids = fingerprints(self._source_id, rows, self._seed)
        few = marked(self._sketch, ids)
        prints = np.ascontiguousarray(ids.values[few])
        offsets = rows.offsets[few]
        places = (np.int64(rows.partition.partition) << _OFFSET_BITS) | offsets
        again = self._places.take(prints, np.zeros(len(few), np.uint8), places, offsets)
        if len(again):
            entries = self._places.of(np.ascontiguousarray(prints[again[:, 0]]))
            entries[:, 2] = _NOWHERE.view(np.uint64)
            self._places.put(entries)

    @property
    def unknown(self) -> int:
        """Ids of the output that the source has not shown so far."""
        assert self._places is not None
        return sum(
            int(np.count_nonzero((self._places_of(ids, status)[1] != FOUND)[status == FOUND]))
            for ids, status, _keys, _offsets in self._rows
        )

    @property
    def judged(self) -> int:
        """Records of the output whose place in the source is known."""
        return sum(
            int(np.count_nonzero(self._places_of(ids, status)[1] == FOUND))
            for ids, status, _keys, _offsets in self._rows
        )

    def _places_of(self, ids: Array, status: Array) -> tuple[Array, Array]:
        """Where the source has these ids; what has no place is UNREADABLE."""
        assert self._places is not None
        places, known = self._places.look_up(ids, status)
        known[(known != FOUND) | (places == _NOWHERE)] = UNREADABLE
        return places, known

    # ── what it amounts to ──

    def sightings(self, most: int) -> tuple[list[Sighting], int]:
        """The first ones, without their keys, and how many there are."""
        assert self._places is not None
        table = StateTable(kernels.NEVER_BACK, MOST_ROWS, may_read_again=False)
        found: list[Sighting] = []
        total = 0
        for ids, status, keys, offsets in self._rows:
            places, known = self._places_of(ids, status)
            of_partition = (places >> _OFFSET_BITS).astype(np.uint64)
            prints = keys.copy()
            prints[:, 1] ^= of_partition * _SPREAD
            events = table.take(prints, known, places, offsets)
            total += len(events)
            for row, _kind, last, last_offset, _bucket in events[: most - len(found)].tolist():
                place = int(places[row])
                found.append(self._sighting(last, place, last_offset, int(offsets[row])))
        return found, total

    def _sighting(self, last: int, place: int, last_offset: int, offset: int) -> Sighting:
        return Sighting(
            code=ORDER_VIOLATION,
            partition=self._partition,
            key=None,
            id=None,
            last_value=self._told(last),
            value=self._told(place),
            last_offset=last_offset,
            offset=offset,
            last_partition=self._partition.partition,
        )

    def _told(self, place: int) -> str:
        at = TopicPartition(self._source, place >> _OFFSET_BITS)
        return f"{at} offset {place & ((1 << _OFFSET_BITS) - 1)}"
