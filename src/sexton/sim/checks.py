"""Is what the replicas do right? Judged from outside, by other means than they use themselves.

Numbers are those of the invariants in docs/reference/simulator.md.

    after every step   (3) no witness is removed at or above the true minimum
                       (4) MTRO and MXRO never move back; nobody registered is below them
                       (7) an offset is given once, and keeps its record
    when a replica     `looks`: (2), (5), (6)
      is looked at
    once healed        `healed`: (1), (2), (11)

A replica is looked at when it is elected, after each cleaning pass and at random. Only what could
lead is judged before the end: a replica outside the ISR is allowed to be wrong, for it will be
mended or discarded before it joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sexton.base.partitions import TopicPartition
from sexton.log.cleaner import Cleaned, Prepared
from sexton.machines.compaction import Removable
from sexton.machines.metadata import PartitionRecord
from sexton.node.broker import Broker
from sexton.node.replica import Leading, Replica
from sexton.sim.healed import Healed, witnesses
from sexton.sim.looks import Group, Seen, where
from sexton.sim.truth import Outcome, Truth
from sexton.sim.violations import Counts, Violated, Violation
from sexton.sim.world import Process, World

NO_TERM = -2  # in which no log began


class Checks(Healed):
    """The world's observer. The first violation ends the run."""

    def __init__(self, world: World, coordinated: bool, watched: Callable[[str], bool]) -> None:
        super().__init__(world, coordinated, watched)
        # What a replica looked like after the last step, to see quickly that nothing has changed.
        self._last_seen: dict[int, dict[TopicPartition, object]] = {}
        world.observer = self

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

    def _commits(self, replica: Replica, group: Group) -> None:
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

    def _damage_mended(self, partition: TopicPartition, group: Group) -> None:
        """A damaged log may excuse a loss while it is the last in sync, not once it was let in."""
        record = self.image.partitions.get(partition)
        for node in [n for n in group.damaged if record is not None and n not in record.isr]:
            del group.damaged[node]

    def _count_discards(self, replica: Replica, group: Group) -> None:
        log, node = replica.log, replica.site.node
        before, now = group.ends.get(node), (replica.state.assignment, log.end_offset)
        group.ends[node] = now
        emptied = log.end_offset == log.log_start_offset
        if before is not None and before[0] == now[0] and before[1] > now[1] and emptied:
            self.counts.discards += 1

    def _offsets(self, partition: TopicPartition, replica: Replica, group: Group) -> None:
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
        group.replicas[node] = Seen(assignment, progress, removable)
        record = self.image.partitions.get(partition)
        if record is not None:
            self._raise_true_minimum(group, record)

    def _raise_true_minimum(self, group: Group, record: PartitionRecord) -> None:
        known = []
        for node, assignment in record.members.items():
            seen = group.replicas.get(node)
            if seen is None or seen.assignment[0] != assignment:
                return  # nothing is known of it: it holds the others
            known.append(seen.progress)
        lowest = Removable(min(p.mcco for p in known), min(p.mxfo for p in known))
        group.true_minimum = group.true_minimum.raised_to(lowest)

    def _lower_true_minimum(self, group: Group, end: int) -> None:
        """Offsets from here on are given again, and nobody is done with those."""
        lowest = group.true_minimum
        group.true_minimum = Removable(min(lowest.mtro, end), min(lowest.mxro, end))
        group.replicas.clear()

    # ── elections ──

    def _elected(self, replica: Replica, group: Group) -> None:
        truth, log = group.truth, replica.log
        assert isinstance(replica.role, Leading)
        began_at = replica.role.replication.start_offset  # it may have written since
        self.counts.elections += truth.epoch >= 0
        truth.epoch = epoch = replica.leader_epoch
        group.terms[epoch] = began_at
        if replica.record.lost_in > truth.lost_before_epoch:
            # In this term or an earlier one, whose leader died before anybody saw it lead.
            self.counts.losses += 1
            with self._as_written(replica):
                truth.become(log, began_at, others_discard=self.coordinated)
            truth.lost_before_epoch = epoch
            group.damaged.clear()
            self._lower_true_minimum(group, began_at)
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
            self._lower_true_minimum(group, began_at)
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


def _superseded(truth: Truth, key: bytes, offset: int, end: int) -> bool:
    last = truth.last_before(key, end)
    return last is not None and last[0] > offset


def _was_aborted(truth: Truth, offset: int) -> bool:
    """Tombstones of aborted transactions go at once. What was lost nobody can judge."""
    entry = truth.entries.get(offset)
    return truth.losses > 0 if entry is None else entry.outcome is Outcome.ABORTED


__all__ = ["Checks", "Counts", "Violated", "Violation", "where", "witnesses"]
