from __future__ import annotations

import pytest

from sexton.records.varints import get_varint, put_varint

KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    8192: "808001",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
    2**63 - 1: "feffffffffffffffff01",
    -(2**63): "ffffffffffffffffff01",
}


@pytest.mark.parametrize(("value", "encoded"), KNOWN.items())
def test_zigzag_varints_are_kafkas(value: int, encoded: str) -> None:
    assert put_varint(value).hex() == encoded
    assert get_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


def test_a_varint_is_read_from_its_place() -> None:
    assert get_varint(b"\xff\x80\x01\xff", 1) == (64, 3)


def test_a_varint_that_is_cut_is_an_index_error() -> None:
    for cut in (b"", b"\x80", b"\xff" * 9):
        with pytest.raises(IndexError):
            get_varint(cut, 0)


def test_a_varint_that_never_ends_is_given_up_after_ten_bytes() -> None:
    with pytest.raises(IndexError, match="more than ten bytes"):
        get_varint(b"\xff" * 100, 0)
