"""From nothing to the first acknowledged record, and the memory that this takes.

Ours *in process* is the embedded cluster in a Python that has imported it; *from the shell* is
`sexton up`, with the start of Python and all imports. Kafka's storage was formatted before its
clock starts, and its JVM has the harness's fast start (the cheap compiler, a heap of 256 MiB,
classes from an archive), the quickest that we know of; as operators start it is shown too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from time import perf_counter

from benchmarks.contestants import FAST_KAFKA, KAFKA, contestant, kafka_config, sexton_up
from benchmarks.first_record import first_record
from benchmarks.measure import By, Measure, race, usual_environment
from benchmarks.registry import Setting
from benchmarks.result import AtMostSeconds, Result, TimesAsFast, TimesTheMemory, Unit
from sexton.testing.apache_kafka import ApacheKafka

MOST_ROUNDS = 2  # three of Kafka's nodes take ten seconds
QUICK = AtMostSeconds(0.3)
QUICKER = TimesAsFast(15)
SMALLER = TimesTheMemory(0.25)
IN_PROCESS, FROM_SHELL = "in process", "from the shell, `sexton up`"


def start(setting: Setting, brokers: int) -> Iterator[Result]:
    several = brokers > 1
    kafkas = [FAST_KAFKA, KAFKA] if several else [FAST_KAFKA]
    best = race(
        {
            IN_PROCESS: partial(_in_process, brokers),
            FROM_SHELL: partial(_from_shell, brokers),
            **{name: partial(_kafka, name, brokers, keep=setting.keep) for name in kafkas},
        },
        By.WALL,
        min(setting.repeat, MOST_ROUNDS),
    )
    case = f"{brokers} broker{'s' * several}, start to first record"
    alone = partial(Result, "cluster", by=By.WALL, unit=Unit.DURATION)
    if several:
        yield alone(case=f"{case}, {IN_PROCESS}", ours=best[IN_PROCESS], goal=QUICK)
    for how in (IN_PROCESS, FROM_SHELL):
        for name in kafkas:
            goal = QUICKER if several and how == IN_PROCESS and name == FAST_KAFKA else None
            beside = partial(alone, case=f"{case}, {how}", ours=best[how])
            yield beside(peer_name=name, peer=best[name], goal=goal)
    for name in kafkas:
        memory = f"{brokers} broker{'s' * several}, memory after the first record"
        goal_ = SMALLER if several else None
        yield Result("cluster", memory, By.MEMORY, best[FROM_SHELL], name, best[name], goal_)


def _in_process(brokers: int) -> Measure:
    command = [sys.executable, "-m", "benchmarks.first_record", str(brokers)]
    answer = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=usual_environment()
    )
    return Measure(1, 0.0, float(answer.stdout))


def _from_shell(brokers: int) -> Measure:
    began = perf_counter()
    with sexton_up(brokers) as ours:
        first_record(ours.bootstrap, brokers)
        taken = perf_counter() - began
        return Measure(1, ours.cpu_s, taken, peak=ours.memory)


def _kafka(name: str, brokers: int, *, keep: bool) -> Measure:
    kafka = ApacheKafka(kafka_config(name, brokers, keep=keep))
    try:
        kafka.format()
        began = perf_counter()
        kafka.start()
        first_record(kafka.bootstrap, brokers)
        taken = perf_counter() - began
        running = contestant(name, kafka)
        return Measure(1, running.cpu_s, taken, peak=running.memory)
    finally:
        kafka.close()
