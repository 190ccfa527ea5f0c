"""Records that are read for a comparison: all of them, or none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from sexton.audit.fields import Rows
from sexton.base.errors import CorruptLog
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.reading import OffsetsGone
from sexton.client.replica import Chunk
from sexton.survey import validating_tasks
from sexton.survey.validating_tasks import MOST_STARTS, Starts, Stretch, read_rows, what_is_left
from tests.unit.audit.replicas import PARTITION, TextReplica

NOBODY = cast("Client", None)


def read(monkeypatch: pytest.MonkeyPatch, lines: str) -> list[int]:
    """The offsets that are handed on, of a log told as text."""
    batches = TextReplica(1, lines.splitlines()).batches()

    async def chunks(*_asked: Any, **_named: Any) -> AsyncIterator[Chunk]:
        for batch in batches:
            yield Chunk(memoryview(batch), 0, 0, 0, 0, ())

    monkeypatch.setattr(validating_tasks, "chunks", chunks)
    found: list[int] = []

    def take(rows: Rows) -> None:
        found.extend(rows.offsets.tolist())

    asyncio.run(read_rows(NOBODY, Stretch(PARTITION, 0, 100), True, take))
    return found


def test_a_damaged_batch_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a key's last record would be another one. The control: without the damage."""
    assert read(monkeypatch, "0 a=1\n1 a=2") == [0, 1]
    with pytest.raises(CorruptLog, match="offset 1"):
        read(monkeypatch, "0 a=1\n1 ! a=2")


def test_a_log_that_is_deleted_faster_than_it_is_read_is_given_up() -> None:
    begun: list[int] = []

    async def losing(stretch: Stretch) -> None:
        begun.append(stretch.start)
        raise OffsetsGone("t-0", stretch.start, stretch.start + 10, 1000)

    starts: Starts = {}
    with pytest.raises(OffsetsGone):
        asyncio.run(what_is_left(Stretch(PARTITION, 0, 100), starts, losing))
    assert begun == [0, 10, 20, 30, 40] and len(begun) == MOST_STARTS
    assert starts == {PARTITION: 40}


def test_a_log_that_ends_too_early_is_not_begun_anew() -> None:
    """Truncated: its start is where it was."""

    async def cut(stretch: Stretch) -> None:
        raise OffsetsGone("t-0", stretch.end, 0, 50)

    starts: Starts = {}
    with pytest.raises(OffsetsGone) as raised:
        asyncio.run(what_is_left(Stretch(PARTITION, 0, 100), starts, cut))
    assert raised.value.error is KafkaError.OFFSET_OUT_OF_RANGE and not starts
