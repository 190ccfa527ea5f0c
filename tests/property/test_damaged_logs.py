"""Whatever becomes of a log's files, an inspection ends, and says something about it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sexton.base.findings import Finding
from sexton.log.inspect.blocks import blocks
from sexton.log.inspect.dump import DumpedRecord, batches, records
from sexton.log.inspect.paths import find
from sexton.log.inspect.selection import Selection
from sexton.log.inspect.stats import stats
from sexton.log.inspect.verify import verify
from tests.kafka_data import KafkaLog, kafka_logs
from tests.mutations import damaged, mutated

logs = st.sampled_from(kafka_logs())
seeds = st.integers(0, 2**64 - 1)
Told = Finding | tuple[str, str]


def inspected(directory: Path) -> tuple[list[Told], list[DumpedRecord]]:
    """Everything that any command says, and every record that is shown."""
    told: list[Told] = []
    shown: list[DumpedRecord] = []
    for partition in find([directory]).partitions:
        verify(partition, told.append, lambda *skip: told.append(skip), workers=1)
        stats(partition, told.append, lambda *skip: told.append(skip), workers=1)
        for block in blocks(partition, Selection(), told.append, lambda *skip: told.append(skip)):
            shown += records(block)
            list(batches(block))
    return told, shown


def with_one_file_changed(log: KafkaLog, random: Random, target: Path) -> Path:
    copy = target / log.directory.name
    shutil.copytree(log.directory, copy)
    path = random.choice(sorted(copy.iterdir()))
    change = random.choice([damaged, mutated]) if path.suffix == ".log" else damaged
    path.write_bytes(change(random, path.read_bytes()))
    return path


@given(logs, seeds)
def test_an_inspection_of_a_damaged_log_comes_to_an_end(log: KafkaLog, seed: int) -> None:
    with tempfile.TemporaryDirectory() as target:
        path = with_one_file_changed(log, Random(seed), Path(target))
        told, _ = inspected(path.parent)
        for finding in told:
            if isinstance(finding, Finding):
                assert str(path.parent) in finding.where
                assert finding.message


@given(logs, seeds)
def test_a_flipped_bit_never_shows_another_record(log: KafkaLog, seed: int) -> None:
    """Checksums cover all of a record but its batch's base offset."""
    random = Random(seed)
    segment = random.choice(log.segments)
    if not segment.stat().st_size:
        return
    with tempfile.TemporaryDirectory() as target:
        copy = Path(target) / log.directory.name
        shutil.copytree(log.directory, copy)
        data = bytearray(segment.read_bytes())
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        (copy / segment.name).write_bytes(data)
        _, sound = inspected(log.directory)
        _, shown = inspected(copy)
    known = {(record.key, record.value, record.timestamp) for record in sound}
    assert {(record.key, record.value, record.timestamp) for record in shown} <= known
