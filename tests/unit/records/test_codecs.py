from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

from sexton.base.errors import CorruptLog
from sexton.records.codecs import MOST_INFLATED_BYTES, deflate, inflate
from sexton.records.layout import Codec

ROOT = Path(__file__).parents[3]
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
PLAIN = {
    "nothing": b"",
    "one byte": b"x",
    "text": b"the quick brown fox " * 500,
    "noise": random.Random(1).randbytes(5000),
    "several blocks": random.Random(2).randbytes(1000) * 200,
}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", PLAIN)
def test_every_codec_gives_back_what_it_was_given(codec: Codec, name: str) -> None:
    plain = PLAIN[name]
    packed = deflate(codec, plain)
    assert inflate(codec, packed, "x") == plain
    assert inflate(codec, memoryview(packed), "x", most=len(plain)) == plain


@pytest.mark.parametrize("codec", PACKED)
def test_one_byte_over_the_bound_is_refused(codec: Codec) -> None:
    packed = deflate(codec, PLAIN["text"])
    with pytest.raises(CorruptLog, match="inflates to more than 9999 bytes"):
        inflate(codec, packed, "x", most=9999)


@pytest.mark.parametrize("codec", PACKED)
def test_data_cut_anywhere_is_damaged(codec: Codec) -> None:
    packed = deflate(codec, PLAIN["text"])
    for end in range(len(packed)):
        if codec == Codec.SNAPPY and end == len(XERIAL):
            continue  # a stream of no blocks, which is whole
        with pytest.raises(CorruptLog, match=f"{codec.name.lower()} data is damaged"):
            inflate(codec, packed[:end], "x")


@pytest.mark.parametrize("codec", PACKED)
def test_flipped_bits_are_damage_or_bytes_and_nothing_else(codec: Codec) -> None:
    packed = bytearray(deflate(codec, PLAIN["text"]))
    damaged = 0
    for place in range(len(packed)):
        packed[place] ^= 0x10
        try:
            assert len(inflate(codec, bytes(packed), "x", most=1 << 20)) <= 1 << 20
        except CorruptLog:
            damaged += 1
        packed[place] ^= 0x10
    assert damaged > len(packed) // 4, "the rest changes bytes that only the batch's CRC can miss"


def test_a_codec_that_does_not_exist_is_corrupt() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(CorruptLog, match=f"x: compression codec {codec} does not exist"):
            inflate(codec, b"", "x")


def test_plain_snappy_is_read_as_librdkafka_writes_it() -> None:
    plain = PLAIN["several blocks"]
    packed = bytes(cramjam.snappy.compress_raw(plain))
    assert not packed.startswith(XERIAL[:8])
    assert inflate(Codec.SNAPPY, packed, "x") == plain


def test_snappy_is_written_in_xerials_blocks_of_32_kib() -> None:
    packed = deflate(Codec.SNAPPY, bytes(100_000))
    assert packed.startswith(XERIAL)
    blocks, place = 0, len(XERIAL)
    while place < len(packed):
        place += 4 + struct.unpack_from(">i", packed, place)[0]
        blocks += 1
    assert (blocks, place) == (4, len(packed))


def test_xerial_blocks_of_any_size_are_joined() -> None:
    pieces = [b"a", b"bc" * 100, b"", b"d" * 70_000]
    stream = XERIAL
    for piece in pieces:
        block = bytes(cramjam.snappy.compress_raw(piece))
        stream += struct.pack(">i", len(block)) + block
    assert inflate(Codec.SNAPPY, stream, "x") == b"".join(pieces)


@pytest.mark.parametrize("size", [-1, 0, 100, 2**31 - 1])
def test_a_xerial_block_that_claims_what_is_not_there_is_damaged(size: int) -> None:
    with pytest.raises(CorruptLog, match="snappy data is damaged"):
        inflate(Codec.SNAPPY, XERIAL + struct.pack(">i", size) + b"12345", "x")


def test_gzip_members_one_after_the_other_are_one_stream() -> None:
    parts = [b"a" * 1000, b"", b"b" * 50_000, b"c"]
    assert inflate(Codec.GZIP, b"".join(map(gzip.compress, parts)), "x") == b"".join(parts)
    with pytest.raises(CorruptLog, match="inflates to more than"):
        inflate(Codec.GZIP, b"".join(map(gzip.compress, parts)), "x", most=51_000)


def test_zstd_frames_one_after_the_other_are_one_stream() -> None:
    parts = [b"a" * 1000, b"", b"b" * 50_000, b"c"]
    frames = b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)
    assert inflate(Codec.ZSTD, frames, "x") == b"".join(parts)


def test_many_empty_gzip_members_take_time_in_step_with_their_bytes() -> None:
    def seconds(members: int) -> float:
        data = gzip.compress(b"") * members
        return min(_timed(lambda: inflate(Codec.GZIP, data, "x")) for _ in range(3))

    # Eight times the members: eight times the work, with room for noise; squared, it would be 64.
    assert seconds(32_000) < 30 * seconds(4_000)


def _timed(work: object) -> float:
    assert callable(work)
    start = time.process_time()
    work()
    return time.process_time() - start


def test_lz4_is_a_frame_of_independent_64_kib_blocks_as_java_writes_it() -> None:
    info = lz4.frame.get_frame_info(deflate(Codec.LZ4, bytes(200_000)))
    assert info["block_size"] == 65536
    assert not info["block_linked"]
    assert (info["content_checksum"], info["block_checksum"]) == (False, False)
    assert info["content_size"] == 0


def test_lz4_frames_that_other_clients_write_are_read() -> None:
    plain = PLAIN["several blocks"]
    packed = lz4.frame.compress(plain, content_checksum=True, block_checksum=True, store_size=True)
    assert inflate(Codec.LZ4, packed, "x") == plain


def test_zstd_frames_that_state_their_size_are_read() -> None:
    plain = PLAIN["text"]
    assert inflate(Codec.ZSTD, zstandard.ZstdCompressor(19).compress(plain), "x") == plain


BOMBS = """
import io, resource, struct, sys, zlib
from random import Random
import lz4.frame, zstandard
from sexton.base.errors import CorruptLog
from sexton.records.codecs import inflate
from sexton.records.layout import Codec

def zeros(write, finish):
    out = [write(bytes(1 << 20)) for _ in range(256)]
    return b"".join([*out, finish()])

def lying(size):
    return bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128,
                  size >> 21 & 127 | 128, size >> 28]) + b"x"

gz = zlib.compressobj(9, wbits=31)
zs = zstandard.ZstdCompressor(write_content_size=False).compressobj()
lz = lz4.frame.LZ4FrameCompressor()
xerial = b"\\x82SNAPPY\\0" + struct.pack(">ii", 1, 1)
bombs = {
    "gzip inflates": (Codec.GZIP, zeros(gz.compress, gz.flush)),
    "zstd inflates": (Codec.ZSTD, zeros(zs.compress, zs.flush)),
    "lz4 inflates": (Codec.LZ4, lz.begin() + zeros(lz.compress, lz.flush)),
    "snappy claims": (Codec.SNAPPY, lying((1 << 32) - 1)),
    "xerial claims": (Codec.SNAPPY, xerial + struct.pack(">i", 6) + lying((1 << 32) - 1)),
    "zstd claims": (Codec.ZSTD, bytes.fromhex("28b52ffd e0 0000000000000001 010000")),
    "zstd wants a window of a terabyte": (Codec.ZSTD, bytes.fromhex("28b52ffd 00 f8 010000")),
    "lz4 claims": (Codec.LZ4, lz4.frame.compress(b"x", store_size=True)),
}
claim = bytearray(bombs["lz4 claims"][1])
claim[6:14] = (1 << 40).to_bytes(8, "little")
bombs["lz4 claims"] = (Codec.LZ4, bytes(claim))
most = int(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name, (codec, data) in bombs.items():
    try:
        inflate(codec, data, "bomb", most)
    except CorruptLog as error:
        print(name, len(data), error.why, sep=" | ")
    else:
        sys.exit(f"{name}: no error")
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("grown", grown >> 10)
"""


def test_a_bomb_costs_an_error_and_not_the_memory_it_claims() -> None:
    most = 1 << 20
    # In a process of its own, where the highest memory ever used is that of this one thing.
    ran = subprocess.run(
        [sys.executable, "-c", BOMBS, str(most)], capture_output=True, text=True, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    *told, grown = ran.stdout.splitlines()
    assert len(told) == 8
    for name, size, why in (line.split(" | ") for line in told):
        assert int(size) < 8 << 20, name
        assert "inflates to more than 1048576 bytes" in why or "damaged" in why, name
    assert int(grown.split()[1]) < 100, "MiB; each bomb is 256 or more"


def test_the_bound_is_far_above_what_a_producer_sends_and_far_below_a_zeros() -> None:
    assert 64 << 20 <= MOST_INFLATED_BYTES <= 512 << 20
