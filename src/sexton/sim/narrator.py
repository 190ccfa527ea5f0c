"""The story of one run, for someone who wants to know how it came to its end.

    day 1 03:12  #4 broker 2, a leader, is killed
    day 1 03:17  orders-0: broker 3 leads in term 5, in sync 1, 3
    day 1 03:40  broker 3 cleans orders-0 up to 120: 14 superseded, 2 tombstones
    day 1 04:02  #4 is over: broker 2, a leader, is killed

The world tells of faults. What nodes do is seen from outside, after each of their steps: elections
and who is in sync in the controller's own image, passes as they swap segments, logs that got
shorter. Listening changes nothing: with or without a narrator a seed gives the same run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sexton.base.partitions import TopicPartition
from sexton.log.cleaner import Prepared
from sexton.log.cleaner_report import Tally
from sexton.machines.compaction import Removable
from sexton.machines.metadata import PartitionRecord
from sexton.node.broker import Broker
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Following, Leading, Replica
from sexton.sim.checks import Checks, Violation
from sexton.sim.options import HOUR_MS, MINUTE_MS
from sexton.sim.replay import Replay
from sexton.sim.run import START_MS, Run
from sexton.sim.world import Process, name_of

Story = Callable[[int, str], None]  # milliseconds since the run began, what happened
_BEGINS = re.compile(r"#(\d+) (.+)")
_ENDS = re.compile(r"#(\d+) is over")
_REMOVED = (
    ("superseded", "superseded", "superseded"),
    ("aborted", "aborted", "aborted"),
    ("tombstones", "tombstone", "tombstones"),
    ("markers", "marker", "markers"),
    ("empty_batches", "empty batch", "empty batches"),
)


def clock(at_ms: int) -> str:
    """`day 1 03:12`, of milliseconds since the run began."""
    days, rest = divmod(at_ms, 24 * HOUR_MS)
    return f"day {days + 1} {rest // HOUR_MS:02}:{rest % HOUR_MS // MINUTE_MS:02}"


def violation_clock(violation: Violation) -> str:
    return clock(violation.at_ms - START_MS)


def narrated(replay: Replay, story: Story, kind: type[Run] = Run) -> Run:
    """A run, still to be started, that is told of in full."""
    run = kind(replay.options, story=_Faults(story).hear, without=replay.without)
    run.world.observer = _Narrator(run, story)
    return run


class _Faults:
    """Says again what is over when it is."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._texts: dict[str, str] = {}

    def hear(self, at_ms: int, line: str) -> None:
        ends, begins = _ENDS.fullmatch(line), _BEGINS.fullmatch(line)
        if ends and ends[1] in self._texts:
            line = f"{line}: {self._texts[ends[1]]}"
        elif begins:
            self._texts[begins[1]] = begins[2]
        self._story(at_ms, line)


class _Narrator:
    """Stands between the world and its checks, and hands on everything."""

    def __init__(self, run: Run, story: Story) -> None:
        self._world = run.world
        self._checks: Checks = run.checks
        self._story = story
        self._records: dict[TopicPartition, PartitionRecord] = {}
        self._ends: dict[tuple[int, TopicPartition], int] = {}
        self._minima: dict[TopicPartition, Removable] = {}

    def _tell(self, line: str) -> None:
        self._story(self._world.now_ms - START_MS, line)

    # ── what the world tells ──

    def started(self, process: Process) -> None:
        self._checks.started(process)
        self._forget_logs(process)
        self._tell(f"{name_of(process.address)} is up")
        if process.broker is not None:
            self._watch_cleaning(process.broker, process.address)

    def crashed(self, process: Process, lost_power: bool) -> None:
        self._forget_logs(process)
        self._checks.crashed(process, lost_power)

    def stepped(self, process: Process) -> None:
        # Before the checks, so that what broke a rule has been told when that ends the run.
        if process.address == CONTROLLER:
            self._see_elections()
        elif process.broker is not None:
            for partition, replica in process.broker.replicas.by_partition.items():
                self._see_log(process.address, partition, replica)
        self._checks.stepped(process)

    # ── elections ──

    def _see_elections(self) -> None:
        for partition, record in self._checks.image.partitions.items():
            before = self._records.get(partition)
            self._records[partition] = record
            if before is None or before.leader_epoch != record.leader_epoch:
                self._tell(f"{partition}: {_leads(record)}, in sync {_nodes(record.isr)}")
            elif before.isr != record.isr:
                self._tell(f"{partition}: in sync {_nodes(record.isr)}")
            if before is not None and before.replicas != record.replicas:
                self._tell(f"{partition}: replicas on {_nodes(record.replicas)}")
            if before is not None and before.lost_in != record.lost_in:
                self._tell(f"{partition}: committed records are declared lost")

    # ── logs ──

    def _forget_logs(self, process: Process) -> None:
        """What a log holds after a restart is another question."""
        for key in [key for key in self._ends if key[0] == process.address]:
            del self._ends[key]

    def _see_log(self, node: int, partition: TopicPartition, replica: Replica) -> None:
        log = replica.log
        before, end = self._ends.get((node, partition), 0), log.end_offset
        self._ends[node, partition] = end
        if end < before and end == log.log_start_offset:
            self._tell(f"broker {node} discards its log of {partition}, which ended at {before}")
        elif end < before:
            self._tell(f"broker {node} cuts {partition} from {before} to {end}")
        if isinstance(replica.role, Leading) and replica.coordinated:
            self._see_minima(partition, replica.removable)

    def _see_minima(self, partition: TopicPartition, now: Removable) -> None:
        before = self._minima.get(partition, Removable())
        if now != before:
            self._minima[partition] = now
            self._tell(f"{partition}: tombstones may go below {now.mtro}, markers {now.mxro}")

    # ── cleaning ──

    def _watch_cleaning(self, broker: Broker, node: int) -> None:
        swap = broker.cleaning.swap

        def watched_swap(replica: Replica, prepared: Prepared) -> bool:
            gone, end = _gone(prepared.cleaned.tally), prepared.cleaned.end
            done = True  # or power fails halfway, or a check does: then it is told all the same
            try:
                done = swap(replica, prepared)
                return done
            finally:
                if done and gone:
                    self._tell(f"broker {node} cleans {replica.partition} up to {end}: {gone}")

        broker.cleaning.swap = watched_swap


def _gone(tally: Tally) -> str:
    counts = [(getattr(tally, name), one, many) for name, one, many in _REMOVED]
    return ", ".join(
        f"{count} {one if count == 1 else many}" for count, one, many in counts if count
    )


def _leads(record: PartitionRecord) -> str:
    who = "nobody" if record.leader < 0 else f"broker {record.leader}"
    return f"{who} leads in term {record.leader_epoch}"


def _nodes(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes))


# ── evidence ──


@dataclass(frozen=True, slots=True)
class Held:
    """One replica, as it was when the run ended."""

    partition: str
    broker: int
    role: str
    term: int
    in_sync: bool
    start: int
    end: int
    high_watermark: int
    last_stable: int
    mcco: int
    mxfo: int
    mtro: int
    mxro: int


def replicas_at_end(run: Run) -> list[Held]:
    """Every replica of what the violation is about; of everything if it does not say."""
    violation = run.result.violation
    said = f"{violation.where} {violation.what}" if violation else ""
    named = [p for p in run.checks.image.partitions if re.search(rf"\b{p}\b", said)]
    found = []
    for partition, record in run.checks.image.partitions.items():
        for node in record.replicas if not named or partition in named else ():
            broker = run.world.processes[node].broker
            replica = broker.replicas.by_partition.get(partition) if broker else None
            if replica is not None:
                found.append(_held(replica, node in record.isr))
    return found


def _held(replica: Replica, in_sync: bool) -> Held:
    log, progress, removable = replica.log, replica.progress, replica.removable
    match replica.role:
        case Leading():
            role = "leads"
        case Following(leader):
            role = f"follows {leader}"
        case _:
            role = "rests"
    return Held(
        str(replica.partition),
        replica.site.node,
        role,
        replica.leader_epoch,
        in_sync,
        log.log_start_offset,
        log.end_offset,
        log.high_watermark,
        log.last_stable_offset,
        progress.mcco,
        progress.mxfo,
        removable.mtro,
        removable.mxro,
    )
