"""Opening a log, whatever its last owner left behind.

After a clean close, indexes and a producer snapshot say everything. After a crash nothing above
the recovery point is trusted: from there on every batch is read and its checksum verified, and the
log is cut at the first one that is not whole. What an earlier fsync promised lies below the
recovery point and is not touched. Indexes and producer state above it are made again.

A batch that is bad *below* the end, with good ones after it, is also a place to cut: what follows
was never acknowledged by this replica, and the leader has it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

from sexton.base.errors import CorruptLog
from sexton.base.findings import Finding
from sexton.log.checkpoints import parse_epochs
from sexton.log.config import LogConfig
from sexton.log.disk import Disk
from sexton.log.epochs import LeaderEpochs
from sexton.log.incoming import crc_matches
from sexton.log.names import (
    CLEANED,
    DELETED,
    EPOCHS,
    LOG,
    SWAP,
    parse_segment_file,
)
from sexton.log.partition import PartitionLog
from sexton.log.producers import Producers
from sexton.log.replay import load_producers, rebuild_producers, remove_snapshots, replayed
from sexton.log.segment import MOST_RELATIVE_OFFSET, Segment
from sexton.records.control import first_control_record
from sexton.records.layout import BatchHeader


@dataclass(slots=True)
class Opened:
    log: PartitionLog
    findings: list[Finding] = field(default_factory=list)  # what was wrong and has been put right


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
) -> Opened:
    """Opens the log in `directory`, or makes an empty one.

    `clean` says that it was closed in good order; the offsets are those of the last checkpoints.
    """
    findings: list[Finding] = []
    disk.make_directory(directory)
    _finish_swaps(disk, directory)
    bases = _segment_bases(disk, directory)
    segments = [Segment.attach(disk, directory, base, now_ms) for base in bases]
    epochs = _load_epochs(disk, directory, findings)
    first_suspect = _first_suspect(segments, recovery_point, clean, findings)
    made_again = False
    if not epochs.entries:
        epochs = _epochs_in(segments[:first_suspect], config)
        epochs.cut_start(log_start_offset)
        made_again = bool(epochs.entries)
    if first_suspect < len(segments):
        base = segments[first_suspect].base_offset
        before = epochs.entries
        epochs.cut_end(base)  # the batches themselves will tell again
        known = load_producers(disk, directory, segments[0].base_offset, base)
        producers = replayed(known, segments[:first_suspect])
        _recover(segments, first_suspect, producers, epochs, config, findings)
        epochs.remember(before)
    if not segments:
        segments = [Segment.create(disk, directory, log_start_offset, now_ms)]
    end = segments[-1].end_offset
    log = PartitionLog(
        disk,
        directory,
        config,
        segments,
        rebuild_producers(disk, directory, segments, high_watermark),
        epochs,
        # A crash may have taken more than what was deleted: a log does not start after its end.
        log_start_offset=min(max(log_start_offset, segments[0].base_offset), end),
        recovery_point=min(recovery_point, end) if not clean else end,
        flushed_ms=now_ms,
        _changed=not clean,
    )
    if log.epochs.cut_end(end) or not clean or made_again:
        log.write_epochs()
    if not clean:
        _keep_verified(log, segments, now_ms, perhaps_new=recovery_point == 0)
    log.advance_high_watermark(high_watermark)
    kept = {end, *(segment.base_offset for segment in segments)}
    # After a clean end they are old, but not wrong: no broker with thousands of logs waits for it.
    remove_snapshots(disk, directory, keeps=kept.__contains__, durably=not clean)
    return Opened(log, findings)


def _keep_verified(
    log: PartitionLog, segments: list[Segment], now_ms: int, *, perhaps_new: bool
) -> None:
    """What has been verified after a crash need not be verified again."""
    if perhaps_new:  # the log may have come to be in the life that ended so suddenly
        log.unsynced = _small_files(log.disk, log.directory)
    log.flush(now_ms)
    for segment in segments[:-1]:
        segment.close_indexes()


def _small_files(disk: Disk, directory: str) -> list[str]:
    """All but the segments: what is written once and replaced as a whole."""
    names = [name for name in disk.names(directory) if parse_segment_file(name) is None]
    return [f"{directory}/{name}" for name in names]


def _finish_swaps(disk: Disk, directory: str) -> None:
    """Completes or undoes what a cleaner had under way, and removes what was to be deleted.

    A segment's log is the last of its files to be given another name. If it is called `.swap`, all
    of the segment is there; an index of that name without it was about to be.
    """
    names = disk.names(directory)
    for name in names:
        if name.endswith((DELETED, CLEANED, ".tmp")):
            disk.remove(f"{directory}/{name}")
    swaps = [(name, parse_segment_file(name.removesuffix(SWAP))) for name in names]
    swaps = [(name, parsed) for name, parsed in swaps if name.endswith(SWAP)]
    complete = {parsed[0] for _, parsed in swaps if parsed and parsed[1] == LOG}
    for base in sorted(complete):
        _remove_replaced(disk, directory, base)
    for name, parsed in swaps:
        if parsed is not None and parsed[0] in complete:
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
        else:
            disk.remove(f"{directory}/{name}")
    if swaps:
        disk.sync_directory(directory)


def _remove_replaced(disk: Disk, directory: str, base: int) -> None:
    """Removes the segments whose records a complete cleaned segment holds."""
    cleaned = Segment.attach(disk, directory, base, 0, tail=SWAP)
    end = base
    for _position, header in cleaned.headers():
        end = header.next_offset
    for other in _segment_bases(disk, directory):
        if base <= other < max(end, base + 1):
            Segment.attach(disk, directory, other, 0).remove(log_last=True)


def _segment_bases(disk: Disk, directory: str) -> list[int]:
    parsed = [parse_segment_file(name) for name in disk.names(directory)]
    return sorted(p[0] for p in parsed if p and p[1] == LOG)


def _first_suspect(
    segments: list[Segment], recovery_point: int, clean: bool, findings: list[Finding]
) -> int:
    """The index of the first segment to be read in full; loads the indexes of those before it."""
    following = [segment.base_offset for segment in segments[1:]]
    trusted = len(segments) if clean else sum(base <= recovery_point for base in following)
    for index, segment in enumerate(segments[:trusted]):
        try:
            segment.load_indexes()
        except CorruptLog as error:
            findings.append(_finding("index-rebuilt", error.subject, error.why))
            if clean and index == len(segments) - 1:
                return index
            trusted = index
            break
        # A damaged header may claim offsets of the next segment; whoever reads it will notice.
        segment.end_offset = min([segment.end_offset, *following[index : index + 1]])
    return trusted


def _recover(
    segments: list[Segment],
    first: int,
    producers: Producers,
    epochs: LeaderEpochs,
    config: LogConfig,
    findings: list[Finding],
) -> None:
    """Reads the segments from `first` on, cutting the log where it stops making sense."""
    for index in range(first, len(segments)):
        reached = segments[index - 1].end_offset if index else segments[0].base_offset
        fault = _recover_segment(segments[index], reached, producers, epochs, config)
        if fault is None:
            if index < len(segments) - 1:
                segments[index].seal()
            continue
        finding, position = fault
        findings.append(finding)
        for later in segments[index + 1 :]:
            where, why = later.path(LOG), "follows a damaged segment and was removed"
            findings.append(_finding("segment-removed", where, why, bytes=later.size))
        _cut(segments, index, position)
        return


def _cut(segments: list[Segment], index: int, position: int) -> None:
    """Everything from a position of a segment on goes, from the end of the log to there.

    If the power goes once more on the way, the next start finds the damage again and goes on: it
    must not find a sound segment in its place and, behind a hole, others.
    """
    damaged = segments[index]
    for later in reversed(segments[index + 1 :]):
        later.remove()
    damaged.disk.sync_directory(damaged.directory)
    del segments[index + 1 :]
    damaged.log.truncate(position)
    damaged.rewrite_indexes()


def _recover_segment(
    segment: Segment, reached: int, producers: Producers, epochs: LeaderEpochs, config: LogConfig
) -> tuple[Finding, int] | None:
    """Verifies every batch and indexes it; tells where to cut, at the first that is bad.

    `reached` is where the batch before it ends.
    """
    segment.forget_indexes()
    end = 0
    try:
        for position, header, batch in segment.batches():
            why = _fault(segment, header, batch)
            if why is not None:
                raise CorruptLog(f"{segment.path(LOG)} at byte {position}", why)
            marker = None
            if header.is_control:
                where = f"{segment.path(LOG)} at byte {position}"
                marker = first_control_record(batch, where)
            segment.index(position, header, config.index_interval_bytes)
            begins = header.base_offset if config.notes_epochs_by_batches else reached
            epochs.assign(header.partition_leader_epoch, begins)
            reached = header.next_offset
            ended = producers.apply(header, marker)
            if ended is not None and ended.aborted:
                segment.add_aborted(producers.aborted_entry(ended))
            end = position + header.size
    except CorruptLog as error:
        lost = segment.size - end
        evidence = {"cut_at": end, "bytes_dropped": lost}
        return _finding("torn-tail", error.subject, error.why, **evidence), end
    segment.rewrite_indexes()
    return None


def _fault(segment: Segment, header: BatchHeader, batch: memoryview) -> str | None:
    """Why this batch cannot be the next one of the segment, or None."""
    if header.base_offset < segment.end_offset:
        return f"offset {header.base_offset} after offset {segment.end_offset - 1}"
    if header.last_offset - segment.base_offset > MOST_RELATIVE_OFFSET:
        # A changed bit: no checksum covers the base offset.
        return f"offset {header.last_offset} is too far from the first of its segment"
    if not crc_matches(batch, 0, header):
        return "the checksum does not match"
    return None


def _load_epochs(disk: Disk, directory: str, findings: list[Finding]) -> LeaderEpochs:
    path = f"{directory}/{EPOCHS}"
    if not disk.exists(path):
        return LeaderEpochs()
    try:
        entries = parse_epochs(disk.read(path), path)
        if any(a >= c or b >= d for (a, b), (c, d) in pairwise(entries)):
            raise CorruptLog(path, "its epochs and offsets do not rise")
        return LeaderEpochs(entries)
    except CorruptLog as error:
        findings.append(_finding("epochs-lost", error.subject, error.why))
        return LeaderEpochs()


def _epochs_in(segments: list[Segment], config: LogConfig) -> LeaderEpochs:
    """Which leader wrote what, by the batches themselves, for want of a file that says it.

    A leader notes its term when it begins, and does not wait until the disk has that: so a power
    cut may take the file, and with it the terms before. Without them a follower that wrote
    something else in one of those would not be told where to cut its log.
    """
    epochs = LeaderEpochs()
    reached = segments[0].base_offset if segments else 0
    for segment in segments:
        with suppress(CorruptLog):  # whoever reads these batches will notice
            for _position, header in segment.headers():
                if header.partition_leader_epoch < 0:
                    return epochs  # of times when nobody noted it
                if header.partition_leader_epoch > epochs.latest:
                    begins = header.base_offset if config.notes_epochs_by_batches else reached
                    epochs.assign(header.partition_leader_epoch, begins)
                reached = header.next_offset
    return epochs


def _finding(code: str, where: str, message: str, **evidence: int) -> Finding:
    remedy = "nothing: the log was put right when it was opened"
    return Finding(code, "warning", where, message, evidence, remedy)
