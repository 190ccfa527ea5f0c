"""Which batches of a replica does a read_committed consumer show, and what became of transactions?

A broker sends batches with a list of aborted transactions: who, and from which offset on. What that
producer wrote from there to its next ABORT marker is hidden; everything else is shown. This is that
rule, and a record of what it was applied to:

    offset     0       1       2        3         4
    log        @7 a    @9 b    @7 c     @7 ABORT  @9 COMMIT
    aborted list: @7 from 0
    hidden     *               *
    span       first 0, data 0 to 2, marker 3

On the way each marker is held against the data it closes: a marker has the epoch of its data or the
one after it. (4.0.0 bumped it twice when a transaction was aborted for a producer, KAFKA-19367, so
an ABORT two epochs on passes as well.) What does not fit was written in another transaction, whose
own marker this replica has never seen.

Only batches with the transactional or control bit are looked at one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from sexton.audit.facts import AbortedSpan, MisfitMarker
from sexton.base.errors import CorruptLog
from sexton.records import kernels, tables
from sexton.records.control import ControlType, first_control_record
from sexton.records.decoder import Batches
from sexton.records.layout import CONTROL, LENGTH_END, NO_PRODUCER_ID, TRANSACTIONAL
from sexton.records.native import address
from sexton.records.tables import Array

Aborted = Iterable[tuple[int, int]]  # (first offset, producer id), as a broker lists them
MarkerKind = Literal["commit", "abort", "empty", "control", "damaged"]
MOST_SPANS = 100_000  # the newest are kept, the others counted: what is not compared may differ
MOST_MISFITS = 1_000


class Marker(NamedTuple):
    """A control batch. (A tuple: there are as many of them as transactions.)"""

    batch: int  # its place among the batches given
    producer_id: int
    epoch: int
    offset: int
    kind: MarkerKind

    @property
    def ends(self) -> bool:
        return self.kind in ("commit", "abort")


@dataclass(frozen=True, slots=True)
class Settled:
    """What is to be known about some batches, in order."""

    visible: Array  # uint8, one a batch: 1 if its records are shown
    hidden_records: int
    markers: list[Marker]


@dataclass(slots=True)
class _Span:
    producer_id: int
    first_offset: int
    epoch: int | None = None
    marker_offset: int | None = None
    first_data: int | None = None
    last_data: int | None = None

    def facts(self) -> AbortedSpan:
        return AbortedSpan(
            self.producer_id, self.epoch, self.first_offset,
            self.marker_offset, self.first_data, self.last_data,
        )  # fmt: skip


@dataclass(slots=True)
class _Unclosed:
    """Data of a producer since its last marker."""

    epoch: int  # the first one's
    first: int
    last: int
    other_epoch: int | None = None  # of later data, if it has another


@dataclass(slots=True)
class Settling:
    """Goes through a replica's batches in order, chunk by chunk."""

    markers: int = 0
    misfits: list[MisfitMarker] = field(default_factory=list)
    left_out: int = 0  # aborted transactions and misfits over the limits
    _spans: deque[_Span] = field(default_factory=lambda: deque(maxlen=MOST_SPANS))
    _known: dict[tuple[int, int], _Span] = field(default_factory=dict)  # listed, and not closed
    _ahead: deque[_Span] = field(default_factory=deque)  # listed, but not yet reached; by offset
    _aborting: dict[int, _Span] = field(default_factory=dict)  # by producer, until its marker
    _unclosed: dict[int, _Unclosed] = field(default_factory=dict)

    def take(self, batches: Batches, aborted: Aborted) -> Settled:
        self._list(aborted)
        headers = batches.headers
        attributes = tables.field(headers, "attributes")
        visible = np.ones(len(batches), np.uint8)
        (special,) = np.nonzero(attributes & (TRANSACTIONAL | CONTROL))
        if not len(special):
            return Settled(visible, 0, [])
        some = headers[special]
        is_control = attributes[special] & CONTROL != 0
        kinds = iter(_kinds(batches, special[is_control]))
        columns = zip(
            special.tolist(),
            is_control.tolist(),
            tables.field(some, "producer_id").tolist(),
            tables.field(some, "producer_epoch").tolist(),
            tables.field(some, "base_offset").tolist(),
            tables.last_offsets(some).tolist(),
            tables.field(some, "records_count").tolist(),
            strict=True,
        )
        markers: list[Marker] = []
        unseen: list[int] = []
        hidden = 0
        ahead = self._ahead
        for index, control, producer, epoch, base, last, count in columns:
            while ahead and ahead[0].first_offset <= last:
                span = ahead.popleft()
                self._aborting[span.producer_id] = span
            if control:
                unseen.append(index)
                marker = Marker(index, producer, epoch, last, next(kinds))
                markers.append(marker)
                self._mark(marker)
            elif self._hides(producer, epoch, base, last, count):
                unseen.append(index)
                hidden += count
        visible[unseen] = 0
        return Settled(visible, hidden, markers)

    def spans(self) -> tuple[AbortedSpan, ...]:
        return tuple(span.facts() for span in self._spans)

    def _list(self, aborted: Aborted) -> None:
        """New entries of the broker's list; it lists a long transaction with every chunk."""
        new = []
        for first_offset, producer_id in sorted(aborted):
            if (producer_id, first_offset) not in self._known:
                span = _Span(producer_id, first_offset)
                self._known[producer_id, first_offset] = span
                self.left_out += len(self._spans) == self._spans.maxlen
                self._spans.append(span)
                new.append(span)
        if new:
            every = sorted((*self._ahead, *new), key=lambda span: span.first_offset)
            self._ahead = deque(every)

    def _hides(self, producer: int, epoch: int, base: int, last: int, count: int) -> bool:
        """Takes note of a transactional batch of data. True: it was aborted."""
        if count:
            open_data = self._unclosed.get(producer)
            if open_data is None:
                self._unclosed[producer] = _Unclosed(epoch, base, last)
            else:
                open_data.last = last
                if epoch != open_data.epoch:
                    open_data.other_epoch = epoch
        span = self._aborting.get(producer)
        if span is None:
            return False
        if count:
            span.first_data = base if span.first_data is None else span.first_data
            span.last_data = last
            span.epoch = epoch if span.epoch is None else span.epoch
        return True

    def _mark(self, marker: Marker) -> None:
        if not marker.ends or marker.producer_id == NO_PRODUCER_ID:
            return
        self.markers += 1
        closed = self._unclosed.pop(marker.producer_id, None)
        if closed is not None and _misfits(closed, marker):
            self._note_misfit(closed, marker)
        if marker.kind == "abort":
            span = self._aborting.pop(marker.producer_id, None)
            if span is not None:
                self._known.pop((span.producer_id, span.first_offset), None)
                span.marker_offset = marker.offset
                span.epoch = marker.epoch if span.epoch is None else span.epoch

    def _note_misfit(self, data: _Unclosed, marker: Marker) -> None:
        if len(self.misfits) == MOST_MISFITS:
            self.left_out += 1
            return
        misfit = MisfitMarker(
            marker.producer_id, data.epoch, data.first, data.last,
            marker.offset, marker.epoch, marker.kind == "commit",
        )  # fmt: skip
        self.misfits.append(misfit)


def _misfits(data: _Unclosed, marker: Marker) -> bool:
    if data.other_epoch is not None:
        return True
    return is_anothers(marker.kind, marker.epoch - data.epoch)


def is_anothers(kind: str, ahead: int) -> bool:
    """Is a marker whose epoch is so far ahead of some data certainly not that data's own?"""
    return ahead not in ((0, 1) if kind == "commit" else (0, 1, 2))


# A marker as every coordinator writes it: a length, no attributes, no deltas, a key of four bytes.
_AT_DELTAS, _AT_KEY_SIZE, _AT_TYPE, _TYPE_END = 63, 65, 68, 70
_FOUR = 8  # as a varint
_MARKER_KINDS: dict[int, MarkerKind] = {ControlType.ABORT: "abort", ControlType.COMMIT: "commit"}


def _kinds(batches: Batches, control: Array) -> list[MarkerKind]:
    """What control batches say, if their bytes are those that were written."""
    headers = batches.headers[control]
    positions = np.ascontiguousarray(batches.position[control])
    status = np.zeros(len(control), np.int32)
    kernels.check_crcs(address(batches.data), address(positions), len(control), address(status))
    counts = tables.field(headers, "records_count")
    long_enough = tables.sizes(headers) >= _TYPE_END
    places = np.where(long_enough, positions, positions[0] if len(positions) else 0)
    byte = batches.data.take
    top = len(batches.data) - 1
    usual = long_enough & (counts == 1) & (status == 0)
    for place, value in ((_AT_DELTAS, 0), (_AT_DELTAS + 1, 0), (_AT_KEY_SIZE, _FOUR)):
        usual &= byte(np.minimum(places + place, top)) == value
    usual &= byte(np.minimum(places + _AT_TYPE, top)) == 0
    types = byte(np.minimum(places + _AT_TYPE + 1, top))
    found: list[MarkerKind] = []
    columns = zip(usual.tolist(), types.tolist(), counts.tolist(), status.tolist(), strict=True)
    for row, (as_usual, kind, count, fault) in enumerate(columns):
        if count == 0:
            found.append("empty")
        elif fault:
            found.append("damaged")
        elif as_usual:
            found.append(_MARKER_KINDS.get(kind, "control"))
        else:
            found.append(_unusual(batches, int(control[row])))
    return found


def _unusual(batches: Batches, index: int) -> MarkerKind:
    """A control batch that no coordinator of today writes."""
    header = batches.headers[index]
    position = int(batches.position[index])
    batch = batches.data[position : position + LENGTH_END + int(header["batch_length"])].data
    try:
        record = first_control_record(batch, "a control batch")
    except CorruptLog:
        return "damaged"
    assert record is not None
    return _MARKER_KINDS.get(record.type, "control")
