"""A data directory: the logs of many partitions, and what is written down about all at once.

    meta.properties                       whose directory this is (for its owner to say)
    recovery-point-offset-checkpoint      per partition: everything below is synced
    log-start-offset-checkpoint           per partition: where it begins, if records were deleted
    replication-offset-checkpoint         per partition: the high watermark
    .kafka_cleanshutdown                  there only if every log was closed in good order
    orders-0/, orders-1/, ...             a log each

The marker of a clean shutdown is removed before the first log is opened and written after the last
one is closed, so a crash in between always leads to recovery.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.base.errors import ConfigError, CorruptLog
from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.log.checkpoints import pack_metadata, pack_offsets, parse_metadata, parse_offsets
from sexton.log.config import LogConfig
from sexton.log.disk import Disk, put, replace
from sexton.log.names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG,
    LOG_STARTS,
    METADATA,
    RECOVERY_POINTS,
)
from sexton.log.partition import PartitionLog
from sexton.log.recovery import open_log

# A cleaning pass in another thread may still write beside a log that is being deleted, until it has
# noticed or the directory is gone. It makes five files at most for each group of segments.
REMOVALS = 20
LONGEST_NAME = 255  # of a directory, on any file system one meets

ConfigOf = Callable[[TopicPartition], LogConfig]


@dataclass(slots=True)
class DataDirectory:
    disk: Disk
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)  # what recovery put right
    was_clean: bool = True

    @classmethod
    def open(cls, disk: Disk, config_of: ConfigOf, now_ms: int) -> DataDirectory:
        """Opens every partition's log, recovering those that a crash left unfinished."""
        directory = cls(disk)
        directory.was_clean = disk.exists(CLEAN_SHUTDOWN)
        disk.remove(CLEAN_SHUTDOWN)
        disk.sync_directory(".")
        recovery_points = directory._load(RECOVERY_POINTS)
        log_starts = directory._load(LOG_STARTS)
        high_watermarks = directory._load(HIGH_WATERMARKS)
        for name in disk.names("."):
            partition = _partition(disk, name)
            if partition is None or not directory._came_to_be(partition, recovery_points):
                continue
            opened = open_log(
                disk,
                name,
                config_of(partition),
                now_ms=now_ms,
                clean=directory.was_clean,
                recovery_point=recovery_points.get(partition, 0),
                log_start_offset=log_starts.get(partition, 0),
                high_watermark=high_watermarks.get(partition, 0),
            )
            directory.logs[partition] = opened.log
            directory.findings += opened.findings
        return directory

    def create(
        self, partition: TopicPartition, topic_id: uuid.UUID, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        """A new, empty log. It is synced when its records are: before, it holds nothing to lose."""
        if partition in self.logs:
            raise ConfigError(str(partition), "exists already")
        name = str(partition)
        if self._holds_records(name):
            self._keep_unknown(partition, topic_id)
        for left in self.disk.names(name):  # by one that a crash kept from coming to be
            self.disk.remove(f"{name}/{left}")
        self.disk.make_directory(name)
        put(self.disk, f"{name}/{METADATA}", pack_metadata(topic_id))
        log = open_log(self.disk, name, config, now_ms=now_ms, clean=True).log
        log.unsynced.append(f"{name}/{METADATA}")
        self.logs[partition] = log
        return log

    def _holds_records(self, directory: str) -> bool:
        for left in self.disk.names(directory):
            if left.endswith(LOG):
                file = self.disk.open(f"{directory}/{left}")
                size = file.size
                file.close()
                if size:
                    return True
        return False

    def _keep_unknown(self, partition: TopicPartition, topic_id: uuid.UUID) -> None:
        """It does not say whose it is, so nobody opened it; that does not make it worthless.

        A file may be damaged or lost, and Kafka before 2.8 did not write it.
        """
        mark = topic_id.int
        while self.disk.exists(name := stray_name(partition, f"{mark:032x}")):
            mark = (mark + 1) % (1 << 128)
        self.disk.rename(str(partition), name)
        self.disk.sync_directory(".")
        why = f"{partition} had records, but no {METADATA} that can be read: they were set aside"
        remedy = (
            f"`sexton log dump` shows what is in it; to have it back, stop the broker, put it in "
            f"place of {partition} with the {METADATA} of that, and start it again; else remove it"
        )
        self.findings.append(Finding("stray-log", "warning", name, why, {}, remedy))

    def _came_to_be(
        self, partition: TopicPartition, recovery_points: dict[TopicPartition, int]
    ) -> bool:
        """Not if the machine died before anything of a new log was synced."""
        try:
            self.topic_id(partition)
        except CorruptLog:
            if recovery_points.get(partition, 0) > 0:
                raise
            return False
        return True

    def topic_id(self, partition: TopicPartition) -> uuid.UUID:
        path = f"{partition}/{METADATA}"
        return parse_metadata(self.disk.read(path), path)

    def truncate(self, partition: TopicPartition, offset: int, now_ms: int) -> None:
        """Cuts a log and writes down at once how much of it is still known to be synced."""
        self.logs[partition].truncate_to(offset, now_ms)
        self.checkpoint()

    def discard(self, partition: TopicPartition, start: int, now_ms: int) -> None:
        """Empties a log, durably: it begins at `start` from now on."""
        log = self.logs[partition]
        log.truncate_fully(start, now_ms)
        log.flush(now_ms)
        self.checkpoint()

    def delete(self, partition: TopicPartition) -> None:
        """Removes a partition's log and all its files."""
        self.logs.pop(partition).closed = True
        for attempts_left in reversed(range(REMOVALS)):
            try:
                self._remove(str(partition))
                break
            except OSError as error:
                if error.errno != errno.ENOTEMPTY or not attempts_left:
                    raise
        self.checkpoint()
        self.disk.sync_directory(".")

    def set_aside(self, partition: TopicPartition, mark: str) -> str:
        """Keeps a log's files in a directory that nobody opens, called as Kafka calls it."""
        self.logs.pop(partition).closed = True
        name = stray_name(partition, mark)
        self.disk.rename(str(partition), name)
        self.checkpoint()
        self.disk.sync_directory(".")
        return name

    def _remove(self, directory: str) -> None:
        for name in self.disk.names(directory):
            self.disk.remove(f"{directory}/{name}")
        self.disk.remove(directory)

    def checkpoint(self) -> None:
        """Writes down, for all logs, what a restart should not have to find out again."""
        logs = self.logs.items()
        self._store(RECOVERY_POINTS, {p: log.recovery_point for p, log in logs})
        self._store(HIGH_WATERMARKS, {p: log.high_watermark for p, log in logs})
        moved = {
            p: log.log_start_offset
            for p, log in logs
            if log.log_start_offset > log.segments[0].base_offset
        }
        self._store(LOG_STARTS, moved)

    def close(self, now_ms: int, broker_epoch: int = -1) -> None:
        for log in self.logs.values():
            log.close(now_ms)
        self.checkpoint()
        marker = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        replace(self.disk, CLEAN_SHUTDOWN, marker.encode())

    def _load(self, name: str) -> dict[TopicPartition, int]:
        if not self.disk.exists(name):
            return {}
        try:
            return parse_offsets(self.disk.read(name), name)
        except CorruptLog as error:
            # Without it everything is recovered from the start: slower, and as right.
            remedy = "nothing: the logs were read in full instead"
            self.findings.append(
                Finding("checkpoint-lost", "warning", error.subject, error.why, {}, remedy)
            )
            self.was_clean = False
            return {}

    def _store(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        replace(self.disk, name, pack_offsets(offsets))


def stray_name(partition: TopicPartition, mark: str) -> str:
    ending = f"-{partition.partition}.{mark}-stray"
    return partition.topic[: LONGEST_NAME - len(ending)] + ending


def _partition(disk: Disk, name: str) -> TopicPartition | None:
    try:
        partition = TopicPartition.from_directory(name)
    except ConfigError:
        return None
    # The metadata file tells a partition's directory from others with a number at the end.
    return partition if disk.exists(f"{name}/{METADATA}") else None
