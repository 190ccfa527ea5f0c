"""The parts of the audit's benchmark, on a small cluster of ours and without Spark."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from benchmarks import audit, audit_connector, audit_last_per_key
from benchmarks.audit_growth import fold
from benchmarks.audit_processes import SparkProcesses, peak_memory
from benchmarks.audit_records import KEY_BYTES, RECORDS_A_KEY, VALUE_BYTES, Records
from benchmarks.audit_start import Start
from benchmarks.audit_topic import PARTITIONS, fill, is_everywhere, parts_of
from benchmarks.segments import MIB
from sexton.records import decode
from sexton.survey.plan import Wanted
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_survey
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until


def records_of(records: Records) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for chunk in records.chunks()
        for record in decode(chunk).records()
    ]


def test_every_key_comes_and_partitions_share_none() -> None:
    parts = parts_of(80_001)
    assert [(part.count, part.keys) for part in parts] == [(20_000, 2_500)] * PARTITIONS
    keys: set[bytes | None] = set()
    for part in parts:
        made = records_of(part)
        assert [offset for offset, _key, _value in made] == list(range(20_000))
        assert len({key for _offset, key, _value in made}) == 2_500
        keys |= {key for _offset, key, _value in made}
    assert len(keys) == PARTITIONS * 2_500
    assert {len(key or b"") for key in keys} == {KEY_BYTES}


def test_the_same_records_are_made_again_and_another_seed_makes_others() -> None:
    first = records_of(Records(40_000, 5_000))
    assert first == records_of(Records(40_000, 5_000))
    assert first != records_of(Records(40_000, 5_000, seed=2))
    assert {len(value or b"") for _offset, _key, value in first} == {VALUE_BYTES}


def test_a_filled_topic_is_audited_whole() -> None:
    parts = parts_of(16_000)
    with EmbeddedCluster(brokers=3) as kafka:
        kafka.create_topic("t", [[1, 2, 3]] * PARTITIONS, {"cleanup.policy": "compact"})
        asyncio.run(fill(kafka.bootstrap_servers, "t", parts))
        until(lambda: asyncio.run(is_everywhere(kafka.bootstrap_servers, "t", parts)), "replicas")
        survey = run_survey(Wanted(kafka.bootstrap_servers, topics=("t",)), LocalRunner())
    facts = [each for partition in survey.partitions for each in partition.facts.values()]
    assert sum(each.records for each in facts) == 3 * 16_000
    assert sum(each.keys for each in facts) == 3 * 16_000 // RECORDS_A_KEY
    assert not list(survey.findings)


def test_a_fold_alone_meets_every_key() -> None:
    told = fold(50_000)
    assert (told["keys"], told["readings"]) == (50_000 // RECORDS_A_KEY, 1)
    assert told["cpu_s"] > 0
    assert told["peak"] > 16 * MIB


@pytest.mark.parametrize(("expected", "code"), [(2, 0), (3, 1)])
def test_the_script_behind_kafka_dump_log_keeps_the_last_value_of_each_key(
    expected: int, code: int
) -> None:
    said = b"Dumping x.log\nbaseOffset: 0 lastOffset: 2 count: 3 isvalid: true\n" + b"".join(
        b"| offset: %d keySize: 1 valueSize: 1 headerKeys: [] key: %b payload: %b\n" % row
        for row in ((0, b"a", b"1"), (1, b"b", b"2"), (2, b"a", b"3"))
    )
    command = [sys.executable, audit_last_per_key.__file__, str(expected)]
    answer = subprocess.run(command, input=said, capture_output=True, check=False)
    assert (answer.returncode, answer.stdout) == (code, b"2\n")


def test_all_processes_below_java_are_charged_for() -> None:
    work = "sum(range(6_000_000)); held = bytearray(64 << 20); held[::4096] = bytes(16384)"
    code = (
        f"import subprocess, sys; work = {work!r}\n"
        "subprocess.run([sys.executable, '-c', work])\n"  # ended: charged to the one that waited
        "more = work + '; print(1, flush=True); input()'\n"
        "subprocess.run([sys.executable, '-c', more])"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        spark = SparkProcesses(process.pid)
        nobody = SparkProcesses(-1)  # no such process: only this one is counted
        assert spark.cpu_s() - nobody.cpu_s() > 0.05
        assert spark.peak_of_a_worker() > 64 * MIB
        process.communicate(b"\n")
    assert peak_memory(process.pid) == 0


def test_the_share_of_the_start_is_what_is_not_the_audit() -> None:
    assert Start(session_s=6.0, first_s=3.0, warm_s=1.0).share == pytest.approx(8 / 9)


def test_no_name_would_break_the_table_of_the_page() -> None:
    names = [audit.DUMP, audit.ON_SPARK, audit.IN_PROCESS, audit_connector.NAME]
    assert not [name for name in names if "|" in name]
