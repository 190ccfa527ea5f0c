"""How do time and memory grow with a log? The fold of one replica alone, on records made in memory.

    python -m benchmarks.audit_growth RECORDS      in a process of its own, for its memory

There are eight records a key, as in the topic. Making records is not counted. Up to six million
keys fit in the table of a task; where there are more, the log is read again for the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from time import thread_time

from benchmarks.audit_processes import peak_memory
from benchmarks.audit_records import RECORDS_A_KEY, Records
from benchmarks.measure import By, Measure, usual_environment
from benchmarks.result import Result
from sexton.audit.facts import Scope
from sexton.audit.fold import Fold
from sexton.base.partitions import TopicPartition

SHARES = (1 / 8, 1, 50 / 8)  # of the topic's records: 1, 8 and 50 millions of 8


def growth(records: int) -> Iterator[Result]:
    """From an eighth of the topic's records to six times as many."""
    for share in SHARES:
        count = int(records * share)
        answer = subprocess.run(
            [sys.executable, "-m", "benchmarks.audit_growth", str(count)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=usual_environment(),
        )
        told = json.loads(answer.stdout)
        measure = Measure(count, told["cpu_s"], told["cpu_s"], told["bytes"], told["peak"])
        readings = told["readings"]
        often = "once" if readings == 1 else f"{readings} times"
        case = f"fold alone, {count / 1e6:g} M records, {told['keys'] / 1e6:g} M keys, read {often}"
        yield Result("audit", case, By.CPU, measure)
        yield Result("audit", case, By.MEMORY, measure)


def fold(count: int) -> dict[str, float]:
    """What it cost, and what it found."""
    records = Records(count, count // RECORDS_A_KEY)
    folding = Fold(Scope(TopicPartition("grown", 0), 0, count, compacted=True, seed=7))
    cpu_s, size, readings = 0.0, 0, 0
    while True:
        readings += 1
        for chunk in records.chunks():
            began = thread_time()
            folding.take(chunk.data, ())
            cpu_s += thread_time() - began
            size += len(chunk)
        began = thread_time()
        more = folding.again()
        cpu_s += thread_time() - began
        if not more:
            break
    facts = folding.facts(
        1, log_start=0, last_stable=count, high_watermark=count, log_end=count, read_to=count
    )
    assert (facts.records, facts.keys) == (count, records.keys), "every key was met"
    return {
        "cpu_s": cpu_s,
        "bytes": size // readings,
        "peak": peak_memory(),
        "keys": facts.keys,
        "readings": readings,
    }


if __name__ == "__main__":
    print(json.dumps(fold(int(sys.argv[1]))))
