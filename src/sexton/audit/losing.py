"""Is everything of a topic in the one that was made from it?

The source's ids are remembered first, one partition at a time, then the output is read and strikes
out those that it has. What is left was lost on the way:

    source   orders-3   a@17  b@18  c@19
    output              a     c              b@18 is in no partition of it

An id may be in any partition of the output, so all of it has to be read before one is called lost;
where a part cannot be read, nobody knows. An id that the source has twice is lost if the output
does not have it at all, and found if it has it once.

A pipeline takes its time. A record of the source that is younger than it may take and is not there
is on its way, as far as anybody can tell: it is counted apart, and not called lost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sexton.audit import state_kernels as kernels
from sexton.audit.across import empty_sketch, mark, marked, sketch_bits
from sexton.audit.expressions import parts
from sexton.audit.fields import EMPTY, FOUND, UNREADABLE, Read, Rows, fingerprints, why_unreadable
from sexton.audit.ordering import MOST_ROWS
from sexton.audit.state_table import StateTable
from sexton.audit.validating import UnreadableRecord
from sexton.audit.validation import LOST, NO_OFFSET, Rules, Sighting
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.records.tables import Array


class _Sought(NamedTuple):
    """Some rows of the source."""

    ids: Array
    status: Array
    offsets: Array
    settled: Array | None  # bool: old enough to be called lost; None: all are


class LossFold:
    """One partition of the source, beside as much of the output as it takes."""

    def __init__(
        self, partition: TopicPartition, rules: Rules, seed: int, settled_ms: int | None = None
    ) -> None:
        """Records of the source from `settled_ms` on, by their timestamps, may be on their way."""
        assert rules.source is not None and rules.id is not None, "ids are what is looked for"
        self._partition, self._seed, self._settled_ms = partition, seed, settled_ms
        self._skip = rules.skip_unreadable
        self._id = parts(rules.id, "--id")
        self._source_id = parts(rules.source_id or rules.id, "--source-id")
        self._rows: list[_Sought] = []
        self._count = 0
        self._sketch = empty_sketch(64)
        self._there: StateTable | None = None
        self.unreadable = 0  # records of the source in which there is no id

    # ── the source, from start to end ──

    def take_source(self, rows: Rows) -> None:
        ids = fingerprints(self._source_id, rows, self._seed)
        self._refuse(ids.status, rows)
        self._rows.append(_Sought(ids.values, ids.status, rows.offsets, self._settled(rows)))
        self._count += len(rows)
        if self._count > MOST_ROWS:
            why = f"has more than {MOST_ROWS:,} records to look for"
            raise ConfigError(str(self._partition), why, "leave out --complete")

    def _refuse(self, status: Array, rows: Rows) -> None:
        """As with the output: a record without an id is an error, or is counted; a null is none."""
        self.unreadable += int(np.count_nonzero(status == EMPTY))
        unreadable = np.flatnonzero(status == UNREADABLE)
        if not len(unreadable):
            return
        row = int(unreadable[0])
        if not self._skip:
            why = why_unreadable(self._source_id[0], rows, row)
            hint = "name the id in the source's records with --source-id, or --skip-unreadable"
            raise UnreadableRecord(f"{self._partition}, offset {rows.offsets[row]}", why, hint)
        self.unreadable += len(unreadable)

    def _settled(self, rows: Rows) -> Array | None:
        if self._settled_ms is None:
            return None
        old: Array = rows.columns.timestamp[rows.rows] < self._settled_ms
        return old

    @property
    def judged(self) -> int:
        """Records of the source that there is an answer for."""
        sought = sum(int(np.count_nonzero(each.status == FOUND)) for each in self._rows)
        return sought - self.unsettled

    # ── the output, one partition after the other ──

    def begin_output(self) -> None:
        self._sketch = empty_sketch(sketch_bits(self._count))
        for each in self._rows:
            mark(self._sketch, Read(each.ids, each.status))
        self._there = StateTable(kernels.ONCE, MOST_ROWS, may_read_again=False)

    def take_output(self, rows: Rows) -> None:
        assert self._there is not None
        ids = fingerprints(self._id, rows, self._seed)
        few = marked(self._sketch, ids)
        prints = np.ascontiguousarray(ids.values[few])
        nothing = np.zeros(len(few), np.int64)
        self._there.take(prints, np.zeros(len(few), np.uint8), nothing, rows.offsets[few])

    # ── what it amounts to ──

    @property
    def missing(self) -> int:
        """Records of the source that the output has not shown so far, lost or on their way."""
        return sum(int(np.count_nonzero(self._missing(each))) for each in self._rows)

    @property
    def unsettled(self) -> int:
        """Those of them that may be on their way."""
        if self._settled_ms is None:
            return 0
        return self.missing - sum(len(self._lost(each)) for each in self._rows)

    def _missing(self, sought: _Sought) -> Array:
        assert self._there is not None
        _numbers, known = self._there.look_up(sought.ids, sought.status)
        missing: Array = (sought.status == FOUND) & (known != FOUND)
        return missing

    def _lost(self, sought: _Sought) -> Array:
        """Their offsets."""
        missing = self._missing(sought)
        lost: Array = sought.offsets[
            missing if sought.settled is None else missing & sought.settled
        ]
        return lost

    def sightings(self, most: int) -> list[Sighting]:
        """The first ones, without their keys and ids."""
        at = self._partition
        found: list[Sighting] = []
        for each in self._rows:
            lost = self._lost(each)[: most - len(found)].tolist()
            found += [
                Sighting(LOST, at, None, None, "", "", NO_OFFSET, offset, at.partition)
                for offset in lost
            ]
        return found
