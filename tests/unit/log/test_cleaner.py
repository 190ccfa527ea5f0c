"""What a cleaning pass keeps and removes, told as text: see testdata/clean_*.txt."""

from __future__ import annotations

from pathlib import Path

from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.datadriven import Case, datadriven, run_file
from tests.log_text import Writer, at_offset, content, describe

RETENTION_MS = 1000


class Story:
    """A log whose records are all replicated, and a clock that stands still unless told."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.disk: MemoryDisk
        self.log: PartitionLog
        self.config: LogConfig

    def run(self, case: Case) -> str:
        answer: str = getattr(self, "do_" + case.command.replace("-", "_"))(case)
        self.log.check()
        return answer

    def do_log(self, case: Case) -> str:
        self.disk = MemoryDisk()
        self.config = LogConfig().with_options({"index.interval.bytes": 0, **case.options})
        self.log = open_log(self.disk, "t-0", self.config, now_ms=self.now_ms).log
        return self.do_append(case)

    def do_append(self, case: Case) -> str:
        """Lines with offsets; an empty segment follows, so that all of them can be cleaned."""
        writer = Writer()
        for line in case.lines:
            if line == "roll":
                self.log.roll(self.now_ms)
                continue
            offset, _, rest = line.partition(" ")
            self.log.append_as_follower(at_offset(writer.batch(rest), int(offset)), self.now_ms)
        self.log.roll(self.now_ms)
        self.log.advance_high_watermark(case.number("replicated", self.log.end_offset))
        return f"stable up to {self.log.last_stable_offset}"

    def do_later(self, _case: Case) -> str:
        """The delete retention passes."""
        self.now_ms += RETENTION_MS
        return f"now {self.now_ms}"

    def do_expire(self, case: Case) -> str:
        for producer in case.words:
            del self.log.producers.known[int(producer)]
        return ""

    def do_clean(self, case: Case) -> str:
        stable = min(self.log.last_stable_offset, self.log.active.base_offset)
        end = case.number("end", stable)
        bounds = (
            Bounds.independent(self.now_ms, end)
            if "independent" in case.words
            else Bounds.coordinated(self.now_ms, end, case.number("mtro"), case.number("mxro"))
        )
        options = CleanerOptions(
            RETENTION_MS, set_bytes=case.number("set", 1 << 20), dry_run="dry" in case.words
        )
        tally = clean(self.log, bounds, options).tally
        lines = [describe(batch) for batch in content(self.log)]
        if "why" in case.words:
            names = (
                "superseded",
                "aborted",
                "tombstones",
                "markers",
                "without_key",
                "empty_batches",
            )
            gone = [f"{getattr(tally, n)} {n}" for n in names if getattr(tally, n)]
            lines.append(f"gone: {', '.join(gone) or 'nothing'}")
        if tally.readings > 1:
            lines.append(f"read {tally.readings} times")
        return "\n".join(lines)

    def do_restart(self, _case: Case) -> str:
        high_watermark = self.log.high_watermark
        self.log.close(self.now_ms)
        for name in self.disk.names("t-0"):
            if name.endswith(".snapshot"):
                self.disk.remove(f"t-0/{name}")  # everything has to follow from the batches
        self.log = open_log(
            self.disk, "t-0", self.config, now_ms=self.now_ms, high_watermark=high_watermark
        ).log
        opened = [
            f"@{pid} open since {first}" for first, pid in self.log.producers.open_transactions()
        ]
        return "\n".join([*opened, f"stable up to {self.log.last_stable_offset}"])

    def do_segments(self, _case: Case) -> str:
        return " ".join(f"[{s.base_offset},{s.end_offset})" for s in self.log.segments)

    def do_snapshots(self, _case: Case) -> str:
        found = [n for n in self.disk.names("t-0") if n.endswith(".snapshot")]
        return " ".join(str(int(name.removesuffix(".snapshot"))) for name in found)

    def do_aborted(self, _case: Case) -> str:
        entries = [e for segment in self.log.segments for e in segment.aborted]
        return (
            "\n".join(f"@{e.producer_id} {e.first_offset}-{e.last_offset}" for e in entries)
            or "none"
        )


@datadriven(__file__, "testdata/clean_*.txt")
def test_cleaning(path: Path) -> None:
    run_file(path, Story().run)
