"""Zigzag varints, one at a time: for the few that are read outside a kernel."""

from __future__ import annotations


def get_varint(data: bytes | bytearray | memoryview, place: int) -> tuple[int, int]:
    """(value, the place after it); IndexError if it does not end within ten bytes of `data`."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place
    raise IndexError("a varint of more than ten bytes")


def put_varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
