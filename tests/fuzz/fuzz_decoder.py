"""atheris looks for bytes that the decoder cannot bear.

    python -m tests.fuzz.fuzz_decoder SECONDS DIRECTORY [libFuzzer options]

DIRECTORY keeps what is worth starting from the next time, and an input that failed. The search
starts from the files that Kafka wrote and is led by the branches that it finds in our Python. It
cannot see into compiled kernels, so what they make of an input is compared with the plain decoder,
as in tests/property. The first byte of an input says what the rest is: a segment; one batch whose
header is mended (magic, length, checksum) to get past the checksum; an index or a snapshot.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sexton.records", "sexton.log"]):
    from sexton.base.errors import CorruptLog
    from sexton.log.indexes import OffsetIndex, TimeIndex, parse_aborted
    from sexton.log.snapshots import parse_snapshot
    from sexton.records.control import first_control_record
    from sexton.records.layout import HEADER_BYTES, BatchHeader
    from tests.handmade import seal
    from tests.kafka_data import DATA
    from tests.property.test_damaged_segments import judge, scanned, walked

LARGEST = 4096


def mended(data: bytes) -> bytes:
    """`data` as one batch: its own header fields, and a magic, length and checksum that fit."""
    if len(data) < HEADER_BYTES:
        return data
    head = bytearray(data[:HEADER_BYTES])
    head[16] = 2
    for place in (0, 23, 57):
        head[place] &= 0x7F
    # Small counts, mostly: a large one is refused before the records are looked at.
    struct.pack_into(">i", head, 57, struct.unpack_from(">i", head, 57)[0] % 1000)
    return seal(BatchHeader.unpack(head), data[HEADER_BYTES:])


def one_input(data: bytes) -> None:
    if not data:
        return
    kind, rest = data[0] % 4, data[1:]
    if kind == 3:
        _side_files(rest)
        return
    segment = mended(rest) if kind == 1 else rest
    judge(segment)
    assert walked(segment) == scanned(segment)
    for position in walked(segment)[0]:
        header = BatchHeader.unpack(segment, position)
        if header.is_control:
            try:
                first_control_record(segment[position : position + header.size], "fuzz")
            except CorruptLog:
                pass


def _side_files(data: bytes) -> None:
    """Indexes and snapshots: any bytes are entries or CorruptLog, and entries come back."""
    assert data.startswith(OffsetIndex.parse(data).pack())
    assert data.startswith(TimeIndex.parse(data).pack())
    for parse in (parse_aborted, parse_snapshot):
        try:
            parse(data, "fuzz")
        except CorruptLog:
            pass


def make_corpus(directory: Path) -> None:
    for number, path in enumerate(sorted(DATA.rglob("*"))):
        kinds = {".log": b"\0\1", ".index": b"\3", ".timeindex": b"\3"}
        kinds |= {".txnindex": b"\3", ".snapshot": b"\3"}
        if path.suffix in kinds and 0 < path.stat().st_size < LARGEST:
            for kind in kinds[path.suffix]:
                (directory / f"{number}-{kind}").write_bytes(bytes([kind]) + path.read_bytes())


def main(seconds: int, directory: Path, options: list[str]) -> None:
    corpus = directory / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    make_corpus(corpus)
    limits = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", "-timeout=20"]
    limits += ["-rss_limit_mb=2048", f"-artifact_prefix={directory}/failed."]
    atheris.Setup([sys.argv[0], *limits, *options, str(corpus)], one_input)
    atheris.Fuzz()  # ends the process


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
