"""Three real logs that follow each other, are cleaned each for itself, and are audited.

While every replica is in the ISR, cleaning stays below what all of them have, so whatever they
remove they remove rightly, by Kafka's rules (`independent`) as well as by ours. A replica that is
taken away is not waited for any more: that is how all known divergences begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.audit.finding import AuditFinding
from sexton.log.cleaner import CleanerOptions, clean
from sexton.log.cleaner_bounds import Bounds
from sexton.log.config import LogConfig
from sexton.log.memory_disk import MemoryDisk
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log
from tests.log_text import Writer, content
from tests.unit.audit.replicas import Audit, LogReplica

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, cleanup_policy="compact")
RETENTION_MS = 100
LEADER, SLOW, THIRD = 1, 2, 3


@dataclass(slots=True)
class World:
    independent: bool
    bumps: bool  # transaction.version 2: a transaction's marker has the next epoch
    now_ms: int = 1000
    away: int | None = None
    writer: Writer = field(default_factory=Writer)
    epochs: dict[int, int] = field(default_factory=dict)
    unended: set[int] = field(default_factory=set)
    logs: dict[int, PartitionLog] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in (LEADER, SLOW, THIRD):
            self.recreate(node)

    # ── what may happen ──

    def move(self, word: str) -> None:
        """`clean 2`, `copy 3`, `recreate 2`, `expire 1`, `later`, or a line of `tests.log_text`."""
        what, _, node = word.partition(" ")
        match what:
            case "clean":
                self.clean(int(node))
            case "copy":
                self.copy(int(node))
            case "recreate":
                self.recreate(int(node))
                self.copy(int(node))
            case "expire":
                self.logs[int(node)].producers.expire(self.now_ms, RETENTION_MS)
            case "later":
                self.now_ms += RETENTION_MS
            case _:
                self.append(word)

    def append(self, line: str) -> int:
        """To the leader's log, with the producer's epoch; returns its offset."""
        who, _, rest = line.partition(" ")
        marker = rest in ("commit", "abort")
        if who.startswith("@"):
            producer = int(who[1:])
            if marker and self.bumps:
                self.epochs[producer] = self.epochs.get(producer, 0) + 1
            line = f"@{producer}/{self.epochs.get(producer, 0)} {rest}"
            (self.unended.discard if marker else self.unended.add)(producer)
        self.writer.timestamp = self.now_ms
        leader = self.logs[LEADER]
        appended = leader.append_as_leader(
            self.writer.batch(line), 0, self.now_ms, from_client=not marker
        )
        self._advance()
        return appended.first_offset

    def copy(self, node: int) -> None:
        """A follower fetches all that it has not."""
        log, leader = self.logs[node], self.logs[LEADER]
        if node in (LEADER, self.away):
            return
        for batch in content(leader):
            if int.from_bytes(batch[:8], "big") >= log.end_offset:
                log.append_as_follower(batch, self.now_ms)
        self._advance()

    def recreate(self, node: int) -> None:
        """An empty log; it is copied before anything else happens."""
        if node != LEADER or node not in self.logs:
            self.logs[node] = open_log(MemoryDisk(), "t-0", CONFIG, now_ms=self.now_ms).log

    def clean(self, node: int) -> None:
        log = self.logs[node]
        if node == self.away:
            return
        log.roll(self.now_ms)
        end = min(log.last_stable_offset, log.active.base_offset)
        bounds = Bounds.coordinated(self.now_ms, end, mtro=end, mxro=end)
        if self.independent:
            bounds = Bounds.independent(self.now_ms, end)
        clean(log, bounds, CleanerOptions(RETENTION_MS, set_bytes=512))

    def _advance(self) -> None:
        """The high watermark is what all have that are waited for."""
        ends = [log.end_offset for node, log in self.logs.items() if node != self.away]
        for node, log in self.logs.items():
            if node != self.away and min(ends) > log.high_watermark:
                log.advance_high_watermark(min(ends))

    # ── several moves ──

    def settle(self) -> None:
        """Ends all transactions, and lets everyone catch up."""
        for producer in sorted(self.unended):
            self.append(f"@{producer} abort")
        self.catch_up()

    def catch_up(self) -> None:
        for node in self.logs:
            self.copy(node)

    def forget(self, offset: int, nodes: tuple[int, ...]) -> bool:
        """Cleans these until nothing of an offset is left but, at most, an emptied batch.

        Producers expire meanwhile: with the old protocol a marker is kept as long as they live.
        """
        for number in range(8):
            self.append(f"filler={number}")
            self.catch_up()
            for node in nodes:
                self.logs[node].producers.expire(self.now_ms, RETENTION_MS)
                self.clean(node)
            self.now_ms += RETENTION_MS
            if not any(self._holds(node, offset) for node in nodes):
                return True
        return False

    def _holds(self, node: int, offset: int) -> bool:
        window = Audit([self.replica(node)]).window(self.replica(node), offset, offset + 1, None)
        return not window.gaps

    # ── looking ──

    def replica(self, node: int) -> LogReplica:
        return LogReplica(node, self.logs[node])

    def findings(self, between: Callable[[], None] | None = None) -> list[AuditFinding]:
        replicas = [self.replica(node) for node in sorted(self.logs)]
        return Audit(replicas, between=between).findings()
