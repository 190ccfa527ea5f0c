"""What does the start of Spark cost an audit? `python -m benchmarks.audit_start BOOTSTRAP TOPIC`

A process that has never seen Spark starts a session as `sexton audit` does, and audits a topic
twice. The first time Spark also starts Pythons, and those load our code; the second time all is
there. Prints the seconds of each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from time import perf_counter

from benchmarks.measure import By, Measure, usual_environment
from benchmarks.result import Result, Unit
from sexton.spark.runner import SparkRunner
from sexton.spark.session import spark_session
from sexton.survey.plan import Wanted
from sexton.survey.survey import run_survey


@dataclass(frozen=True, slots=True)
class Start:
    session_s: float
    first_s: float  # the first audit
    warm_s: float  # the second one

    @property
    def share(self) -> float:
        """Of a cold audit, what is not the audit."""
        cold = self.session_s + self.first_s
        return (cold - self.warm_s) / cold


def start_up(bootstrap: str, topic: str, what: str) -> Iterator[Result]:
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.audit_start", bootstrap, topic],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=usual_environment(),
    )
    start = Start(**json.loads(answer.stdout.splitlines()[-1]))
    row = partial(Result, "audit", by=By.WALL, unit=Unit.DURATION)
    yield row("a Spark session comes up", ours=Measure(1, 0.0, start.session_s))
    workers_s = max(0.0, start.first_s - start.warm_s)
    yield row("its first Pythons come up, with our kernels", ours=Measure(1, 0.0, workers_s))
    yield row(
        f"{what}, on Spark, cold: {start.share:.0%} of it is Spark's start",
        ours=Measure(1, 0.0, start.session_s + start.first_s),
    )


def _main(bootstrap: str, topic: str) -> None:
    wanted = Wanted(bootstrap, topics=(topic,))
    times = [perf_counter()]
    with spark_session() as spark:
        runner = SparkRunner(spark)
        times.append(perf_counter())
        for _ in range(2):
            run_survey(wanted, runner)
            times.append(perf_counter())
    session_s, first_s, warm_s = (after - before for before, after in pairwise(times))
    print(json.dumps({"session_s": session_s, "first_s": first_s, "warm_s": warm_s}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
