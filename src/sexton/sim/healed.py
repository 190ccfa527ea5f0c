"""Once everything has healed: do all agree, is nothing stuck, and is all tidy?

(1)  all replicas agree, key by key
(2)  and on the last stable offset
(11) what may go is gone: cleaning finishes
"""

from __future__ import annotations

from sexton.base.partitions import TopicPartition
from sexton.log.partition import PartitionLog
from sexton.machines.metadata import PartitionRecord
from sexton.node.coordinators import TRANSACTION_STATE
from sexton.node.replica import Replica
from sexton.sim.looks import Group, Looks, where
from sexton.sim.truth import batches


class Healed(Looks):
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

    def _settled(self, replica: Replica, group: Group) -> None:
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
            if record is None:
                continue
            open_since = group.truth.first_open() if self._may_hang(partition) else None
            for replica in self._running(partition, record):
                sealed = replica.log.active.base_offset
                end = sealed if open_since is None else min(sealed, open_since)
                self._tidy(replica, group, slack, end)

    def _may_hang(self, partition: TopicPartition) -> bool:
        """Whose marker was lost, or whose coordinator forgot it, stays open until an administrator
        ends it, and nothing beyond may go. Where nothing was lost there is no such excuse.
        """
        return any(
            record.lost_in >= 0
            for at, record in self.image.partitions.items()
            if at == partition or at.topic == TRANSACTION_STATE
        )

    def _tidy(self, replica: Replica, group: Group, slack: int, sealed: int) -> None:
        log = replica.log
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
