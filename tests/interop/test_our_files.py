"""Does Apache Kafka take the files that we write for its own?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from sexton.base.partitions import TopicPartition
from sexton.log.checkpoints import pack_offsets, parse_metadata, parse_offsets
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.log.names import CLEAN_SHUTDOWN, HIGH_WATERMARKS, METADATA, RECOVERY_POINTS
from sexton.log.real_disk import RealDisk
from sexton.log.recovery import open_log
from sexton.records.columns import Record
from sexton.testing.apache_kafka import ApacheKafka, dump_log_class, tool_command
from sexton.testing.kafka_jars import KafkaJars
from tests.dump_text import comparable, dump_file
from tests.our_logs import OurLog, write_our_log

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

CONFIG = LogConfig(index_interval_bytes=1, segment_bytes=1 << 20)
# 4.x takes every segment for the first of its log, Kafka's own as well as ours.
FIRST_OFFSET = re.compile(
    r"Non-consecutive offsets in .*/0*([1-9]\d*)\.log\n  -1 is followed by \1\n"
)
TOPIC = {"retention.ms": -1, "segment.ms": 2**62, "index.interval.bytes": 1}


@pytest.fixture(scope="module")
def our_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition's directory that we wrote and closed."""
    root = tmp_path_factory.mktemp("ours")
    opened = open_log(RealDisk(root), "ours-0", CONFIG, now_ms=0)
    ours = write_our_log(opened.log, leader_epoch=0)
    opened.log.close(ours.now_ms)
    return root / "ours-0"


def ask_dump_log(jars: KafkaJars, directory: Path, *arguments: str) -> tuple[str, str]:
    """What DumpLogSegments prints, and what it complains of."""
    command = tool_command(jars, dump_log_class(jars.version), arguments)
    done = subprocess.run(command, capture_output=True, cwd=directory, timeout=120, check=True)
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def dump(jars: KafkaJars, directory: Path, suffixes: set[str], *options: str) -> dict[str, str]:
    """What DumpLogSegments says of each file, without a complaint."""
    files = sorted(p.name for p in directory.iterdir() if p.suffix in suffixes and p.stat().st_size)
    said, complaints = ask_dump_log(jars, directory, *options, "--files", ",".join(files))
    assert FIRST_OFFSET.sub("", complaints) == ""
    texts: dict[str, str] = {}
    for line in said.split("\n")[:-1]:
        if line.startswith("Dumping "):
            name = line.removeprefix("Dumping ")
            texts[name] = ""
        else:
            texts[name] += f"{line}\n"
    assert list(texts) == files
    return texts


def test_kafka_dump_log_reads_in_our_files_what_we_read(jars: KafkaJars, our_files: Path) -> None:
    kinds = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    told = dump(jars, our_files, kinds, "--deep-iteration", "--print-data-log")
    assert {Path(name).suffix for name in told} == kinds
    for name, text in told.items():
        assert comparable(text) == dump_file(our_files / name), name


def test_kafka_dump_log_finds_nothing_wrong_with_our_indexes(
    jars: KafkaJars, our_files: Path
) -> None:
    indexes = {".index", ".timeindex"}
    for name, text in dump(jars, our_files, indexes, "--index-sanity-check").items():
        assert text == f"{name} passed sanity check.\n"
    told = dump(jars, our_files, indexes, "--verify-index-only")
    assert set(told.values()) == {""}, "it prints what does not match"


def test_kafka_dump_log_would_say_if_an_index_were_wrong(
    jars: KafkaJars, our_files: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(our_files, tmp_path / "wrong-0")
    wrong = copy / "00000000000000000000.index"
    data = bytearray(wrong.read_bytes())
    data[3] ^= 1  # of the first entry's offset
    wrong.write_bytes(data)
    said, complaints = ask_dump_log(jars, copy, "--verify-index-only", "--files", wrong.name)
    assert said == f"Dumping {wrong.name}\n"
    assert complaints.startswith("Mismatches in :")


# ── a broker on files that we wrote ──


@pytest.fixture(scope="module", params=["kafka4", "kafka39"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[ApacheKafka, dict[str, OurLog]]]:
    """A broker that was stopped, given logs of ours, and started again.

    `replaced`  the partition's directory is ours from the start
    `continued` Kafka wrote the beginning; we opened its whole data directory and appended
    """
    kafka: ApacheKafka = request.getfixturevalue(request.param)
    for topic in ("replaced", "continued"):
        kafka.admin.create_topic(topic, 1, TOPIC)
    before = produce(kafka, "continued")
    kafka.stop(1)
    root = kafka.data_directory()
    ours = {"replaced": replace_partition(root, "replaced")}
    ours["continued"] = continue_partition(root, "continued")
    ours["continued"].everything[:0] = before
    ours["continued"].committed[:0] = before
    kafka.start(1)
    yield kafka, ours
    for topic in ("replaced", "continued"):
        kafka.admin.delete_topic(topic)


def produce(kafka: ApacheKafka, topic: str) -> list[Record]:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    records = [Record(n, 1000 + n, b"k%d" % n, b"by Kafka", ()) for n in range(5)]
    for record in records:
        producer.produce(topic, record.value, record.key, timestamp=record.timestamp)
    assert producer.flush(30) == 0
    return records


def replace_partition(root: Path, topic: str) -> OurLog:
    """Our directory in place of the one that Kafka made, with the topic's id."""
    partition = TopicPartition(topic, 0)
    metadata = root / str(partition) / METADATA
    topic_id = parse_metadata(metadata.read_bytes(), str(metadata))
    shutil.rmtree(root / str(partition))
    scratch = root.parent / "scratch"
    scratch.mkdir()
    directory = DataDirectory.open(RealDisk(scratch), lambda _: CONFIG, now_ms=0)
    log = directory.create(partition, topic_id, CONFIG, now_ms=0)
    ours = write_our_log(log, leader_epoch=0)
    directory.close(ours.now_ms)
    shutil.move(scratch / str(partition), root / str(partition))
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        offsets = parse_offsets((root / name).read_bytes(), name)
        offsets[partition] = log.end_offset
        (root / name).write_bytes(pack_offsets(offsets))
    shutil.rmtree(scratch)
    return ours


def continue_partition(root: Path, topic: str) -> OurLog:
    """Opens all that Kafka wrote, as a broker of ours would, and goes on with one partition."""
    shutdown = json.loads((root / CLEAN_SHUTDOWN).read_text())
    now_ms = int(time.time() * 1000)
    directory = DataDirectory.open(RealDisk(root), lambda _: CONFIG, now_ms)
    assert directory.was_clean
    assert directory.findings == []
    log = directory.logs[TopicPartition(topic, 0)]
    assert (log.log_start_offset, log.end_offset) == (0, 5)
    ours = write_our_log(log, leader_epoch=log.epochs.latest)
    log.advance_high_watermark(log.end_offset)
    directory.close(now_ms, broker_epoch=shutdown["brokerEpoch"])
    return ours


def consume(kafka: ApacheKafka, topic: str, isolation: str) -> list[Record]:
    """All that a consumer gets from the beginning to the end of the partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([ClientPartition(topic, 0, OFFSET_BEGINNING)])
    records: list[Record] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"nothing for 30 s after {len(records)} records"
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            break
        assert error is None, error
        records.append(as_record(message))
    consumer.close()
    return records


def as_record(message: Message) -> Record:
    offset = message.offset()
    assert offset is not None
    headers: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Record(offset, message.timestamp()[1], key, value, tuple(headers))


@pytest.mark.parametrize("topic", ["replaced", "continued"])
def test_a_broker_serves_our_log_whole(
    served: tuple[ApacheKafka, dict[str, OurLog]], topic: str
) -> None:
    kafka, ours = served
    assert consume(kafka, topic, "read_uncommitted") == ours[topic].everything


@pytest.mark.parametrize("topic", ["replaced", "continued"])
def test_a_broker_leaves_out_what_our_log_says_was_aborted_or_is_open(
    served: tuple[ApacheKafka, dict[str, OurLog]], topic: str
) -> None:
    kafka, ours = served
    assert consume(kafka, topic, "read_committed") == ours[topic].committed


def test_a_broker_changes_nothing_in_our_segments_and_complains_of_nothing(
    served: tuple[ApacheKafka, dict[str, OurLog]],
) -> None:
    kafka, ours = served
    directory = kafka.data_directory() / "replaced-0"
    for segment in ours["replaced"].log.segments:
        path = directory / f"{segment.base_offset:020d}.log"
        assert path.stat().st_size == segment.log.size
    log = kafka.nodes[1].log_file.read_text(errors="replace")
    loaded = [line for line in log.splitlines() if "replaced-0" in line or "continued-0" in line]
    assert any("producer snapshot" in line for line in loaded)
    for line in loaded:
        for word in ("WARN", "ERROR", "orrupt", "ecovering segment"):
            assert word not in line, line
