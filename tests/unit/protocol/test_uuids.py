from __future__ import annotations

import base64
import uuid

import pytest

from sexton.protocol import ZERO_UUID, parse_uuid, uuid_text


def test_a_uuid_looks_as_in_kafkas_tools() -> None:
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    every_letter = bytes([0xFB, 0xFF] * 8)
    assert uuid_text(every_letter) == base64.urlsafe_b64encode(every_letter).decode()[:22]
    for given in (ZERO_UUID, every_letter, uuid.uuid4().bytes):
        assert parse_uuid(uuid_text(given)) == given


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "!", "ä" * 22, "A" * 24])
def test_other_texts_are_no_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="not a uuid in base64"):
        parse_uuid(text)
