"""All replicas of one broker: made, given roles, and removed, as the controller's records say.

Also what they have in common: one fetcher for each leader they follow, checkpoints, retention, and
the watch over followers that fall behind.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from sexton.base.errors import Refused
from sexton.base.findings import Finding
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.disk import DiskFailed
from sexton.machines import compaction
from sexton.machines.controller_events import ReplicaState
from sexton.machines.metadata import PartitionRecord
from sexton.node import compaction_file
from sexton.node.fetcher import Fetcher
from sexton.node.replica import Following, Leading, Replica, Tell
from sexton.node.site import Site


class Replicas:
    def __init__(self, site: Site) -> None:
        self._site = site
        self.by_partition: dict[TopicPartition, Replica] = {}
        self._fetchers: dict[int, Fetcher] = {}
        self._fetched_from: dict[TopicPartition, int] = {}
        self._states: dict[TopicPartition, compaction.Follower] = {}
        self.tell: Tell = lambda _replica, _message: None  # how minima are announced
        self.strays: Callable[[list[Finding]], None] = lambda _findings: None  # were set aside
        for partition, log in site.directory.logs.items():
            disk = site.directory.disk
            state = compaction_file.load(disk, partition, site.node, log.end_offset)
            self._states[partition] = state

    def start_timers(self) -> None:
        config = self._site.config
        self._site.outside.every(config.replica_lag_time_max_ms // 2, self._shrink_isrs)
        self._site.outside.every(
            config.replica_high_watermark_checkpoint_interval_ms, self._checkpoint
        )
        self._site.outside.every(config.log_retention_check_interval_ms, self._retain)

    def found(self) -> tuple[ReplicaState, ...]:
        """What is on this disk, for the controller: it decides what these logs are good for."""
        states = []
        for partition, log in self._site.directory.logs.items():
            replica = self.by_partition.get(partition)
            kept = self._states[partition] if replica is None else replica.state
            progress = kept.progress if replica is None else replica.progress  # as a leader, too
            states.append(
                ReplicaState(
                    partition.topic, partition.partition, kept.assignment, log.end_offset,
                    progress.mcco, progress.mxfo,
                )
            )  # fmt: skip
        return tuple(states)

    def led(self, partition: TopicPartition) -> tuple[Replica, Leading]:
        """The replica, if this broker leads the partition; else Refused."""
        replica = self.get(partition)
        if not isinstance(replica.role, Leading):
            raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, f"{partition} is led elsewhere")
        return replica, replica.role

    def get(self, partition: TopicPartition) -> Replica:
        replica = self.by_partition.get(partition)
        if replica is not None:
            return replica
        if partition in self._site.image.partitions:
            why = f"this broker has no replica of {partition}"
            raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER, why)
        raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {partition}")

    # ── what the controller's records say ──

    def obey(self, partition: TopicPartition) -> None:
        """The partition's record has changed, or is gone."""
        record = self._site.image.partitions.get(partition)
        if record is None or self._site.node not in record.replicas:
            self._remove(partition)
            return
        self._remove_namesake(partition)
        replica = self.by_partition.get(partition)
        if replica is None:
            replica = self._make(partition, record)
        replica.log.configure(self._site.log_config(partition.topic))
        before = replica.role
        replica.obey(record)
        if replica.role is not before or (
            isinstance(replica.role, Following) and not replica.role.may_fetch
        ):
            self._refetch(replica)

    def _remove_namesake(self, partition: TopicPartition) -> None:
        """The topic was deleted and created again, and only the second was heard here."""
        if partition in self._site.directory.logs and not self._is_of_its_topic(partition):
            self._remove(partition)

    def _is_of_its_topic(self, partition: TopicPartition) -> bool:
        """Is the log of the topic that has this name now?"""
        topic = self._site.image.topics.get(partition.topic)
        if topic is None:
            return True  # nobody says otherwise
        return self._site.directory.topic_id(partition) == uuid.UUID(topic.topic_id)

    def set_strangers_aside(self) -> list[Finding]:
        """Every log that the controller's records do not give to this broker, kept as it is."""
        partitions, node = self._site.image.partitions, self._site.node
        strangers = [
            at
            for at in self._site.directory.logs
            if at not in partitions
            or node not in partitions[at].replicas
            or not self._is_of_its_topic(at)
        ]
        return [self._set_aside(at) for at in strangers]

    def _set_aside(self, partition: TopicPartition) -> Finding:
        site = self._site
        self._states.pop(partition)
        name = site.directory.set_aside(partition, f"{site.random.getrandbits(128):032x}")
        why = f"this cluster did not give the log of {partition} to this broker: it was set aside"
        remedy = "remove the directory once you know that nobody needs it"
        return Finding("stray-log", "warning", f"{site.config.log_dir}/{name}", why, {}, remedy)

    def _tell_strays(self, findings: list[Finding]) -> None:
        """What was in the way of a new log."""
        log_dir = self._site.config.log_dir
        if findings:
            self.strays([replace(each, where=f"{log_dir}/{each.where}") for each in findings])

    def reconfigure(self, topic: str) -> None:
        """A topic's options have changed."""
        for number in self._site.image.partitions_of(topic):
            replica = self.by_partition.get(TopicPartition(topic, number))
            if replica is not None:
                replica.log.configure(self._site.log_config(topic))

    def _make(self, partition: TopicPartition, record: PartitionRecord) -> Replica:
        site = self._site
        config = site.log_config(partition.topic)
        topic = site.image.topics.get(partition.topic)
        log = site.directory.logs.get(partition)
        if log is None:
            topic_id = uuid.UUID(topic.topic_id) if topic else uuid.UUID(int=0)
            told = len(site.directory.findings)
            log = site.directory.create(partition, topic_id, config, site.now_ms)
            self._tell_strays(site.directory.findings[told:])
            # A new log belongs to the assignment that made it.
            state = compaction.Follower(site.node, assignment=record.members[site.node])
            compaction_file.begin(site.directory.disk, partition, state.assignment)
            log.unsynced.append(compaction_file.path_of(partition))
        else:
            state = self._states.pop(partition)
        state.session = site.broker_epoch << 32  # no session is ever used twice
        replica = Replica(site, partition, log, state, record, tell=self.tell)
        replica.cleaning.clean_until = state.progress.mcco
        self.by_partition[partition] = replica
        return replica

    def _remove(self, partition: TopicPartition) -> None:
        replica = self.by_partition.pop(partition, None)
        self._states.pop(partition, None)
        self._leave(partition)
        if replica is not None:
            replica.retire()
        if partition in self._site.directory.logs:
            self._site.directory.delete(partition)

    def _refetch(self, replica: Replica) -> None:
        role = replica.role
        if not isinstance(role, Following):
            self._leave(replica.partition)
            return
        if self._fetched_from.get(replica.partition) != role.leader:
            self._leave(replica.partition)
        self._fetched_from[replica.partition] = role.leader
        fetcher = self._fetchers.get(role.leader)
        if fetcher is None:
            fetcher = self._fetchers[role.leader] = Fetcher(self._site, role.leader)
        fetcher.follow(replica)

    def _leave(self, partition: TopicPartition) -> None:
        leader = self._fetched_from.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].leave(partition)

    # ── now and then ──

    def _shrink_isrs(self) -> None:
        for replica in list(self.by_partition.values()):
            if isinstance(replica.role, Leading):
                role = replica.role
                late = role.replication.tick(self._site.clock_ms)
                replica.replication_effects(role, late)

    def _checkpoint(self) -> None:
        with suppress(OSError):  # a full disk; the next one may succeed, and none is needed
            self._site.directory.checkpoint()

    def _retain(self) -> None:
        now_ms = self._site.now_ms
        for replica in self.by_partition.values():
            with _full_disk_waits():
                replica.log.flush_if_due(now_ms)
            with _full_disk_waits():
                replica.log.enforce_retention(now_ms)
            replica.log.producers.expire(now_ms, replica.log.config.producer_id_expiration_ms)

    def high_watermarks(self) -> tuple[tuple[str, int, int, int], ...]:
        """Of what this broker leads and the controller has not been told."""
        told = []
        for partition, replica in self.by_partition.items():
            if isinstance(replica.role, Leading) and replica.log.high_watermark > replica.told:
                replica.told = replica.log.high_watermark
                told.append((*partition, replica.leader_epoch, replica.log.high_watermark))
        return tuple(told)

    def forget_what_was_told(self) -> None:
        """A heartbeat got lost, and what was in it."""
        for replica in self.by_partition.values():
            replica.told = -1

    def check(self) -> None:
        for replica in self.by_partition.values():
            replica.check()


# A full disk, a quota that is used up, no file descriptors left: none of them means lost bytes.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})


@contextmanager
def _full_disk_waits() -> Iterator[None]:
    """What finds no room is tried again next time: others may have something to remove."""
    try:
        yield
    except DiskFailed:
        raise
    except Refused as error:
        if error.error is not KafkaError.KAFKA_STORAGE_ERROR:
            raise
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
