"""A log that we write, with something of everything in it, and what consumers must see of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sexton.log.partition import PartitionLog
from sexton.records.columns import Record, write_headers
from sexton.records.decoder import decode
from sexton.records.layout import BatchHeader, Codec
from tests.handmade import batch, record
from tests.log_text import Writer

START_MS = 1_700_000_000_000

# Each line is a batch; what stands before it says whether a read_committed consumer sees it.
#   +  yes    -  no: aborted, or at or after the first open transaction    .  a marker, for nobody
STORY = """
+ a=1 b=2 c=3 d=4 e=5
+ -b
+ ~{one} a=idempotent b=again
+ @{two} a=committed -c
- @{three} a=aborted x=aborted
+ f=between
+ ~{one} a=more
. @{two} commit
- @{three} y=aborted
. @{three} abort
+ a=last
roll
- @{three} z=twice
. @{three} abort
+ @{two} a=again
. @{two} commit c1
"""
END = """
- @{open} o=open
- p=after
. @{two} abort c1
"""


@dataclass
class OurLog:
    """What was appended, as consumers see it."""

    log: PartitionLog
    leader_epoch: int
    now_ms: int = START_MS
    everything: list[Record] = field(default_factory=list)
    committed: list[Record] = field(default_factory=list)
    writer: Writer = field(default_factory=Writer)

    def append(self, data: bytes, seen: str) -> None:
        header = BatchHeader.unpack(data)
        done = self.log.append_as_leader(
            data, self.leader_epoch, self.now_ms, from_client=not header.is_control
        )
        assert not done.repeat
        if seen == ".":
            return
        for row in decode(data).records():
            moved = row._replace(offset=row.offset - header.base_offset + done.first_offset)
            self.everything.append(moved)
            if seen == "+":
                self.committed.append(moved)

    def tell(self, story: str, first_producer: int) -> None:
        names = {
            name: str(first_producer + n) for n, name in enumerate(("one", "two", "three", "open"))
        }
        for line in story.strip().splitlines():
            if line == "roll":
                self.log.roll(self.now_ms)
                continue
            seen, text = line.split(" ", 1)
            self.now_ms += 1000
            self.writer.timestamp = self.now_ms
            self.append(self.writer.batch(text.format(**names)), seen)


def write_our_log(log: PartitionLog, leader_epoch: int, first_producer: int = 50_000) -> OurLog:
    """Every codec, tombstones, headers, transactions of all ends, several segments; not closed."""
    ours = OurLog(log, leader_epoch)
    for number, codec in enumerate(Codec):
        ours.writer.codec = codec
        ours.tell(STORY, first_producer + 10 * number)
        for shaped in _shapes(ours.now_ms, codec):
            ours.append(shaped, "+")
    ours.writer.codec = Codec.NONE
    ours.tell(END, first_producer + 100)
    return ours


def _shapes(now_ms: int, codec: Codec) -> Iterator[bytes]:
    headers = write_headers([("h", b"1"), ("h", None), ("", b""), ("ключ", b"\xff\x00")])
    times = {"base_timestamp": now_ms, "max_timestamp": now_ms + 5}
    yield batch(
        record(key=None, value=b"", headers=headers),
        record(1, timestamp_delta=5, key=b"", value=None),
        record(2, timestamp_delta=-900, key=b"k" * 300, value=b"long " * 9000),
        attributes=codec,
        **times,
    )
