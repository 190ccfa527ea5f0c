"""A roll that fails half way leaves no second end of the log behind.

An empty segment that stayed would be the last one at the next start: what was appended meanwhile,
to the segment before it, would lie beyond the end and be written once more.
"""

from __future__ import annotations

import errno

import pytest

from sexton.base.errors import Refused
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from sexton.records.few import few_batch

CONFIG = LogConfig(segment_bytes=300)


class OneDescriptor(MemoryDisk):
    """The new segment takes the last one, so its directory cannot be opened to be synced."""

    refuses = False

    def sync_directory(self, path: str) -> None:
        if self.refuses and len([name for name in self.names(path) if name.endswith(".log")]) > 1:
            raise OSError(errno.EMFILE, "too many open files")
        super().sync_directory(path)


def append(log: PartitionLog, value: bytes) -> int:
    return log.append_as_leader(few_batch([(b"k", value)], 1), 0, 1).last_offset


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
def test_what_is_appended_after_it_is_there_after_a_restart(clean: bool, rolls: bool) -> None:
    disk = OneDescriptor()
    log = open_log(disk, "t-0", CONFIG, now_ms=0, clean=True).log
    append(log, b"0")
    disk.refuses = True
    with pytest.raises(Refused, match="too many open files"):
        append(log, b"large" * 50)
    assert append(log, b"fits") == 1
    disk.refuses = False
    if rolls:
        append(log, b"large" * 50)
    end = log.end_offset
    log.close(2)
    again = open_log(disk, "t-0", CONFIG, now_ms=3, clean=clean).log
    again.check()
    assert again.end_offset == end
    assert [header.base_offset for _, _, header in again.batches(0)] == list(range(end))
