"""Logs written by hand as text, and what an inspection says about them.

segment 0        one batch a line, its first offset in front; otherwise as in tests/log_text.py
0 a=1 b=1        `3 ~7 (empty)`, `3 @7 (empty marker)`: cleaning emptied it; `3-5 ...` spans more
epochs           the leader-epoch-checkpoint: an epoch and its first offset a line
index 0          the .index of segment 0: an offset and a position a line; `timeindex` likewise
txnindex 0       producer, first offset, marker offset, last stable offset
snapshot 5       producer, epoch, last sequence, last offset, open first offset
flip, cut, zeros change a file
verify, dump, batches
"""

from __future__ import annotations

import struct
from pathlib import Path

from sexton.base.findings import Finding
from sexton.log import names
from sexton.log.checkpoints import EpochStart, pack_epochs
from sexton.log.indexes import AbortedTransaction, OffsetIndex, TimeIndex, pack_aborted
from sexton.log.inspect.blocks import blocks
from sexton.log.inspect.dump import batches, records
from sexton.log.inspect.paths import find
from sexton.log.inspect.selection import Selection
from sexton.log.inspect.verify import verify
from sexton.log.snapshots import ProducerEntry, pack_snapshot
from sexton.records.layout import CONTROL, TRANSACTIONAL, BatchHeader
from tests.datadriven import Case, datadriven, run_file
from tests.handmade import HEADER, seal
from tests.log_text import Writer


class Bench:
    """A partition's directory that the cases write into."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "orders-0"
        self.directory.mkdir()
        self.writer = Writer()

    def handle(self, case: Case) -> str:
        answer: str = getattr(self, case.command)(case)
        return answer

    # ── writing ──

    def segment(self, case: Case) -> str:
        base = int(case.words[0])
        data = b"".join(self._batch(line, case) for line in case.lines)
        self._file(base, names.LOG).write_bytes(data)
        return f"{len(data)} bytes"

    def _batch(self, line: str, case: Case) -> bytes:
        where, _, rest = line.partition(" ")
        first, _, last = where.partition("-")
        epoch = case.number("epoch", 0)
        if "(empty" in rest:
            data = self._empty(*rest.split("(empty"))
        else:
            data = self.writer.batch(rest)
        header = BatchHeader.unpack(data)
        fields = {"base_offset": int(first), "partition_leader_epoch": epoch}
        if last:
            fields["last_offset_delta"] = int(last) - int(first)
        return seal(header._replace(**fields), data[61:])

    def _empty(self, who: str, what: str) -> bytes:
        attributes = (TRANSACTIONAL if who[0] == "@" else 0) | (CONTROL if "marker" in what else 0)
        sequence = -1 if "marker" in what else 0
        fields = {"producer_id": int(who[1:]), "producer_epoch": 0, "base_sequence": sequence}
        return seal(HEADER._replace(attributes=attributes, **fields), b"")

    def _file(self, base: int, suffix: str) -> Path:
        return self.directory / names.segment_file(base, suffix)

    def epochs(self, case: Case) -> str:
        entries = [EpochStart(*map(int, line.split())) for line in case.lines]
        (self.directory / names.EPOCHS).write_bytes(pack_epochs(entries))
        return "ok"

    def index(self, case: Case) -> str:
        rows = [OffsetIndex.ENTRY.pack(*map(int, line.split())) for line in case.lines]
        self._file(int(case.words[0]), names.OFFSET_INDEX).write_bytes(b"".join(rows))
        return "ok"

    def timeindex(self, case: Case) -> str:
        rows = [TimeIndex.ENTRY.pack(*map(int, line.split())) for line in case.lines]
        self._file(int(case.words[0]), names.TIME_INDEX).write_bytes(b"".join(rows))
        return "ok"

    def txnindex(self, case: Case) -> str:
        rows = [pack_aborted(AbortedTransaction(*map(int, line.split()))) for line in case.lines]
        self._file(int(case.words[0]), names.TRANSACTION_INDEX).write_bytes(b"".join(rows))
        return "ok"

    def snapshot(self, case: Case) -> str:
        entries = []
        for line in case.lines:
            producer, epoch, sequence, last, open_first = map(int, line.split())
            entries.append(ProducerEntry(producer, epoch, sequence, last, 0, 1000, 0, open_first))
        self._file(int(case.words[0]), names.SNAPSHOT).write_bytes(pack_snapshot(entries))
        return "ok"

    def flip(self, case: Case) -> str:
        path = self.directory / case.option("file")
        data = bytearray(path.read_bytes())
        data[case.number("byte")] ^= 1
        path.write_bytes(data)
        return "ok"

    def cut(self, case: Case) -> str:
        path = self.directory / case.option("file")
        path.write_bytes(path.read_bytes()[: case.number("to")])
        return "ok"

    def zeros(self, case: Case) -> str:
        with (self.directory / case.option("file")).open("ab") as file:
            file.write(bytes(case.number("bytes")))
        return "ok"

    def old_format(self, case: Case) -> str:
        """One message as Kafka wrote them before 0.11."""
        import zlib

        body = struct.pack(">bbqii1s", 1, 0, 1000, -1, 1, b"v")
        message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
        self._file(int(case.words[0]), names.LOG).write_bytes(message * 3)
        return "ok"

    def remove(self, case: Case) -> str:
        for name in case.words:
            (self.directory / name).unlink()
        return "ok"

    def reset(self, case: Case) -> str:
        del case
        for path in self.directory.iterdir():
            path.unlink()
        self.writer = Writer()
        return "ok"

    # ── looking ──

    def verify(self, case: Case) -> str:
        lines: list[str] = []

        def report(finding: Finding) -> None:
            where = finding.where.replace(f"{self.directory}/", "")
            lines.append(f"{finding.severity} {finding.code} {where}")
            lines.append(f"  {finding.message}")

        def skip(path: str, why: str) -> None:
            lines.append(f"incomplete {path.replace(f'{self.directory}/', '')}: {why}")

        (partition,) = find([self.directory]).partitions
        policy = case.option("policy", "auto")
        assert policy in ("auto", "compact", "delete")
        verdict = verify(partition, report, skip, policy=policy, workers=1)  # type: ignore[arg-type]
        missing = ", ".join(f"{count} {reason}" for reason, count in verdict.missing.items())
        stable = verdict.last_stable_offset
        lines.append(f"{verdict.records} records; stable to {stable}; missing: {missing or 'none'}")
        return "\n".join(lines)

    def dump(self, case: Case) -> str:
        lines: list[str] = []
        paths = [self.directory / word for word in case.words] or [self.directory]
        for partition in find(paths).partitions:
            selection = Selection(last_offset=case.number("to", 1 << 62))
            for block in blocks(partition, selection, lambda f: lines.append(f.code), print):
                for r in records(block):
                    if r.control is not None:
                        lines.append(f"{r.offset} @{r.producer_id} {r.control.name}")
                        continue
                    text = f"{(r.key or b'').decode()}={(r.value or b'').decode()}"
                    marker = "" if r.marker_offset is None else f" at {r.marker_offset}"
                    lines.append(f"{r.offset} {text} {r.outcome or ''}{marker}".rstrip())
        return "\n".join(lines)

    def batches(self, case: Case) -> str:
        del case
        (partition,) = find([self.directory]).partitions
        return "\n".join(
            f"{b.position}: {b.base_offset}-{b.last_offset} {b.records} records"
            for block in blocks(partition, Selection(), print, print)
            for b in batches(block)
        )


@datadriven(__file__, "testdata/inspect_*.txt")
def test_inspecting_logs_written_by_hand(path: Path, tmp_path: Path) -> None:
    run_file(path, Bench(tmp_path).handle)
