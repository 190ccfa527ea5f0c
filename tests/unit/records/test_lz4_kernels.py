"""lz4 by kernels is lz4 by the package, byte for byte, and works without them all the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from sexton.records import Decoder, decode, inflating, scan
from sexton.records.codecs import deflate, inflate
from sexton.records.inflating import Inflater
from sexton.records.layout import HEADER_BYTES, Codec
from sexton.records.liblz4 import find_lz4
from sexton.records.lz4_kernels import BLOCK
from sexton.records.lz4_kernels import deflate as deflate_kernel
from sexton.records.native import address
from tests.handmade import HEADER, batch, record, seal
from tests.kafka_data import kafka_logs

SIZES = [0, 1, 2, 12, 13, 100, 4000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5]


def texts(size: int) -> list[bytes]:
    """What compresses well, a little, and not at all."""
    random = Random(size)
    letters = bytes(random.choices(b"abcdefgh", k=size))
    return [letters, (letters[:37] * (size // 37 + 1))[:size], random.randbytes(size)]


def deflated(*plains: bytes, again: list[bool]) -> bytes:
    lz4 = find_lz4()
    assert lz4 is not None, "the package we test with has its functions"
    batches = [bytes(HEADER_BYTES) + plain for plain in plains]
    data = np.frombuffer(b"".join(batches), np.uint8)
    sizes, flags = np.array([len(b) for b in batches]), np.array(again, np.uint8)
    room = len(data) + len(batches) * 64 + 4 * (len(data) // BLOCK)
    out = np.empty(room, np.uint8)
    written = deflate_kernel(
        address(data), address(sizes), address(flags), len(sizes), address(out), room, lz4.compress
    )
    assert written >= 0
    return out[:written].tobytes()


@pytest.mark.parametrize("size", SIZES)
def test_a_frame_is_what_the_package_makes_of_it(size: int) -> None:
    for plain in texts(size):
        assert deflated(plain, again=[True])[HEADER_BYTES:] == deflate(Codec.LZ4, plain)


def test_batches_that_are_not_to_be_compressed_are_copied() -> None:
    made = deflated(b"one", b"two" * 99, b"three", again=[False, True, False])
    packed = deflate(Codec.LZ4, b"two" * 99)
    assert made[:64] == bytes(HEADER_BYTES) + b"one"
    assert made[64 + HEADER_BYTES :][: len(packed)] == packed
    assert made.endswith(bytes(HEADER_BYTES) + b"three")


def test_too_little_room_is_noticed_before_anything_is_written_there() -> None:
    lz4 = find_lz4()
    assert lz4 is not None
    data = np.zeros(HEADER_BYTES + 100, np.uint8)
    sizes, again = np.array([len(data)]), np.ones(1, np.uint8)
    out = np.empty(len(data), np.uint8)
    assert (
        deflate_kernel(
            address(data), address(sizes), address(again), 1, address(out), len(out), lz4.compress
        )
        == -1
    )


def inflated(data: bytes, enough: int = 1 << 30) -> list[bytes]:
    found = scan(data)
    wanted = np.ones(len(found), np.uint8)
    plain = Inflater().run(found.data, found.position, wanted, "here", enough)
    return [
        b"damaged: " + plain.faults[index].encode()
        if index in plain.faults
        else plain.data[start:end].tobytes()
        for index, (start, end) in enumerate(
            zip(plain.starts.tolist(), plain.ends.tolist(), strict=True)
        )
    ]


def packed_batch(codec: Codec, plain: bytes) -> bytes:
    return seal(HEADER._replace(attributes=codec), deflate(codec, plain))


@pytest.mark.parametrize("with_kernel", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_what_was_compressed_comes_back(
    size: int, with_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_kernel:
        monkeypatch.setattr(inflating, "find_lz4", lambda: None)
    plains = texts(size)
    data = b"".join(packed_batch(codec, plain) for plain in plains for codec in Codec)
    assert inflated(data) == [plain for plain in plains for _ in Codec]


def test_enough_is_enough() -> None:
    data = b"".join(packed_batch(Codec.LZ4, bytes(1000)) for _ in range(10))
    assert len(inflated(data, 2500)) == 3
    assert len(inflated(data, 1)) == 1


def test_a_batch_that_is_not_wanted_gives_nothing() -> None:
    found = scan(packed_batch(Codec.LZ4, b"one") + packed_batch(Codec.LZ4, b"two"))
    plain = Inflater().run(found.data, found.position, np.array([0, 1]), "here", 1 << 20)
    assert (plain.starts.tolist(), plain.ends.tolist()) == ([0, 0], [0, 3])


def damages() -> list[bytes]:
    frame = deflate(Codec.LZ4, b"abc" * 100)
    return [
        frame[:-4],  # no end
        frame[:-9],
        frame[:7] + (BLOCK + 1).to_bytes(4, "little") + frame[11:],  # a block that is too large
        frame[:7] + b"\xff\xff\xff\x7f" + frame[11:],
        frame[:11] + b"\xff" * 10 + frame[21:],  # nonsense in a block
        frame[:4],
        b"",
    ]


@pytest.mark.parametrize("section", damages())
def test_damage_is_told_as_without_a_kernel(
    section: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = seal(HEADER._replace(attributes=Codec.LZ4), section) + packed_batch(Codec.LZ4, b"next")
    with_kernel = inflated(data)
    monkeypatch.setattr(inflating, "find_lz4", lambda: None)
    assert with_kernel == inflated(data)
    assert with_kernel[0].startswith(b"damaged: lz4 data is damaged")
    assert with_kernel[1] == b"next"


def test_a_bomb_is_stopped_at_its_bound() -> None:
    found = scan(packed_batch(Codec.LZ4, bytes(1 << 20)))
    plain = Inflater(most=1 << 19).run(found.data, found.position, np.ones(1), "here", 1 << 30)
    assert plain.faults == {0: f"inflates to more than {1 << 19} bytes"}


def test_frames_of_other_writers_are_read_too() -> None:
    """librdkafka's, for one, have a content size, linked blocks or checksums."""
    import lz4.frame

    plain = bytes(Random(1).choices(b"abcd", k=200_000))
    frame = lz4.frame.compress(plain, block_linked=True, content_checksum=True, store_size=True)
    data = seal(HEADER._replace(attributes=Codec.LZ4), frame)
    assert inflated(data) == [plain] == [inflate(Codec.LZ4, frame, "here")]


def test_real_segments_decode_the_same_without_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for log in kafka_logs("*lz4*"):
        for path in sorted(log.directory.glob("*.log")):
            data = path.read_bytes()
            records = list(decode(data).records())
            with monkeypatch.context() as patch:
                patch.setattr(inflating, "find_lz4", lambda: None)
                assert list(decode(data).records()) == records


def test_small_parts_of_compressed_batches_use_the_same_memory() -> None:
    data = b"".join(
        batch(record(value=bytes([n]) * 5000), base_offset=n, attributes=Codec.LZ4)
        for n in range(20)
    )
    values: list[bytes | None] = []
    for columns, bad in Decoder(part_bytes=12_000).parts(scan(data)):
        assert not bad
        values += columns.value.to_list()
    assert values == [bytes([n]) * 5000 for n in range(20)]
