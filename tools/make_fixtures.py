"""Have real Apache Kafka write small logs; keep them in tests/data with what it says of them.

    python -m tools.make_fixtures [VERSION...]

For each case: the partition's directory as a clean shutdown left it, and what Kafka's own
DumpLogSegments printed for each of its files. Cases that are cleaned are kept twice, `NAME.before`
and `NAME.after`. `data-directory` is a whole log directory with Kafka's own topics in it.

    tests/data/kafka-4.3.1/txn-open/txn-open-0/00000000000000000000.log ...
                                    dump.txt
    tests/data/kafka-4.3.1/data-directory/data/txn-open-0/00000000000000000000.log ...
                                          dump.txt
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig, dump_log_class, run_tool
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4, kafka_jars
from sexton.testing.waiting import until
from tools.fixture_cases import (
    BASE_CONFIGS,
    FIXED_START_MS,
    Case,
    Writer,
    all_cases,
    end_to_clean,
)
from tools.scripted_producer import ScriptedProducers

DATA = Path(__file__).parent.parent / "tests" / "data"
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
OPTIONS: dict[str, object] = {
    "log.cleaner.backoff.ms": 100,
    "log.initial.task.delay.ms": 0,
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "transaction.max.timeout.ms": 900_000,
}


def main(versions: list[str]) -> None:
    for version in versions or [KAFKA_4, KAFKA_3_9]:
        started = time.monotonic()
        target = DATA / f"kafka-{version}"
        shutil.rmtree(target, ignore_errors=True)
        make_cases(version, target)
        make_data_directory(version, target / "data-directory")
        dump_all(version, target)
        count = sum(1 for path in target.rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
        spent = time.monotonic() - started
        print(f"{target.name}: {count} files, {size} bytes, {spent:.1f} s")
    (DATA / "README.md").write_text(readme(), encoding="utf-8")


def make_cases(version: str, target: Path) -> None:
    cases = all_cases()
    with ApacheKafka(KafkaConfig(version=version, options=OPTIONS)) as kafka:
        clocks = write_all(kafka, cases)
        kafka.stop(1)
        for case in cases:
            if case.after_restart is None:
                keep(kafka, case, target, ".before" if case.cleanings else "")
        kafka.start()
        write_after_restart(kafka, cases, clocks)
        clean_all(kafka, [case for case in cases if case.cleanings], clocks)
        kafka.stop(1)
        for case in cases:
            if case.after_restart is not None or case.cleanings:
                keep(kafka, case, target, ".after" if case.cleanings else "")


def write_all(kafka: ApacheKafka, cases: list[Case]) -> dict[str, int]:
    """Write every case's topic; where each one's clock stands afterwards."""
    clocks = {}
    with ScriptedProducers(kafka) as producers:
        for case in cases:
            kafka.admin.create_topic(case.name, 1, {**BASE_CONFIGS, **case.configs})
            start_ms = int(time.time() * 1000) if case.live else FIXED_START_MS
            writer = Writer(producers, case.name, start_ms)
            case.write(writer)
            clocks[case.name] = writer.now_ms
    return clocks


def write_after_restart(kafka: ApacheKafka, cases: list[Case], clocks: dict[str, int]) -> None:
    with ScriptedProducers(kafka) as producers:
        for case in cases:
            if case.after_restart is not None:
                case.after_restart(Writer(producers, case.name, clocks[case.name]))


def clean_all(kafka: ApacheKafka, cases: list[Case], clocks: dict[str, int]) -> None:
    """Release the cleaner and let it pass as often as each case says."""
    for case in cases:
        kafka.admin.alter_topic(case.name, {"min.compaction.lag.ms": 0})
    for case in cases:
        await_cleaned(kafka, case.name)
    with ScriptedProducers(kafka) as producers:
        for number in (2, 3):
            # A pass begins only when there is something new: a record in a segment of its own.
            again = [case for case in cases if case.cleanings >= number]
            for case in again:
                writer = Writer(producers, case.name, clocks[case.name])
                end_to_clean(writer, writer.plain(f"again {number}"))
                clocks[case.name] = writer.now_ms
            for case in again:
                await_cleaned(kafka, case.name)


def await_cleaned(kafka: ApacheKafka, topic: str) -> None:
    """Wait until the cleaner's checkpoint has reached the active segment."""
    active = max(int(path.stem) for path in (kafka.data_directory() / f"{topic}-0").glob("*.log"))
    checkpoint = kafka.data_directory() / "cleaner-offset-checkpoint"

    def reached() -> bool:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        return f"{topic} 0 {active}" in lines

    until(reached, f"{topic} cleaned up to {active}", 60, lambda: kafka.nodes[1].log_tail())


def keep(kafka: ApacheKafka, case: Case, target: Path, suffix: str) -> None:
    source = kafka.data_directory() / f"{case.name}-0"
    copy = target / f"{case.name}{suffix}" / source.name
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.deleted"))


def make_data_directory(version: str, target: Path) -> None:
    """A whole log directory: a transactional and a compacted topic, and Kafka's own."""
    with ApacheKafka(KafkaConfig(version=version, options=OPTIONS)) as kafka:
        cases = {case.name: case for case in all_cases()}
        clocks = write_all(kafka, [cases["txn-open"], cases["cleaned-lz4"]])
        clean_all(kafka, [cases["cleaned-lz4"]], clocks)
        commit_offset(kafka, "cleaned-lz4")
        kafka.stop(1)
        ignored = shutil.ignore_patterns(".lock", "*.deleted")
        shutil.copytree(kafka.data_directory(), target / "data", ignore=ignored)


def commit_offset(kafka: ApacheKafka, topic: str) -> None:
    """A consumer group's offset, so that __consumer_offsets exists and holds something."""
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "readers"}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()


def dump_all(version: str, target: Path) -> None:
    """Keep what DumpLogSegments prints for every file that is not empty, one text a case."""
    silent = {case.name for case in all_cases() if not case.print_data} | {"data-directory"}
    for case in target.iterdir():
        (case / "dump.txt").touch()  # that of an empty log stays empty
    spoken: list[str] = []
    quiet: list[str] = []
    for path in sorted(target.rglob("*")):
        if path.suffix in DUMPED and path.stat().st_size > 0:
            name = path.relative_to(target)
            (quiet if name.parts[0] in silent else spoken).append(str(name))
    dump(version, target, spoken, "--print-data-log")
    dump(version, target, quiet)


def dump(version: str, target: Path, files: list[str], *options: str) -> None:
    """One JVM for all files; its output is cut where it says that it goes on to another case."""
    said = run_tool(
        kafka_jars(version),
        dump_log_class(version),
        "--deep-iteration",
        *options,
        "--files",
        ",".join(files),
        directory=target,
    )
    texts: dict[str, str] = {}
    for line in said.splitlines(keepends=True):
        if line.startswith("Dumping "):
            case, _, name = line.removeprefix("Dumping ").partition("/")
            line = f"Dumping {name}"
        texts[case] = texts.get(case, "") + line
    for case, text in texts.items():
        (target / case / "dump.txt").write_text(text, encoding="utf-8")


def readme() -> str:
    rows = []
    for case in all_cases():
        name = f"{case.name}.before`, `.after" if case.cleanings else case.name
        rows.append(f"| `{name}` | {case.holds} |\n")
    return README + "".join(rows)


README = """\
# Logs that Apache Kafka wrote

Made by `make fixtures` (tools/make_fixtures.py; do not edit, this page neither): real brokers of
two Kafka versions, real Java producers, the real log cleaner. `tests/kafka_data.py` reads them.

    kafka-VERSION/CASE/CASE-0/    a partition's directory as a clean shutdown left it
    kafka-VERSION/CASE/dump.txt   what DumpLogSegments --deep-iteration --print-data-log printed for
                                  each file that is not empty
    kafka-VERSION/data-directory/data/   a whole log directory, with Kafka's own topics: no data
                                  printed in its dump.txt, nor in that of the `large-` cases

Keys and values are the same in every run. So are times, unless the broker's clock is in play: with
LogAppendTime, transactions (their markers carry it) and producers that must not have expired.
Every topic has index.interval.bytes=1, for an index entry with every batch but the first, and
segment.ms of half an hour: a case rolls a segment by moving its own clock on by an hour.

Cases that were cleaned are there twice, `.before` and `.after` the cleaner's passes (each pass
after the first was set off by another record with key `end` in a new segment). In between, the
broker was restarted. delete.retention.ms is a day, except in `cleaned-tombstones-twice` and
`cleaned-txn-thrice`, where it is 0.

| case | holds |
| --- | --- |
"""


if __name__ == "__main__":
    main(sys.argv[1:])
