"""What Kafka itself wrote: nothing to find, every record as kafka-dump-log shows it."""

from __future__ import annotations

import gc
import re
import shutil
from io import FileIO
from pathlib import Path

import pytest

from sexton.base.findings import Finding
from sexton.log.inspect.blocks import blocks
from sexton.log.inspect.dump import DumpedBatch, DumpedRecord, batches, records
from sexton.log.inspect.paths import PartitionFiles, find
from sexton.log.inspect.selection import Selection
from sexton.log.inspect.stats import stats
from sexton.log.inspect.verify import Verdict, verify
from sexton.records import scan
from sexton.records.layout import CRC_START
from tests.kafka_data import DATA, KafkaLog, kafka_logs

LOGS = kafka_logs()
ALL = Selection()
each_log = pytest.mark.parametrize("log", LOGS, ids=map(str, LOGS))
FIELD = re.compile(r"(\w+): (\S+)")


def fail(*told: object) -> None:
    pytest.fail(str(told))


def partition_in(path: Path) -> PartitionFiles:
    found = find([path])
    assert not found.wrong, found.wrong
    (partition,) = found.partitions
    return partition


def verified(path: Path) -> tuple[Verdict, list[Finding], list[tuple[str, str]]]:
    findings: list[Finding] = []
    skipped: list[tuple[str, str]] = []
    verdict = verify(
        partition_in(path), findings.append, lambda p, why: skipped.append((p, why)), workers=1
    )
    return verdict, findings, skipped


def dumped(path: Path, selection: Selection = ALL) -> list[DumpedRecord]:
    found = blocks(partition_in(path), selection, fail, fail)
    return [record for block in found for record in records(block)]


def dumped_batches(path: Path) -> list[DumpedBatch]:
    found = blocks(partition_in(path), Selection(), fail, fail)
    return [batch for block in found for batch in batches(block)]


@each_log
def test_healthy_logs_have_no_findings_and_every_offset_is_explained(log: KafkaLog) -> None:
    verdict, findings, skipped = verified(log.directory)
    assert findings == []
    assert skipped == []
    assert "unknown" not in verdict.missing
    if verdict.next_offset is not None:
        assert verdict.records + sum(verdict.missing.values()) == verdict.next_offset


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_a_whole_data_directory_is_clean(version: str) -> None:
    found = find([DATA / f"kafka-{version}"])
    assert len(found.partitions) > 50
    for partition in found.partitions:
        verify(partition, fail, fail, workers=2)


@each_log
def test_records_are_those_of_kafka_dump_log(log: KafkaLog) -> None:
    golden = [
        dict(FIELD.findall(line))
        for name in sorted(log.dumps)
        if name.endswith(".log")
        for line in log.dumps[name].splitlines()
        if line.startswith("| ")
    ]
    ours = dumped(log.directory)
    assert len(ours) == len(golden)
    for record, told in zip(ours, golden, strict=True):
        assert record.offset == int(told["offset"])
        assert record.timestamp == int(told[record.timestamp_type])
        assert (-1 if record.key is None else len(record.key)) == int(told["keySize"])
        assert (-1 if record.value is None else len(record.value)) == int(told["valueSize"])
        assert (-1 if record.sequence is None else record.sequence) == int(told["sequence"])
        if "endTxnMarker" in told:
            assert record.control is not None
            assert record.control.name == told["endTxnMarker"]
            assert record.control.coordinator_epoch == int(told["coordinatorEpoch"])


@each_log
def test_batches_are_those_of_kafka_dump_log(log: KafkaLog) -> None:
    golden = [
        line
        for name in sorted(log.dumps)
        if name.endswith(".log")
        for line in log.dumps[name].splitlines()
        if line.startswith("baseOffset")
    ]
    for batch, line in zip(dumped_batches(log.directory), golden, strict=True):
        told = dict(FIELD.findall(line))
        assert batch.base_offset == int(told["baseOffset"])
        assert batch.last_offset == int(told["lastOffset"])
        assert batch.records == int(told["count"])
        assert batch.position == int(told["position"])
        assert batch.size == int(told["size"])
        assert batch.codec == told["compresscodec"]
        assert batch.crc == f"{int(told['crc']):08x}"
        horizon = told["deleteHorizonMs"]
        assert horizon == (
            "OptionalLong.empty"
            if batch.delete_horizon is None
            else f"OptionalLong[{batch.delete_horizon}]"
        )


@each_log
def test_an_outcome_is_the_next_marker_of_its_producer(log: KafkaLog) -> None:
    """Worked out from Kafka's own text, the slow way."""
    decided: dict[int, tuple[str, int] | None] = {}
    markers: list[tuple[int, int, str]] = []
    producer = {b.base_offset: b.producer_id for b in dumped_batches(log.directory)}
    for name in log.dumps:
        for line in log.dumps[name].splitlines():
            told = dict(FIELD.findall(line))
            if "endTxnMarker" in told:
                offset = int(told["offset"])
                markers.append((offset, producer[offset] or 0, told["endTxnMarker"]))
    for record in dumped(log.directory):
        after = sorted(m for m in markers if m[1] == record.producer_id and m[0] > record.offset)
        decided[record.offset] = (after[0][2], after[0][0]) if after else None
        if not record.transactional or record.control is not None:
            assert record.outcome is None
        elif after:
            words = {"COMMIT": "committed", "ABORT": "aborted"}
            assert (record.outcome, record.marker_offset) == (words[after[0][2]], after[0][0])
        else:
            assert (record.outcome, record.marker_offset) == ("open", None)


@each_log
def test_one_segment_alone_tells_the_same_outcomes(log: KafkaLog) -> None:
    """The marker may be in a segment that was not asked for: it is looked up all the same."""
    whole = {record.offset: record.outcome for record in dumped(log.directory)}
    for segment in log.segments:
        for record in dumped(segment):
            assert record.outcome == whole[record.offset]


@each_log
def test_no_file_is_left_open(log: KafkaLog) -> None:
    """Markers are looked for ahead of the records, and often found before the end of a file."""
    gc.collect()
    gc.disable()  # would close it by itself, some time
    try:
        dumped(log.directory)
        left = [each for each in gc.get_objects() if isinstance(each, FileIO) and not each.closed]
    finally:
        gc.enable()
    assert [each.name for each in left if str(each.name).startswith(str(log.directory))] == []


@each_log
def test_stats_count_what_the_dump_shows(log: KafkaLog) -> None:
    counted = stats(partition_in(log.directory), fail, lambda *_: None, workers=1)
    data = [record for record in dumped(log.directory) if record.control is None]
    assert counted.totals.records == len(data)
    assert counted.keys_exact
    assert counted.keys == len({record.key for record in data} - {None})
    assert counted.totals.null_keys == sum(record.key is None for record in data)
    assert counted.totals.tombstones == sum(
        record.value is None and record.key is not None for record in data
    )
    assert counted.totals.bytes == sum(path.stat().st_size for path in log.segments)
    assert counted.producers == len(
        {batch.producer_id for batch in dumped_batches(log.directory)} - {None}
    )


def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    (log, *_) = kafka_logs("txn-open", "4.3.1")
    verdict, _, _ = verified(log.directory)
    assert (verdict.open_transactions, verdict.committed) == (1, 1)
    assert verdict.last_stable_offset == 2
    assert verdict.next_offset == 5


def test_filters_leave_exactly_what_they_say() -> None:
    (log, *_) = kafka_logs("txn-segments", "4.3.1")
    everything = dumped(log.directory)

    def offsets(selection: Selection) -> list[int]:
        return [record.offset for record in dumped(log.directory, selection)]

    assert offsets(Selection(first_offset=3, last_offset=7)) == [3, 4, 5, 6, 7]
    assert offsets(Selection(key=b"a")) == [r.offset for r in everything if r.key == b"a"]
    assert offsets(Selection(outcome=1)) == [
        r.offset for r in everything if r.outcome == "committed"
    ]
    assert offsets(Selection(producer=everything[0].producer_id)) == [
        r.offset for r in everything if r.producer_id == everything[0].producer_id
    ]
    middle = everything[5].timestamp
    assert offsets(Selection(since_ms=middle)) == [
        r.offset for r in everything if r.timestamp >= middle
    ]
    assert offsets(Selection(until_ms=middle)) == [
        r.offset for r in everything if r.timestamp <= middle
    ]


@pytest.mark.parametrize("case", ["txn-interleaved", "txn-segments", "cleaned-txn.after"])
def test_one_flipped_bit_in_a_batch_is_one_finding(case: str, tmp_path: Path) -> None:
    """Whatever the batch held: nothing that depends on it is blamed on other batches or files."""
    (log,) = (log for log in LOGS if log.version == "4.3.1" and log.case == case)
    copy = shutil.copytree(log.directory, tmp_path / log.directory.name)
    for segment in sorted(copy.glob("*.log")):
        sound = segment.read_bytes()
        starts = [int(position) for position in scan(sound).position]
        for start, end in zip(starts, [*starts[1:], len(sound)], strict=True):
            for position in range(start + CRC_START, end, 5):
                damaged = bytearray(sound)
                damaged[position] ^= 1
                segment.write_bytes(damaged)
                verdict, findings, _ = verified(copy)
                assert [finding.code for finding in findings] == ["corrupt-batch"], position
                assert findings[0].where == f"{segment} at byte {start}"
                assert verdict.last_stable_offset is None
        segment.write_bytes(sound)
