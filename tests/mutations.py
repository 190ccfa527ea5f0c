"""Damage to a segment, from a seeded `Random`: as disks do it, and as an attacker would.

A disk flips bits, loses ends and mixes up blocks; nearly all of that is caught by a checksum. So
half of the damage here is sealed with a matching checksum, to get as far as the record decoder.
"""

from __future__ import annotations

from random import Random

from sexton.base.errors import CorruptLog
from sexton.records.codecs import deflate, inflate
from sexton.records.layout import HEADER_BYTES, BatchHeader, Codec
from tests.handmade import HEADER, field, framed, seal, split, with_codec

_BITS = {
    "base_offset": 64,
    "partition_leader_epoch": 32,
    "attributes": 16,
    "last_offset_delta": 32,
    "base_timestamp": 64,
    "max_timestamp": 64,
    "producer_id": 64,
    "producer_epoch": 16,
    "base_sequence": 32,
    "records_count": 32,
}


def damaged(random: Random, segment: bytes) -> bytes:
    """What a disk may make of a segment: the checksums are left as they were."""
    data = bytearray(segment)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << random.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at : at + random.choice([1, 7, 61, 100])]
            case 3:
                data[at:at] = data[: random.randrange(200)]
            case _:
                data[at : at + 8] = random.randbytes(random.choice([8, 8, 3]))
    return bytes(data)


def forged(random: Random, segment: bytes) -> bytes:
    """One batch of a sound segment changed by someone who knows how to make a checksum."""
    batches = split(segment)
    if not batches:
        return segment
    chosen = random.randrange(len(batches))
    parts = []
    for index, (header, section) in enumerate(batches):
        if index != chosen:
            parts.append(header.pack() + section)
        elif random.random() < 0.3:
            parts.append(seal(_forged_header(random, header), section))
        else:
            parts.append(_forged_records(random, header, section))
    return b"".join(parts)


def _forged_header(random: Random, header: BatchHeader) -> BatchHeader:
    name = random.choice(list(_BITS))
    bits = _BITS[name]
    near = header._asdict()[name] + random.randint(-3, 3)
    wild = random.getrandbits(random.randint(1, bits)) - (1 << bits - 1) * random.randrange(2)
    value = random.choice([near, wild])
    half = 1 << bits - 1
    return header._replace(**{name: (value + half) % (1 << bits) - half})


def _forged_records(random: Random, header: BatchHeader, section: bytes) -> bytes:
    try:
        plain = inflate(header.codec, section, "forge", 1 << 20)
    except CorruptLog:
        plain = section
    plain = damaged(random, plain)
    codec = random.choice([header.codec, *Codec])
    if codec not in set(Codec):
        codec = Codec.NONE
    section = deflate(codec, plain)
    if codec and random.random() < 0.2:
        section = damaged(random, section)
    return seal(with_codec(header, codec), section)


def unended(random: Random) -> bytes:
    """A batch whose last bytes are those of a number that goes on."""
    fields = [b"\0", b"\0", b"\0", field(b"key"), field(None), b"\0"]
    body = b"".join(fields[: random.randint(1, 6)])
    body += b"\xff" * max(random.randint(1, 9), 6 - len(body))
    plain = framed(body) if random.random() < 0.8 else b"\xff" * random.randint(7, 9)
    codec = random.choice([Codec.NONE, Codec.NONE, Codec.LZ4])
    header = HEADER._replace(records_count=1, attributes=codec)
    return seal(header, deflate(codec, plain))


def mutated(random: Random, segment: bytes) -> bytes:
    return random.choice([damaged, forged, forged])(random, segment)


def noise(random: Random) -> bytes:
    """Bytes that may begin like a batch."""
    data = bytearray(random.randbytes(random.randrange(300)))
    if len(data) >= HEADER_BYTES and random.random() < 0.8:
        data[16] = 2
        data[8:12] = random.choice([49, len(data) - 12, 60, 2**31 - 1]).to_bytes(4, "big")
        if random.random() < 0.8:
            for place in (0, 23, 57):
                data[place] &= 0x7F
        if random.random() < 0.5:
            data[57:61] = random.randrange(8).to_bytes(4, "big")
    return bytes(data)
