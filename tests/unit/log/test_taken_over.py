"""A large batch is not copied on its way to the disk; whoever keeps its bytes gives others."""

from __future__ import annotations

import pytest

from sexton.base.errors import Refused
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.records.few import few_batch
from sexton.records.layout import BatchHeader

BATCH = few_batch([(b"key", b"value")], 5)
EPOCH = 3


def new_log() -> PartitionLog:
    disk = MemoryDisk()
    disk.make_directory("orders-0")
    log = open_log(disk, "orders-0", LogConfig(), now_ms=0, clean=True).log
    log.append_as_leader(BATCH, EPOCH, 0)  # so that the next one is not at offset 0
    return log


def second_batch(log: PartitionLog) -> bytes:
    read = log.read(1, 1 << 20)
    assert read.slice is not None
    return read.slice.read()


def test_a_view_that_can_be_written_to_gets_its_offset_where_it_is() -> None:
    log, bytes_of_request = new_log(), bytearray(BATCH)
    log.append_as_leader(memoryview(bytes_of_request), EPOCH, 0)
    header = BatchHeader.unpack(bytes_of_request)
    assert (header.base_offset, header.partition_leader_epoch) == (1, EPOCH)
    assert second_batch(log) == bytes(bytes_of_request)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_its_owner_keeps_stays_as_it_is(
    kind: type[bytes] | type[bytearray] | type[memoryview],
) -> None:
    log, given = new_log(), kind(BATCH)
    log.append_as_leader(given, EPOCH, 0)
    assert bytes(given) == BATCH
    taken_over = new_log()
    taken_over.append_as_leader(memoryview(bytearray(BATCH)), EPOCH, 0)
    assert second_batch(log) == second_batch(taken_over)


def test_a_batch_that_is_refused_is_left_alone() -> None:
    broken = bytearray(BATCH)
    broken[-1] ^= 1
    kept = bytes(broken)
    log = new_log()
    with pytest.raises(Refused, match="checksum"):
        log.append_as_leader(memoryview(broken), EPOCH, 0)
    assert bytes(broken) == kept
    assert log.end_offset == 1


def test_after_it_was_written_its_bytes_may_be_used_for_something_else() -> None:
    log, buffer = new_log(), bytearray(BATCH)
    log.append_as_leader(memoryview(buffer), EPOCH, 0)
    written = second_batch(log)
    buffer[:] = bytes(len(buffer))
    assert second_batch(log) == written != bytes(buffer)
