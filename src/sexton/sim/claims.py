"""Is what replicas say of themselves true?

`checks` compares what a replica shows with what was written. A wrong rule often does its harm much
later, when a disk is lost or a leader dies at the one moment that matters. But it is wrong at once:

    after every step   whoever is in the ISR has everything below the high watermark; nobody relies
                       on minima above its own progress, nor on some that the controller has not
                       heard of
    when a replica     below its MCCO a log has one record per key and none that was aborted, below
      is looked at     its MXFO no batch with the transactional bit; what it takes for open has no
                       marker below the high watermark; the log of a compacted topic starts at 0;
                       what a leader knows of a live producer, those in sync with it know; and no
                       epoch is said to have begun later than it did
"""

from __future__ import annotations

from sexton.base.partitions import TopicPartition
from sexton.node.replica import Following, Leading, Replica
from sexton.sim.checks import Checks, where
from sexton.sim.truth import Outcome, Truth, batches
from sexton.sim.world import Process

HOUR_MS = 3_600_000


class Claims(Checks):
    """Everything that is checked in a run."""

    def stepped(self, process: Process) -> None:
        if process.ahead_ms > HOUR_MS:
            self.ran_ahead[process.address] = None
        super().stepped(process)

    def _step(self, partition: TopicPartition, replica: Replica) -> None:
        super()._step(partition, replica)
        self._has_what_it_vouches_for(replica)
        if self.coordinated:
            self._relies_on_what_is_known(replica)

    def look(self, replica: Replica) -> None:
        super().look(replica)
        if replica.site.node in self.rotten:
            return
        self._missed_markers(replica)
        self._lost_at_the_start(replica)
        self._forgotten_producers(replica)
        if self.coordinated:
            self._late_epochs(replica)
            self._has_markers_of_its_data(replica)
            self._is_as_clean_as_it_says(replica)

    # ── after every step ──

    def _has_what_it_vouches_for(self, replica: Replica) -> None:
        group, end = self.group(replica.partition), replica.log.end_offset
        truth = group.truth
        if end >= truth.end or not self.may_lead(replica) or replica.site.node in group.damaged:
            return
        declared = self.image.partitions[replica.partition].lost_in
        if declared <= truth.lost_before_epoch <= replica.leader_epoch:
            what = f"it is in sync, but ends at {end}, below {truth.end}"
            self.fail("behind-in-isr", where(replica), what)

    def _relies_on_what_is_known(self, replica: Replica) -> None:
        record, role = self.image.partitions.get(replica.partition), replica.role
        accepted = isinstance(role, Leading) or (isinstance(role, Following) and role.may_fetch)
        if record is None or replica.leader_epoch != record.leader_epoch or not accepted:
            return
        removable = replica.removable
        if not replica.progress.covers(removable):
            what = f"it relies on {removable} and is clean up to {replica.progress}"
            self.fail("beyond-own-progress", where(replica), what)
        if record.removable.raised_to(removable) != record.removable:
            what = f"it relies on {removable}, the controller knows of {record.removable}"
            self.fail("unknown-minima", where(replica), what)

    # ── when a replica is looked at ──

    def _is_as_clean_as_it_says(self, replica: Replica) -> None:
        progress, log = replica.progress, replica.log
        truth, met = self.group(replica.partition).truth, set[bytes]()
        for batch in batches(log, log.log_start_offset, max(progress.mcco, progress.mxfo)):
            header = batch.header
            at = header.base_offset
            if header.is_transactional and not header.is_control and at < progress.mxfo:
                what = f"the batch at {at} is transactional, below its MXFO {progress.mxfo}"
                self.fail("false-claim", where(replica), what)
            for record in batch.records:
                key = record.key or b""
                if record.offset >= progress.mcco:
                    continue
                if key in met:
                    what = f"a second {key!r} at {record.offset}, below its MCCO {progress.mcco}"
                    self.fail("false-claim", where(replica), what)
                met.add(key)
                if _outcome(truth, record.offset) is Outcome.ABORTED:
                    what = f"{record.offset} was aborted and is below its MCCO {progress.mcco}"
                    self.fail("false-claim", where(replica), what)

    def _missed_markers(self, replica: Replica) -> None:
        """A transaction that stays open here for good, or until another's marker ends it."""
        log, truth = replica.log, self.group(replica.partition).truth
        for first, producer_id in log.producers.open_transactions():
            if _outcome(truth, first) in (None, Outcome.OPEN, Outcome.PLAIN):
                continue
            end = truth.marker_after(producer_id, first)
            if end is not None and end < log.high_watermark:
                what = f"producer {producer_id} has one open since {first}, it ended at {end}"
                self.fail("stuck", where(replica), what)

    def _has_markers_of_its_data(self, replica: Replica) -> None:
        """Settled data that is still transactional must have its own marker above it."""
        log, truth = replica.log, self.group(replica.partition).truth
        waiting: dict[int, int] = {}  # producer id -> first offset of its transaction
        stable = min(log.last_stable_offset, truth.end)
        for batch in batches(log, log.log_start_offset, log.high_watermark):
            header = batch.header
            if batch.ends is not None:
                first = waiting.pop(header.producer_id, None)
                right = None if first is None else truth.marker_after(header.producer_id, first)
                if right is not None and right != header.base_offset:
                    self._marker_gone(replica, right, first)
            elif header.is_transactional and not header.is_control and header.base_offset < stable:
                waiting.setdefault(header.producer_id, header.base_offset)
        for producer_id, first in waiting.items():
            right = truth.marker_after(producer_id, first)
            if right is not None and right < log.high_watermark:
                self._marker_gone(replica, right, first)

    def _marker_gone(self, replica: Replica, marker: int, first: int | None) -> None:
        what = f"the marker at {marker} is gone, and data of its transaction is left at {first}"
        self.fail("witness-removed-early", where(replica), what)

    def _lost_at_the_start(self, replica: Replica) -> None:
        """Only deletion moves a log's start, and nobody deletes from a compacted topic."""
        log, truth = replica.log, self.group(replica.partition).truth
        for key in truth.keys if log.log_start_offset > 0 and not log.config.deletes else ():
            last = truth.last_before(key, truth.end)
            if last is not None and last[1] is not None and last[0] < log.log_start_offset:
                what = f"{key!r} is at {last[0]}, and its log starts at {log.log_start_offset}"
                self.fail("committed-lost", where(replica), what)

    def _late_epochs(self, replica: Replica) -> None:
        """A leader that says of an epoch that it began later lets others keep too much."""
        log, terms = replica.log, self.group(replica.partition).terms
        for epoch, start in log.epochs.entries:
            began_at = max(terms.get(epoch, start), log.log_start_offset)
            if start > began_at:
                what = f"epoch {epoch} began at {began_at}, and it says {start}"
                self.fail("late-epoch", where(replica), what)

    def _forgotten_producers(self, replica: Replica) -> None:
        """A follower knows of each live producer what its leader knows, or repeats get in."""
        leader = self._leader_of(replica)
        if leader is None or replica.site.node in self.ran_ahead:
            return
        log, of_leader = replica.log, leader.log
        shared = of_leader.epochs.end_of(log.epochs.latest, of_leader.end_offset).start_offset
        if log.end_offset > shared:
            return  # it has yet to cut off what its leader does not have
        lately = self.world.now_ms - log.config.producer_id_expiration_ms + HOUR_MS
        for producer in of_leader.producers.known.values():
            if producer.last_timestamp < lately or not 0 <= producer.last_offset < log.end_offset:
                continue
            known = log.producers.known.get(producer.producer_id)
            wanted = (producer.epoch, producer.last_sequence)
            if known is None or (known.epoch, known.last_sequence) != wanted:
                has = "nothing" if known is None else (known.epoch, known.last_sequence)
                what = f"of producer {producer.producer_id} it has {has}, the leader {wanted}"
                self.fail("producer-forgotten", where(replica), what)

    def _leader_of(self, replica: Replica) -> Replica | None:
        """The replica that leads it, if both agree on the term."""
        record = self.image.partitions.get(replica.partition)
        if record is None or record.leader < 0:
            return None
        broker = self.world.processes[record.leader].broker
        leader = broker.replicas.by_partition.get(replica.partition) if broker else None
        in_term = leader is not None and leader.leader_epoch == replica.leader_epoch
        return leader if in_term else None


def _outcome(truth: Truth, offset: int) -> Outcome | None:
    entry = truth.entries.get(offset)
    return None if entry is None else entry.outcome
