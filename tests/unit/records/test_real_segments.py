"""Every segment that Apache Kafka wrote: read as Kafka reads it, written as Kafka wrote it."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import pytest

from sexton.records.columns import Columns
from sexton.records.decoder import decode, scan
from sexton.records.encoder import encode
from sexton.records.layout import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Codec,
)
from sexton.records.tables import field
from tests.dump_text import comparable, dump_file
from tests.kafka_data import DATA
from tests.reference import records_of

SEGMENTS = sorted(path for path in DATA.rglob("*.log") if path.stat().st_size)


def name_of(path: Path) -> str:
    version, case = path.relative_to(DATA).parts[:2]
    partition = f"/{path.parent.name}" if case == "data-directory" else ""
    return f"{version.removeprefix('kafka-')}/{case}{partition}/{int(path.stem)}"


every_segment = pytest.mark.parametrize("path", SEGMENTS, ids=name_of)


def golden(path: Path) -> str:
    """What kafka-dump-log printed for this file, from the dump.txt of its case."""
    case = path
    while not (case / "dump.txt").exists():
        case = case.parent
    text = (case / "dump.txt").read_text("utf-8")
    start = text.index(f"Dumping {path.relative_to(case)}\n")
    body = text[text.index("\n", start) + 1 :]
    return body.partition("\nDumping ")[0].rstrip("\n") + "\n"


def codecs_of(columns: Columns) -> set[Codec]:
    attributes = field(columns.headers_of_batches, "attributes")
    return {Codec(codec) for codec in (attributes & CODEC_MASK).tolist()}


@every_segment
def test_our_decode_is_what_kafka_dump_log_prints(path: Path) -> None:
    expected = comparable(golden(path))
    assert dump_file(path, data=" payload: " in expected) == expected


@every_segment
def test_encoding_what_was_decoded_gives_kafkas_bytes(path: Path) -> None:
    data = path.read_bytes()
    columns = decode(data)
    again = encode(columns)
    codecs = codecs_of(columns)
    # Snappy leaves the choice of matches to the library: Kafka has the C++ one, we the Rust one.
    # So does gzip, if this Python was built with another zlib than the original.
    other_library = {Codec.SNAPPY}
    if "ng" in zlib.ZLIB_RUNTIME_VERSION:
        other_library |= {Codec.GZIP}
    if codecs & other_library:
        assert list(decode(again).records()) == list(columns.records())
        sealed = ["batch_length", "crc"]
        for name in set(columns.headers_of_batches.dtype.names or ()) - set(sealed):
            assert (
                columns.headers_of_batches[name] == decode(again).headers_of_batches[name]
            ).all()
    else:
        assert again == data


@every_segment
def test_the_plain_python_decoder_agrees(path: Path) -> None:
    data = path.read_bytes()
    found = scan(data)
    expected = []
    for position, size in zip(found.position.tolist(), found.size.tolist(), strict=True):
        expected += records_of(data[position : position + size])
    assert list(decode(found).records()) == expected


def test_the_fixtures_hold_every_kind_of_batch() -> None:
    seen: Counter[str] = Counter()
    for path in SEGMENTS:
        columns = decode(path.read_bytes())
        table = columns.headers_of_batches
        attributes = field(table, "attributes")
        seen.update(codec.name for codec in codecs_of(columns))
        seen["log append time"] += int((attributes & LOG_APPEND_TIME != 0).sum())
        seen["transactional"] += int((attributes & TRANSACTIONAL != 0).sum())
        seen["control"] += int((attributes & 0x20 != 0).sum())
        seen["delete horizon"] += int((attributes & 0x40 != 0).sum())
        seen["emptied"] += int((field(table, "records_count") == 0).sum())
        gaps = field(table, "records_count") != field(table, "last_offset_delta") + 1
        seen["gaps"] += int(gaps.sum())
        seen["headers"] += int((columns.headers.length > 1).sum())
        seen["null keys"] += int((columns.key.length < 0).sum())
        seen["null values"] += int((columns.value.length < 0).sum())
        seen["empty values"] += int((columns.value.length == 0).sum())
    assert min(seen.values()) > 0, seen
    assert len(seen) == 15
