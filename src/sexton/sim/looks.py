"""What does one replica show, and is it what was written?

Everything that a read_committed consumer would make of a log is compared with the truth:

    (2) it knows how each transaction ended
    (5) no deleted key returns
    (6) no aborted record is shown, no committed one is hidden or lost
    (7) an offset holds the record that it was given to, or nothing

What was promised is known per partition: `Group` has its truth, and what was last seen of each
replica.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.machines.compaction import Progress, Removable
from sexton.machines.metadata import Image
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Replica
from sexton.records.control import ControlType
from sexton.records.few import FewRecord
from sexton.sim.truth import Entry, Outcome, Truth, batches
from sexton.sim.violations import Counts, Violated, Violation
from sexton.sim.world import World


@dataclass(slots=True)
class Seen:
    """The last that was seen of one replica."""

    assignment: tuple[int, int]  # and the term in which its log began
    progress: Progress
    removable: Removable


@dataclass(slots=True)
class Group:
    """What is known of one partition from outside."""

    truth: Truth = field(default_factory=Truth)
    true_minimum: Removable = field(default_factory=Removable)
    replicas: dict[int, Seen] = field(default_factory=dict)
    damaged: dict[int, None] = field(default_factory=dict)  # replicas whose disk lost something
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # assignment, end of its log
    committed: dict[int, tuple[int, int]] = field(default_factory=dict)  # by leaders: term, up to
    terms: dict[int, int] = field(default_factory=dict)  # leader epoch -> where its log ended then


class Looks:
    """What is known from outside, and how a replica compares with it."""

    def __init__(self, world: World, coordinated: bool, watched: Callable[[str], bool]) -> None:
        self.world = world
        self.coordinated = coordinated
        self.counts = Counts()
        self._watched = watched  # which topics
        self.groups: dict[TopicPartition, Group] = {}
        # Brokers with a flipped bit, and what turns it: what they read meanwhile proves nothing.
        self.rotten: dict[int, Callable[[], None]] = {}
        # Brokers whose clock was an hour ahead or more: they may have forgotten too early.
        self.ran_ahead: dict[int, None] = {}

    def fail(self, kind: str, where: str, what: str) -> None:
        raise Violated(Violation(kind, self.world.now_ms, where, what))

    @property
    def image(self) -> Image:
        """The controller's, or if it is down the last that was seen."""
        process = self.world.processes[CONTROLLER]
        if process.node is not None:
            self._image = process.node.machine.image  # type: ignore[union-attr]
        return self._image

    _image: Image = Image()

    def group(self, partition: TopicPartition) -> Group:
        return self.groups.setdefault(partition, Group())

    def may_lead(self, replica: Replica) -> bool:
        """Whoever is in sync, but for one that came back with a log which the controller doubts."""
        record = self.image.partitions.get(replica.partition)
        return record is not None and replica.site.node in record.isr and not record.doubtful

    # ── looking at a replica ──

    def look_at_all(self) -> None:
        """Everything that runs and is in sync is looked at."""
        for process in self.world.processes.values():
            broker = process.broker
            for partition, replica in broker.replicas.by_partition.items() if broker else ():
                if self._watched(partition.topic) and self.may_lead(replica):
                    self.look(replica)

    def look(self, replica: Replica) -> None:
        """Compares everything a reader of this replica would get with the truth."""
        if replica.site.node in self.rotten:
            return
        self.counts.looks += 1
        truth = self.group(replica.partition).truth
        log = replica.log
        end = min(log.last_stable_offset, truth.end)
        shown = self._read(replica, log, end, truth)
        for key in truth.keys:
            if truth.is_superseded(key, end):
                continue
            last = truth.last_before(key, end)
            if last is None or last[1] is None or last[0] < log.log_start_offset:
                if key in shown:
                    what = f"{_text(key)} was deleted and is {_text(shown[key][1])} here"
                    self.fail("deleted-key-lives", where(replica), what)
            elif key not in shown:
                what = f"{_text(key)} is {_text(last[1])} since offset {last[0]} and missing here"
                self.fail("committed-lost", where(replica), what)
            elif shown[key][0] != last[0]:
                what = f"{_text(key)} is {_text(last[1])} since {last[0]}, not {shown[key]}"
                self.fail("stale-value", where(replica), what)

    def _read(
        self, replica: Replica, log: PartitionLog, end: int, truth: Truth
    ) -> dict[bytes, tuple[int, bytes]]:
        """What a read_committed consumer makes of it; each record is judged on the way."""
        shown: dict[bytes, tuple[int, bytes]] = {}
        aborted = sorted(
            log.aborted_between(log.log_start_offset, end), key=lambda e: e.first_offset
        )
        aborting: dict[int, None] = {}
        for batch in batches(log, log.log_start_offset, end):
            header = batch.header
            while aborted and aborted[0].first_offset <= header.last_offset:
                aborting[aborted.pop(0).producer_id] = None
            if header.is_control:
                if batch.ends == ControlType.ABORT:
                    aborting.pop(header.producer_id, None)
                continue
            hidden = header.is_transactional and header.producer_id in aborting
            for record in batch.records:
                self.counts.records_judged += 1
                if self._is_as_written(replica, truth, record):
                    self._judge(replica, truth.entries[record.offset], hidden)
                if not hidden:
                    key = record.key or b""
                    if record.value is None:
                        shown.pop(key, None)
                    else:
                        shown[key] = (record.offset, record.value)
        for batch in batches(log, end, min(log.high_watermark, truth.end)):
            for record in batch.records:  # how these end is not known yet, but what they are is
                self._is_as_written(replica, truth, record)
        return shown

    def _is_as_written(self, replica: Replica, truth: Truth, record: FewRecord) -> bool:
        if truth.holds(record):
            return True
        held = f"{_text(record.key)}={_text(record.value)}"
        what = f"offset {record.offset} holds {held}, which was never written"
        self.fail("record-changed", where(replica), what)
        return False

    def _judge(self, replica: Replica, entry: Entry, hidden: bool) -> None:
        place = f"offset {entry.offset} ({_text(entry.key)})"
        if hidden and entry.outcome.visible:
            what = f"{place} was committed and is hidden here"
            self.fail("committed-as-aborted", where(replica), what)
        elif not hidden and entry.outcome is Outcome.ABORTED:
            what = f"{place} was aborted and is shown here"
            self.fail("aborted-as-committed", where(replica), what)
        elif entry.outcome is Outcome.OPEN:
            what = f"{place} is stable here, and nobody knows how it ended"
            self.fail("open-as-ended", where(replica), what)


def where(replica: Replica) -> str:
    return f"broker {replica.site.node}, {replica.partition}"


def _text(data: bytes | None) -> str:
    return "nothing" if data is None else data.decode("utf-8", "replace")
