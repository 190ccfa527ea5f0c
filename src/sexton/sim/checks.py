"""Is what the replicas do right? Judged from outside, by other means than they use themselves.

Numbers are those of the invariants in docs/reference/simulator.md.

    after every step   (3) no witness is removed at or above the true minimum
                       (4) MTRO and MXRO never move back; nobody registered is below them
                       (7) an offset is given once, and keeps its record
    when a replica     (2) it knows how each transaction ended
      is looked at     (5) no deleted key returns
                       (6) no aborted record is shown, no committed one is hidden or lost
    once healed        (1) all replicas agree, key by key, and (2) on the last stable offset
                       (11) what may go is gone: cleaning finishes

A replica is looked at when it is elected, after each cleaning pass and at random. Only what could
lead is judged before the end: a replica outside the ISR is allowed to be wrong, for it will be
mended or discarded before it joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sexton.base.partitions import TopicPartition
from sexton.log.cleaner import Cleaned, Prepared
from sexton.log.partition import PartitionLog
from sexton.machines.compaction import Progress, Removable
from sexton.machines.metadata import Image, PartitionRecord
from sexton.node.broker import Broker
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Leading, Replica
from sexton.records.control import ControlType
from sexton.records.few import FewRecord
from sexton.sim.truth import Entry, Outcome, Truth, batches
from sexton.sim.world import Process, World


@dataclass(frozen=True, slots=True)
class Violation:
    kind: str
    at_ms: int
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} on {self.where}: {self.what}"


class Violated(Exception):
    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


@dataclass(slots=True)
class Counts:
    """What a run contained: idle hours prove nothing."""

    looks: int = 0
    records_judged: int = 0
    passes: int = 0
    superseded: int = 0
    aborted: int = 0
    tombstones_removed: int = 0
    markers_removed: int = 0
    empty_batches_removed: int = 0
    elections: int = 0
    discards: int = 0
    losses: int = 0
    minima_raised: int = 0


@dataclass(slots=True)
class _Seen:
    """The last that was seen of one replica."""

    assignment: tuple[int, int]  # and the term in which its log began
    progress: Progress
    removable: Removable


@dataclass(slots=True)
class _Group:
    """What is known of one partition from outside."""

    truth: Truth = field(default_factory=Truth)
    true_minimum: Removable = field(default_factory=Removable)
    replicas: dict[int, _Seen] = field(default_factory=dict)
    damaged: dict[int, None] = field(default_factory=dict)  # replicas whose disk lost something
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # assignment, end of its log
    committed: dict[int, tuple[int, int]] = field(default_factory=dict)  # by leaders: term, up to


NO_TERM = -2  # in which no log began


class Checks:
    """The world's observer. The first violation ends the run."""

    def __init__(self, world: World, coordinated: bool, watched: Callable[[str], bool]) -> None:
        self.world = world
        self.coordinated = coordinated
        self.counts = Counts()
        self._watched = watched  # which topics
        self.groups: dict[TopicPartition, _Group] = {}
        # Brokers with a flipped bit, and what turns it: what they read meanwhile proves nothing.
        self.rotten: dict[int, Callable[[], None]] = {}
        # What a replica looked like after the last step, to see quickly that nothing has changed.
        self._last_seen: dict[int, dict[TopicPartition, object]] = {}
        world.observer = self

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

    def group(self, partition: TopicPartition) -> _Group:
        return self.groups.setdefault(partition, _Group())

    # ── what the world tells ──

    def started(self, process: Process) -> None:
        broker = process.broker
        self._last_seen.pop(process.address, None)
        if process.address in self.rotten:
            self._damaged(process.address)  # it may have cut a log where the bit is
        if broker is not None:
            self._watch_cleaning(broker)

    def crashed(self, process: Process, lost_power: bool) -> None:
        if lost_power:
            self._damaged(process.address)

    def _damaged(self, address: int) -> None:
        for group in self.groups.values():
            group.ends.pop(address, None)
            if address in group.replicas:
                group.damaged[address] = None

    def disk_replaced(self, address: int) -> None:
        """An older disk, or none: what was seen of these replicas does not bind them any more.

        But what they have reported counts until they register again.
        """
        for group in self.groups.values():
            seen = group.replicas.get(address)
            if seen is not None:
                seen.assignment = (seen.assignment[0], NO_TERM)
            group.ends.pop(address, None)
            group.damaged[address] = None

    def stepped(self, process: Process) -> None:
        broker = process.broker
        if broker is None:
            return
        seen = self._last_seen.setdefault(process.address, {})
        for partition, replica in broker.replicas.by_partition.items():
            role = replica.role
            talk = replica.talk
            now = (role, replica.log.high_watermark, talk.progress, talk.removable)
            if seen.get(partition) == now:
                continue
            seen[partition] = now
            if self._watched(partition.topic):
                self._step(partition, replica)

    def _step(self, partition: TopicPartition, replica: Replica) -> None:
        group = self.group(partition)
        truth = group.truth
        self._damage_mended(partition, group)
        self._count_discards(replica, group)
        role = replica.role
        if isinstance(role, Leading):
            elected = replica.leader_epoch > truth.epoch
            if elected:
                self._elected(replica, group)
            if replica.leader_epoch >= truth.lost_before_epoch:
                self._commits(replica, group)
            if elected:
                self.look(replica)
        self._offsets(partition, replica, group)

    def _commits(self, replica: Replica, group: _Group) -> None:
        """What a leader commits is true from now on, and must not contradict what was before."""
        term, reached = replica.leader_epoch, replica.log.high_watermark
        seen_in, seen = group.committed.get(replica.site.node, (-1, 0))
        group.committed[replica.site.node] = (term, reached)
        start = min(group.truth.end, seen if seen_in == term else reached)
        if start < reached:
            with self._as_written(replica):
                contradictions = group.truth.learn(replica.log, start, reached)
            for wrong in contradictions:
                self.fail("offset-reused", where(replica), wrong)

    def _damage_mended(self, partition: TopicPartition, group: _Group) -> None:
        """A damaged log may excuse a loss while it is the last in sync, not once it was let in."""
        record = self.image.partitions.get(partition)
        for node in [n for n in group.damaged if record is not None and n not in record.isr]:
            del group.damaged[node]

    def _count_discards(self, replica: Replica, group: _Group) -> None:
        log, node = replica.log, replica.site.node
        before, now = group.ends.get(node), (replica.state.assignment, log.end_offset)
        group.ends[node] = now
        emptied = log.end_offset == log.log_start_offset
        if before is not None and before[0] == now[0] and before[1] > now[1] and emptied:
            self.counts.discards += 1

    def _offsets(self, partition: TopicPartition, replica: Replica, group: _Group) -> None:
        node = replica.site.node
        progress, removable = replica.progress, replica.removable
        seen = group.replicas.get(node)
        if seen is not None and seen.progress is progress and seen.removable is removable:
            return
        # A log that was discarded begins anew, with whatever its leader has.
        assignment = (replica.state.assignment, replica.talk.began_in)
        if seen is not None and seen.assignment == assignment:
            if removable.mtro < seen.removable.mtro or removable.mxro < seen.removable.mxro:
                self.fail(
                    "minima-moved-back", where(replica), f"from {seen.removable} to {removable}"
                )
            if removable != seen.removable:
                self.counts.minima_raised += 1
        group.replicas[node] = _Seen(assignment, progress, removable)
        record = self.image.partitions.get(partition)
        if record is not None:
            self._raise_true_minimum(group, record)

    def _raise_true_minimum(self, group: _Group, record: PartitionRecord) -> None:
        known = []
        for node, assignment in record.members.items():
            seen = group.replicas.get(node)
            if seen is None or seen.assignment[0] != assignment:
                return  # nothing is known of it: it holds the others
            known.append(seen.progress)
        lowest = Removable(min(p.mcco for p in known), min(p.mxfo for p in known))
        group.true_minimum = group.true_minimum.raised_to(lowest)

    # ── elections ──

    def _elected(self, replica: Replica, group: _Group) -> None:
        truth, log = group.truth, replica.log
        assert isinstance(replica.role, Leading)
        began_at = replica.role.replication.start_offset  # it may have written since
        self.counts.elections += truth.epoch >= 0
        truth.epoch = epoch = replica.leader_epoch
        if replica.record.lost_in > truth.lost_before_epoch:
            # In this term or an earlier one, whose leader died before anybody saw it lead.
            self.counts.losses += 1
            with self._as_written(replica):
                truth.become(log, began_at, others_discard=self.coordinated)
            truth.lost_before_epoch = epoch
            group.damaged.clear()
        elif began_at < truth.end:
            # The only one in sync has lost its disk's tail before the controller heard how far it
            # had been. Nobody could know; that it is elected is a choice, and that all agree with
            # it afterwards is still promised.
            known = began_at < replica.record.high_watermark
            excused = replica.site.node in group.damaged and len(replica.record.isr) == 1
            if known or not excused:
                lost = f"it ended at {began_at}, and {truth.end} was the high watermark"
                self.fail("committed-lost", where(replica), lost)
            self.counts.losses += 1
            truth.lose_after(began_at)
            truth.lost_before_epoch = epoch
        group.damaged.pop(replica.site.node, None)

    @contextmanager
    def _as_written(self, replica: Replica) -> Iterator[None]:
        """The truth is what was written, not what a broken disk makes of it."""
        turn = self.rotten.get(replica.site.node, lambda: None)
        turn()
        try:
            yield
        finally:
            turn()

    # ── looking at a replica ──

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

    # ── cleaning ──

    def _watch_cleaning(self, broker: Broker) -> None:
        swap = broker.cleaning.swap

        def watched_swap(replica: Replica, prepared: Prepared) -> bool:
            before = witnesses(replica.log)
            done = swap(replica, prepared)
            if done and self._watched(replica.partition.topic):
                self._cleaned(replica, before, prepared.cleaned)
            return done

        broker.cleaning.swap = watched_swap

    def _cleaned(
        self, replica: Replica, before: list[tuple[str, int, bytes]], cleaned: Cleaned
    ) -> None:
        counts, tally = self.counts, cleaned.tally
        counts.passes += 1
        counts.superseded += tally.superseded
        counts.aborted += tally.aborted
        counts.tombstones_removed += tally.tombstones
        counts.markers_removed += tally.markers
        counts.empty_batches_removed += tally.empty_batches
        if self.coordinated:
            self._witnesses_gone(replica, before, cleaned.end)
        if self.may_lead(replica):
            self.look(replica)

    def _witnesses_gone(
        self, replica: Replica, before: list[tuple[str, int, bytes]], end: int
    ) -> None:
        group = self.group(replica.partition)
        if replica.log.epochs.latest < group.truth.lost_before_epoch:
            return  # what it has was given up, and it will be discarded
        left = {(kind, offset) for kind, offset, _ in witnesses(replica.log)}
        for kind, offset, key in before:
            if (kind, offset) in left or offset < replica.log.log_start_offset:
                continue
            bound = group.true_minimum.mtro if kind == "tombstone" else group.true_minimum.mxro
            if offset < bound:
                continue
            if kind == "tombstone" and _superseded(group.truth, key, offset, end):
                continue
            if kind == "tombstone" and _was_aborted(group.truth, offset):
                continue
            what = f"the {kind} at {offset} is gone, some replica needs it from {bound} on"
            self.fail("witness-removed-early", where(replica), what)

    def may_lead(self, replica: Replica) -> bool:
        record = self.image.partitions.get(replica.partition)
        return record is not None and replica.site.node in record.isr

    # ── once healed ──

    def look_at_all(self) -> None:
        """Everything that runs and is in sync is looked at."""
        for process in self.world.processes.values():
            broker = process.broker
            for partition, replica in broker.replicas.by_partition.items() if broker else ():
                if self._watched(partition.topic) and self.may_lead(replica):
                    self.look(replica)

    def leaderless(self, partition: TopicPartition, record: PartitionRecord) -> None:
        """Everything runs and nobody leads: only right if whoever is in sync has lost something."""
        if not any(node in self.group(partition).damaged for node in record.isr):
            what = f"nobody leads, though nothing has happened to the logs of {record.isr}"
            self.fail("not-healed", str(partition), what)

    def healed(self) -> None:
        """All faults are over and there was time: everybody agrees, and nothing is stuck."""
        for partition, group in self.groups.items():
            record = self.image.partitions.get(partition)
            if record is None:
                continue
            replicas = self._running(partition, record)
            if len(replicas) < len(record.replicas) or len(record.isr) < len(record.replicas):
                self.fail(
                    "not-healed", str(partition), f"in sync: {record.isr} of {record.replicas}"
                )
            for replica in replicas:
                self._settled(replica, group)
                self.look(replica)

    def _running(self, partition: TopicPartition, record: PartitionRecord) -> list[Replica]:
        found = []
        for node in record.replicas:
            broker = self.world.processes[node].broker
            replica = broker.replicas.by_partition.get(partition) if broker else None
            if replica is not None:
                found.append(replica)
        return found

    def _settled(self, replica: Replica, group: _Group) -> None:
        log, truth = replica.log, group.truth
        if log.high_watermark < truth.end:
            what = f"its high watermark is {log.high_watermark}, the truth ends at {truth.end}"
            self.fail("not-healed", where(replica), what)
        open_since = truth.first_open()
        stable = truth.end if open_since is None else open_since
        if log.last_stable_offset < stable:
            what = f"its last stable offset is {log.last_stable_offset} and should be {stable}"
            self.fail("stuck", where(replica), what)

    def cleaned_up(self, slack: int, topics: tuple[str, ...]) -> None:
        """(11): after healing and enough time nothing is left that may go."""
        for partition, group in self.groups.items():
            if partition.topic not in topics:
                continue
            record = self.image.partitions.get(partition)
            for replica in self._running(partition, record) if record else []:
                self._tidy(replica, group, slack)

    def _tidy(self, replica: Replica, group: _Group, slack: int) -> None:
        log = replica.log
        sealed = log.active.base_offset
        left = [w for w in witnesses(log) if w[1] < sealed]
        if len(left) > slack:
            what = f"{len(left)} witnesses are left below {sealed}: {left[:4]}"
            self.fail("not-cleaned", where(replica), what)
        held = sum(len(b.records) for b in batches(log, log.log_start_offset, sealed))
        live = sum(1 for key in group.truth.keys if group.truth.last_before(key, sealed))
        # A log is left alone while less than this share of it is dirty.
        allowed = live / max(1 - log.config.min_cleanable_dirty_ratio, 0.1) + slack
        if held > allowed:
            what = f"{held} records are left below {sealed} for {live} keys"
            self.fail("not-cleaned", where(replica), what)


def witnesses(log: PartitionLog) -> list[tuple[str, int, bytes]]:
    """Tombstones and markers that still say something: (kind, offset, key)."""
    found: list[tuple[str, int, bytes]] = []
    for batch in batches(log, log.log_start_offset, log.end_offset):
        if batch.ends is not None:
            found.append(("marker", batch.header.base_offset, b""))
        found += [
            ("tombstone", record.offset, record.key or b"")
            for record in batch.records
            if record.value is None
        ]
    return found


def _superseded(truth: Truth, key: bytes, offset: int, end: int) -> bool:
    last = truth.last_before(key, end)
    return last is not None and last[0] > offset


def _was_aborted(truth: Truth, offset: int) -> bool:
    """Tombstones of aborted transactions go at once. What was lost nobody can judge."""
    entry = truth.entries.get(offset)
    return truth.losses > 0 if entry is None else entry.outcome is Outcome.ABORTED


def where(replica: Replica) -> str:
    return f"broker {replica.site.node}, {replica.partition}"


def _text(data: bytes | None) -> str:
    return "nothing" if data is None else data.decode("utf-8", "replace")
