"""What a cleaning pass is told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sexton.log.cleaner_bounds import Bounds
from sexton.records.layout import CONTROL, DELETE_HORIZON, BatchHeader

if TYPE_CHECKING:
    from sexton.records.tables import HeaderTable

SET_BYTES = 128 << 20  # Kafka's log.cleaner.dedupe.buffer.size


@dataclass(frozen=True, slots=True)
class CleanerOptions:
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    set_bytes: int = SET_BYTES
    seed: int = 0  # of the hash; draw it at random in production
    dry_run: bool = False


@dataclass(slots=True)
class Tally:
    """What a pass read, kept and removed, and why."""

    records_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    superseded: int = 0  # a later record of the same key is there
    aborted: int = 0
    tombstones: int = 0
    markers: int = 0
    without_key: int = 0
    empty_batches: int = 0  # batches removed whole that held no record
    readings: int = 1  # how often the log was read


@dataclass(frozen=True, slots=True)
class Waiting:
    """Witnesses and empty batches that stay for now, each with its offset: work for a later pass.

    A marker without a time has yet to be given its delete horizon.
    """

    tombstones: list[tuple[int, int]] = field(default_factory=list)  # (horizon, offset)
    markers: list[tuple[int | None, int]] = field(default_factory=list)
    empty: list[tuple[int, int]] = field(default_factory=list)  # (producer id, last offset)

    def note(self, headers: HeaderTable, bounds: Bounds) -> None:
        """Takes in batches that a pass has left below its end.

        A batch keeps its delete horizon when its last tombstone has gone. If the pass was free to
        remove tombstones from it, there is none left to wait for.
        """
        marked = (headers["attributes"] & (CONTROL | DELETE_HORIZON)).astype(bool)
        marked |= headers["records_count"] == 0
        if not marked.any():
            return  # as in most logs, most of the time
        marked &= headers["base_offset"] < bounds.end
        for row in headers[marked]:
            header = BatchHeader.unpack(row.tobytes())
            if header.records_count == 0:
                self.empty.append((header.producer_id, header.last_offset))
            elif header.is_control:
                self.markers.append((header.delete_horizon_ms, header.last_offset))
            elif header.delete_horizon_ms is not None and not _was_free(header, bounds):
                self.tombstones.append((header.delete_horizon_ms, header.base_offset))


@dataclass(frozen=True, slots=True)
class Cleaned:
    end: int  # every batch below has been through this pass
    tally: Tally
    waiting: Waiting


def _was_free(header: BatchHeader, bounds: Bounds) -> bool:
    """Could every tombstone of this batch go in that pass?"""
    passed = header.base_timestamp <= bounds.now_ms
    return passed and header.last_offset < bounds.tombstones
