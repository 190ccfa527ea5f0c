"""Compressed records to plain ones and back, as Kafka's own streams write them.

Each codec's framing follows the Java client: gzip with its default level; snappy in xerial's blocks
of 32 KiB (plain snappy is read too: librdkafka may write it); an lz4 frame of independent 64 KiB
blocks without a content size or checksum; a zstd frame of level 3 without a content size.

What comes out of a batch is bounded before it is allocated, so that a kilobyte that claims to hold
a terabyte costs an error and nothing else.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from sexton.base.errors import CorruptLog, Missing
from sexton.records.layout import Codec

# One batch is at most max.message.bytes (1 MiB by default) on disk. A quarter of a gigabyte out of
# one batch is far more than any producer is configured for, and still fits beside others.
MOST_INFLATED_BYTES = 256 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, lowest compatible version
_XERIAL_BLOCK = 32 << 10
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"  # independent blocks of 64 KiB, no checksums, no size
_LZ4_BLOCK = 64 << 10
_LZ4_PLAIN = 1 << 31  # of a block's size: it is stored as it is
_GZIP = 16 + zlib.MAX_WBITS
# How much is given to a reader at once. After each member of a gzip stream zlib hands back what it
# was given too much, so a large step would make a stream of many small members quadratic. zstd
# cannot be told where to stop; a block of four bytes may inflate to 128 KiB, a kilobyte to 32 MiB.
_GZIP_STEP = 16 << 10
_ZSTD_STEP = 1 << 10
# lz4 allocates as much as it may write, so the bound itself would take longer to allocate than a
# batch to inflate: it starts with what most batches need.
_LZ4_STEP = 256 << 10
_GZIP_SYSTEM = 9  # the byte of a gzip header that names the operating system
_JAVA_SYSTEM = 0xFF  # "unknown", as Java has it since version 16


class _TooLarge(Exception):
    pass


def inflate(
    codec: int, data: bytes | memoryview, where: str, most: int = MOST_INFLATED_BYTES
) -> bytes:
    """The records that `data` holds compressed; CorruptLog if it is damaged or holds too much."""
    reader = _READERS.get(codec)
    if reader is None:
        raise CorruptLog(where, f"compression codec {codec} does not exist")
    try:
        return reader(data, most)
    except _TooLarge:
        raise CorruptLog(where, f"inflates to more than {most} bytes") from None
    except Missing:
        raise
    except Exception as error:  # noqa: BLE001 - each library has its own; all mean the same here
        raise CorruptLog(where, f"{Codec(codec).name.lower()} data is damaged: {error}") from None


def deflate(codec: int, data: bytes | memoryview) -> bytes:
    """`data` compressed as the Java client does it."""
    return _WRITERS[Codec(codec)](data)


def _read_gzip(data: bytes | memoryview, most: int) -> bytes:
    return _read_members(
        lambda: zlib.decompressobj(_GZIP),
        lambda reader, piece, room: reader.decompress(piece, room + 1),
        data, most, _GZIP_STEP,
    )  # fmt: skip


def _read_members(
    open_reader: Callable[[], Any],
    read: Callable[[Any, memoryview, int], bytes],
    data: bytes | memoryview,
    most: int,
    step: int,
) -> bytes:
    """One or more compressed streams, one after the other, up to the end of `data`."""
    view = memoryview(data)
    parts: list[bytes] = []
    place, room = 0, most
    while True:
        reader = open_reader()
        while not reader.eof:
            if place == len(view):
                raise ValueError("it ends in the middle")
            piece = view[place : place + step]
            parts.append(read(reader, piece, room))
            room -= len(parts[-1])
            if room < 0:
                raise _TooLarge
            place += len(piece)
        place -= len(reader.unused_data)
        if place == len(view):
            return b"".join(parts)


def _read_lz4(data: bytes | memoryview, most: int) -> bytes:
    if data[: len(_LZ4_HEADER)] == _LZ4_HEADER:
        return _read_lz4_blocks(data, most)
    return _read_lz4_frame(data, most)


def _read_lz4_blocks(data: bytes | memoryview, most: int) -> bytes:
    """A frame as Java writes it, block by block: twice as fast as setting up a frame reader."""
    import lz4.block

    parts: list[bytes | memoryview] = []
    room = most
    place = len(_LZ4_HEADER)
    while True:
        if place + 4 > len(data):
            raise ValueError("it ends in the middle")
        size = int.from_bytes(data[place : place + 4], "little")
        place += 4
        if size == 0:
            return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        plain, size = size & _LZ4_PLAIN, size & ~_LZ4_PLAIN
        if size > _LZ4_BLOCK or place + size > len(data):
            raise ValueError(f"a block claims {size} bytes, {len(data) - place} are left")
        part = data[place : place + size]
        if not plain:
            part = lz4.block.decompress(part, uncompressed_size=_LZ4_BLOCK)
        room -= len(part)
        if room < 0:
            raise _TooLarge
        parts.append(part)
        place += size


def _read_lz4_frame(data: bytes | memoryview, most: int) -> bytes:
    import lz4.frame

    reader = lz4.frame.LZ4FrameDecompressor()
    out, piece = b"", data
    while not reader.eof:
        room = min(_LZ4_STEP + 3 * len(out), most + 1 - len(out))
        part = reader.decompress(piece, max_length=room)
        out += part
        piece = b""
        if len(out) > most:
            raise _TooLarge
        if not reader.eof and (reader.needs_input or not part):
            raise ValueError("it ends in the middle")
    return out


def _read_zstd(data: bytes | memoryview, most: int) -> bytes:
    import zstandard

    # A window larger than the output bound would be memory for nothing.
    frames = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    return _read_members(
        frames.decompressobj,
        lambda reader, piece, _room: reader.decompress(piece),
        data, most, _ZSTD_STEP,
    )  # fmt: skip


def _read_snappy(data: bytes | memoryview, most: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _read_snappy_block(data, most)
    if len(data) < len(_XERIAL_HEADER):
        raise ValueError("it ends in the middle")
    parts = []
    place = len(_XERIAL_HEADER)
    room = most
    while place < len(data):
        (size,) = struct.unpack_from(">i", data, place)
        place += 4
        if size < 0 or place + size > len(data):
            raise ValueError(f"a block claims {size} bytes, {len(data) - place} are left")
        part = _read_snappy_block(data[place : place + size], room)
        parts.append(part)
        room -= len(part)
        place += size
    return b"".join(parts)


def _read_snappy_block(block: bytes | memoryview, most: int) -> bytes:
    import cramjam

    if _snappy_claim(block) > most:
        raise _TooLarge
    return bytes(cramjam.snappy.decompress_raw(block))


def _snappy_claim(block: bytes | memoryview) -> int:
    """The inflated size that a block states in front, as an unsigned varint."""
    size = 0
    for place, byte in enumerate(bytes(block[:5])):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return size
    raise ValueError("a block does not state its size")


def _write_gzip(data: bytes | memoryview) -> bytes:
    writer = zlib.compressobj(wbits=_GZIP)
    packed = bytearray(writer.compress(data) + writer.flush())
    packed[_GZIP_SYSTEM] = _JAVA_SYSTEM
    return bytes(packed)


def _write_lz4(data: bytes | memoryview) -> bytes:
    import lz4.frame

    out: bytes = lz4.frame.compress(
        data,
        compression_level=0,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return out


def _write_zstd(data: bytes | memoryview) -> bytes:
    import zstandard

    writer = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    packed = writer.compress(data)
    # Java flushes its stream before it closes it, which leaves an empty block at the end.
    packed += writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return packed + writer.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)


def _write_snappy(data: bytes | memoryview) -> bytes:
    import cramjam

    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


_READERS: dict[int, Callable[[Any, int], bytes]] = {
    Codec.NONE: lambda data, _most: bytes(data),
    Codec.GZIP: _read_gzip,
    Codec.SNAPPY: _read_snappy,
    Codec.LZ4: _read_lz4,
    Codec.ZSTD: _read_zstd,
}
_WRITERS: dict[Codec, Callable[[Any], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: _write_gzip,
    Codec.SNAPPY: _write_snappy,
    Codec.LZ4: _write_lz4,
    Codec.ZSTD: _write_zstd,
}
