"""The life of one partition's log, told as text: see testdata/live_*.txt."""

from __future__ import annotations

from pathlib import Path
from random import Random

from sexton.base.errors import Refused
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.recovery import Opened, open_log
from tests.datadriven import Case, datadriven, run_file
from tests.log_text import Writer, batches_of, content, describe


class Story:
    """A log on a disk that can crash, and a clock that the story sets."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.config = LogConfig()
        self.now_ms = 1000
        self.writer = Writer()
        self.opened: Opened

    def run(self, case: Case) -> str:
        verb = getattr(self, case.command.replace("-", "_"))
        answer: str = verb(case)
        self.log.check()
        return answer

    @property
    def log(self):  # type: ignore[no-untyped-def]
        return self.opened.log

    def open(self, case: Case) -> str:
        self.config = LogConfig().with_options(case.options) if case.options else self.config
        return self._open(clean="clean" in case.words)

    def _open(self, clean: bool) -> str:
        old = getattr(self, "opened", None)
        self.opened = open_log(
            self.disk,
            "t-0",
            self.config,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=old.log.recovery_point if old else 0,
            log_start_offset=old.log.log_start_offset if old else 0,
            high_watermark=old.log.high_watermark if old else 0,
        )
        lines = [f"{f.code}: {f.where}: {f.message}" for f in self.opened.findings]
        return "\n".join([*lines, self.state()])

    def close(self, _case: Case) -> str:
        self.log.close(self.now_ms)
        return self._open(clean=True)

    def crash(self, case: Case) -> str:
        self.disk = self.disk.crash(Random(case.number("seed", 0)))
        return self._open(clean=False)

    def at(self, case: Case) -> str:
        self.now_ms = self.writer.timestamp = int(case.words[0])
        return ""

    def append(self, case: Case) -> str:
        answers = []
        for line in case.lines:
            try:
                appended = self.log.append_as_leader(
                    self.writer.batch(line),
                    case.number("epoch", 0),
                    self.now_ms,
                    from_client="commit" not in line and "abort" not in line,
                )
                again = " (again)" if appended.repeat else ""
                answers.append(f"{line}: {appended.first_offset}-{appended.last_offset}{again}")
            except Refused as error:
                answers.append(f"{line}: {error.subject}: {error.why}")
        return "\n".join(answers)

    def follow(self, case: Case) -> str:
        """Appends what a leader's log holds, given as `offset line`."""
        data = b""
        for line in case.lines:
            offset, _, rest = line.partition(" ")
            batch = bytearray(self.writer.batch(rest))
            batch[:8] = int(offset).to_bytes(8, "big")
            batch[12:16] = case.number("epoch", 0).to_bytes(4, "big")
            data += batch
        self.log.append_as_follower(data[: len(data) - case.number("cut", 0)], self.now_ms)
        return self.state()

    def show(self, _case: Case) -> str:
        return "\n".join(describe(batch) for batch in content(self.log)) or "empty"

    def read(self, case: Case) -> str:
        committed = "committed" in case.words
        end = case.number("end") if "end" in case.options else None
        try:
            read = self.log.read(
                case.number("from"), case.number("bytes", 1 << 20), end=end, committed=committed
            )
        except Refused as error:
            return f"{error.subject}: {error.why}"
        found = batches_of(read.slice.read()) if read.slice else iter(())
        lines = [describe(batch) for batch in found] or ["nothing"]
        lines += [
            f"aborted: @{e.producer_id} from {e.first_offset} to {e.last_offset}"
            for e in read.aborted
        ]
        return "\n".join(lines)

    def replicated(self, case: Case) -> str:
        self.log.advance_high_watermark(int(case.words[0]))
        return self.state()

    def flush(self, _case: Case) -> str:
        self.log.flush(self.now_ms)
        return self.state()

    def roll(self, _case: Case) -> str:
        self.log.roll(self.now_ms)
        return self.state()

    def truncate(self, case: Case) -> str:
        self.log.truncate_to(int(case.words[0]), self.now_ms)
        return self.state()

    def delete_records(self, case: Case) -> str:
        try:
            self.log.delete_records(int(case.words[0]))
        except Refused as error:
            return f"{error.subject}: {error.why}"
        return self.state()

    def retain(self, _case: Case) -> str:
        gone = self.log.enforce_retention(self.now_ms)
        return f"removed {[s.base_offset for s in gone]}\n{self.state()}"

    def full(self, case: Case) -> str:
        self.disk.room_bytes = int(case.words[0]) if case.words else None
        return ""

    def flip(self, case: Case) -> str:
        self.disk.flip(f"t-0/{case.words[0]}", case.number("byte"))
        return ""

    def files(self, _case: Case) -> str:
        return "\n".join(self.disk.names("t-0"))

    def epochs(self, _case: Case) -> str:
        return " ".join(f"{e.epoch}@{e.start_offset}" for e in self.log.epochs.entries) or "none"

    def producers(self, _case: Case) -> str:
        lines = []
        for producer in self.log.producers.known.values():
            opened = producer.open_first_offset
            open_text = "" if opened is None else f", open since {opened}"
            lines.append(
                f"{producer.producer_id}: epoch {producer.epoch}, last sequence "
                f"{producer.last_sequence} at offset {producer.last_offset}{open_text}"
            )
        return "\n".join(lines) or "none"

    def state(self) -> str:
        log = self.log
        segments = " ".join(f"[{s.base_offset},{s.end_offset})" for s in log.segments)
        return (
            f"{segments} start {log.log_start_offset} synced {log.recovery_point} "
            f"hw {log.high_watermark} stable {log.last_stable_offset} end {log.end_offset}"
        )


@datadriven(__file__, "testdata/live_*.txt")
def test_live_log(path: Path) -> None:
    story = Story()
    run_file(path, story.run)
