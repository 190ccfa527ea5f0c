"""What a simulated reader makes of an answer is what the client makes of it, read anywhere."""

from __future__ import annotations

from itertools import product

from sexton.client.committed import committed_batches
from sexton.client.replica import Chunk
from sexton.protocol.messages.fetch import AbortedTransaction, PartitionData
from sexton.sim.truth import fetched
from tests.log_text import Writer, at_offset

LINES = ("k=1", "@7 a=1", "@8 b=1", "@7 abort", "@7 commit")


def log_of(lines: tuple[str, ...]) -> tuple[list[bytes], list[AbortedTransaction]]:
    """Batches of a record each, and the transactions of producer 7 that were aborted."""
    writer, first, aborted = Writer(), None, []
    for offset, line in enumerate(lines):
        if line == "@7 a=1" and first is None:
            first = offset
        if line == "@7 abort" and first is not None:
            aborted.append(AbortedTransaction(7, first))
        if line in ("@7 abort", "@7 commit"):
            first = None
    return [at_offset(writer.batch(line), n) for n, line in enumerate(lines)], aborted


def test_every_small_log_is_shown_as_the_client_shows_it() -> None:
    hid_something = 0
    for lines in product(LINES, repeat=4):
        batches, aborted = log_of(lines)
        data = b"".join(batches)
        answer = PartitionData(records=data, aborted_transactions=aborted)
        found = list(fetched(answer))
        shown = [r.offset for batch, hidden in found if not hidden for r in batch.records]
        chunk = Chunk(memoryview(data), 4, 0, 4, 4, tuple(aborted))
        assert shown == [batch.header.base_offset for batch in committed_batches(chunk)], lines
        assert [batch.header.base_offset for batch, _ in found] == [0, 1, 2, 3]
        hid_something += any(hidden for batch, hidden in found if batch.records)
    assert hid_something > 50


def test_a_batch_that_is_cut_is_left_for_the_next_answer() -> None:
    (first, second), _ = log_of(("k=1", "@7 a=1"))
    found = list(fetched(PartitionData(records=first + second[:-1])))
    assert [batch.header.base_offset for batch, _ in found] == [0]
    assert list(fetched(PartitionData(records=None))) == []
