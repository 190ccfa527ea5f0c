"""What is in the files beside a log: indexes, snapshots, checkpoints, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sexton.base.errors import CorruptLog
from sexton.log import names
from sexton.log.checkpoints import parse_epochs, parse_metadata, parse_offsets
from sexton.log.indexes import parse_aborted
from sexton.log.inspect.index_checks import offset_index, time_index
from sexton.log.inspect.paths import OtherFile
from sexton.log.snapshots import ProducerEntry, parse_snapshot
from sexton.protocol.uuids import uuid_text

Cell = int | str | None


@dataclass(frozen=True, slots=True)
class Kind:
    """How the rows of one kind of file are called; each row begins with the file's path."""

    rows: str  # a plural
    columns: tuple[str, ...]


_TOPIC_OFFSETS = Kind("offsets", ("topic", "partition", "offset"))
KINDS: dict[str, Kind] = {
    names.OFFSET_INDEX: Kind("index_entries", ("offset", "position")),
    names.TIME_INDEX: Kind("time_index_entries", ("timestamp", "offset")),
    names.TRANSACTION_INDEX: Kind(
        "aborted_transactions",
        ("producer_id", "first_offset", "last_offset", "last_stable_offset"),
    ),
    names.SNAPSHOT: Kind("producers", ProducerEntry._fields),
    names.EPOCHS: Kind("epochs", ("epoch", "start_offset")),
    names.METADATA: Kind("metadata_entries", ("topic_id",)),
    names.RECOVERY_POINTS: _TOPIC_OFFSETS,
    names.LOG_STARTS: _TOPIC_OFFSETS,
    names.HIGH_WATERMARKS: _TOPIC_OFFSETS,
    names.CLEANER_OFFSETS: _TOPIC_OFFSETS,
}


def rows_of(file: OtherFile) -> Iterator[tuple[Cell, ...]]:
    """The rows of a file, under the columns of its kind.

    OSError if it cannot be read; CorruptLog where it is damaged, after what is sound.
    """
    where, data = str(file.path), file.path.read_bytes()
    match file.kind:
        case names.OFFSET_INDEX | names.TIME_INDEX:
            load = offset_index if file.kind == names.OFFSET_INDEX else time_index
            index = load(file.path, data, file.base_offset)
            pairs = zip(index.offset.tolist(), index.other.tolist(), strict=True)
            for offset, other in pairs:
                yield (offset, other) if file.kind == names.OFFSET_INDEX else (other, offset)
            if index.fault is not None:
                raise CorruptLog(f"{where} at byte {index.fault_at}", index.fault)
        case names.TRANSACTION_INDEX:
            yield from parse_aborted(data, where)
        case names.SNAPSHOT:
            yield from parse_snapshot(data, where)
        case names.EPOCHS:
            yield from parse_epochs(data, where)
        case names.METADATA:
            yield (uuid_text(parse_metadata(data, where).bytes),)
        case _:
            for (topic, partition), offset in parse_offsets(data, where).items():
                yield topic, partition, offset
