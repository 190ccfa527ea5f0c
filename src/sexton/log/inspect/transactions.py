"""How did each transaction end?

As a broker sees it when it reads its log (ProducerStateManager): the first transactional batch of a
producer opens a transaction, and the producer's next marker ends whatever is open. So per producer
the batches fall into pieces, each ended by a marker; and only the first piece of a chunk can belong
to a transaction that began before it.

    producer 7   data data COMMIT | data ABORT | data …      three pieces, the last one open
    producer 9   … ABORT | COMMIT                            the first may end an earlier opening

A control batch that the cleaner has emptied ends nothing. A marker without data, and data whose
marker is not there yet, are both common: the first after cleaning, the second at the end of a log.

A batch that cannot be read may have been a marker, or data. So nothing is joined across it: a
transaction that was open before it is in doubt until the producer's next marker, which ends it but
does not tell how; and what the log shows after it is judged by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sexton.log.inspect.table import ABORT, COMMIT, NO_MARKER, BatchTable
from sexton.records.tables import Array

OPEN = -1  # as an outcome, beside ABORT and COMMIT
NOWHERE = -1  # as an offset


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction as far as this log shows it."""

    producer: int
    epoch: int  # of its first batch
    first: int  # offset of its first batch
    position: int  # of that batch in its file
    marker: int  # offset of the marker that ended it; NOWHERE: it is open
    outcome: int  # ABORT, COMMIT or OPEN
    marker_epoch: int  # producer epoch of the marker
    holds_records: bool  # some of its data is still there

    @property
    def is_open(self) -> bool:
        return self.outcome == OPEN


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a table, those of one producer in order."""

    producer: Array
    is_first: Array  # of its producer in this table
    epoch: Array
    first: Array  # NOWHERE: a marker alone
    position: Array
    holds_records: Array
    marker: Array  # NOWHERE: goes on after this table
    outcome: Array
    marker_epoch: Array

    def __len__(self) -> int:
        return len(self.producer)

    def transaction(self, piece: int) -> Transaction:
        return Transaction(
            int(self.producer[piece]),
            int(self.epoch[piece]),
            int(self.first[piece]),
            int(self.position[piece]),
            int(self.marker[piece]),
            int(self.outcome[piece]),
            int(self.marker_epoch[piece]),
            bool(self.holds_records[piece]),
        )


def pieces_of(table: BatchTable) -> Pieces:
    """Cuts the transactional batches of a table at every marker of their producer."""
    is_marker = table.is_control & ((table.marker == ABORT) | (table.marker == COMMIT))
    rows = np.flatnonzero((table.is_transactional | is_marker) & (table.producer >= 0))
    rows = rows[np.argsort(table.producer[rows], kind="stable")]
    producer, ends = table.producer[rows], is_marker[rows]
    new_producer = np.ones(len(rows), bool)
    new_producer[1:] = producer[1:] != producer[:-1]
    starts_piece = new_producer.copy()
    starts_piece[1:] |= ends[:-1]
    start = np.flatnonzero(starts_piece)
    stop = np.append(start[1:], len(rows)) if len(start) else start
    last = rows[stop - 1]
    ended = ends[stop - 1] if len(start) else np.zeros(0, bool)
    has_data = ~ends[start]
    counts = np.where(ends, 0, table.count[rows])
    records = np.add.reduceat(counts, start) if len(start) else np.zeros(0, np.int64)
    return Pieces(
        producer=producer[start],
        is_first=new_producer[start],
        epoch=table.epoch[rows[start]],
        first=np.where(has_data, table.base[rows[start]], NOWHERE),
        position=table.position[rows[start]],
        holds_records=records > 0,
        marker=np.where(ended, table.base[last], NOWHERE),
        outcome=np.where(ended, table.marker[last], OPEN),
        marker_epoch=np.where(ended, table.epoch[last], NO_MARKER),
    )


class TransactionTracker:
    """Joins pieces to transactions, table after table in log order; remembers only open ones."""

    def __init__(self) -> None:
        self.open: dict[int, Transaction] = {}
        self.committed = 0
        self.aborted = 0
        self.in_doubt: set[int] = set()  # producers whose transaction may have ended out of sight
        self._sound = True  # nothing was out of sight

    def lose_sight(self) -> None:
        """Something that cannot be read comes next."""
        self.doubt()
        self._sound = False

    def doubt(self) -> None:
        """What is open may have been ended where nobody can look."""
        self.in_doubt.update(self.open)
        self.open.clear()

    def last_stable(self, end: int) -> int | None:
        """The last stable offset of a log that ends before `end`.

        None where something could not be read: a transaction may have been opened or ended there.
        """
        if not self._sound or self.in_doubt:
            return None
        return min((t.first for t in self.open.values()), default=end)

    def add(self, table: BatchTable) -> list[Transaction]:
        """The next batches, of which the first alone may come after something unreadable.

        Returns transactions that ended as aborted, or strangely: others are only counted.
        """
        if len(table) and table.damage_before[0]:
            self.lose_sight()
        pieces, ended = pieces_of(table), list[Transaction]()
        # Python only for what may touch an earlier table or is worth a closer look.
        plain = ~pieces.is_first & (pieces.marker != NOWHERE) & (pieces.outcome == COMMIT)
        plain &= (pieces.first != NOWHERE) & (pieces.marker_epoch >= pieces.epoch)
        self.committed += int(plain.sum())
        for piece in np.flatnonzero(~plain).tolist():
            transaction = self._join(pieces.transaction(piece))
            if transaction is not None:
                ended.append(transaction)
        return ended

    def _join(self, piece: Transaction) -> Transaction | None:
        before = self.open.pop(piece.producer, None)
        if not piece.is_open:
            self.in_doubt.discard(piece.producer)
        if before is not None:
            piece = Transaction(
                piece.producer,
                before.epoch,
                before.first,
                before.position,
                piece.marker,
                piece.outcome,
                piece.marker_epoch,
                before.holds_records or piece.holds_records,
            )
        if piece.is_open:
            self.open[piece.producer] = piece
            return None
        if piece.first == NOWHERE:
            return None  # a marker that ended nothing
        if piece.outcome == COMMIT:
            self.committed += 1
            return piece if piece.marker_epoch < piece.epoch else None
        self.aborted += 1
        return piece
