"""The benchmarks themselves take minutes; that they add up correctly takes none."""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib import import_module
from io import StringIO

import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.__main__ import main
from benchmarks.machine import Machine
from benchmarks.measure import Answering, By, Measure, race, timed_process
from benchmarks.registry import BENCHMARKS, chosen
from benchmarks.result import (
    AtMostSeconds,
    RecordsPerSecond,
    Result,
    TimesAsFast,
    TimesTheMemory,
    Unit,
)
from benchmarks.segments import GIB, MIB, parse_size
from sexton.base.errors import PeerError

MACHINE = Machine(
    date="2026-11-15",
    cpu="A processor",
    cores=2,
    memory=GIB,
    system="Linux",
    load=0.0,
    versions={"sexton": "1"},
)
OURS = Measure(records=100_000_000, cpu_s=2.0, wall_s=4.0, peak=200 * MIB)
PEER = Measure(records=1_000_000, cpu_s=1.0, wall_s=1.0, peak=400 * MIB)


def result(by: By = By.CPU, goal: TimesAsFast | None = None, ours: Measure = OURS) -> Result:
    return Result("decode", "a case", by, ours, "a peer", PEER, goal)


def test_every_benchmark_of_the_registry_is_there() -> None:
    for benchmark in BENCHMARKS:
        module = import_module(benchmark.module)
        assert callable(module.run)
        assert module.__doc__


def test_benchmarks_are_chosen_by_name_and_a_wrong_name_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert chosen([]) == list(BENCHMARKS)
    assert [benchmark.name for benchmark in chosen(["verify", "decode"])] == ["verify", "decode"]
    with pytest.raises(SystemExit) as stopped:
        main(["spinning"])
    assert stopped.value.code == 2
    assert "no benchmark is called 'spinning'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"), [("1GiB", GIB), ("100 MiB", 100 * MIB), ("2g", 2 * GIB), ("4096", 4096)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_size_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="1GiB"):
        parse_size("much")


def test_a_ratio_is_per_record_and_by_the_clock_that_was_asked_for() -> None:
    assert result(By.CPU).ratio == pytest.approx(50)
    assert result(By.WALL).ratio == pytest.approx(25)
    assert result(By.MEMORY).ratio == pytest.approx(0.5)
    assert Result("decode", "alone", By.CPU, OURS).ratio is None


def test_a_goal_is_met_or_missed_and_no_goal_is_neither() -> None:
    assert result(goal=TimesAsFast(50)).met is True
    assert result(goal=TimesAsFast(50.1)).met is False
    assert result().met is None
    assert Result("decode", "alone", By.CPU, OURS, goal=RecordsPerSecond(50e6)).met is True
    assert Result("decode", "alone", By.WALL, OURS, goal=RecordsPerSecond(50e6)).met is False
    assert Result("start", "alone", By.WALL, OURS, goal=AtMostSeconds(4)).met is True
    assert Result("start", "alone", By.WALL, OURS, goal=AtMostSeconds(3.9)).met is False
    assert Result("v", "m", By.MEMORY, PEER, "p", OURS, TimesTheMemory(2)).met is True
    assert Result("v", "m", By.MEMORY, PEER, "p", OURS, TimesTheMemory(1.9)).met is False


def test_contestants_take_turns_and_the_best_round_counts() -> None:
    turns: list[str] = []
    times = {"a": iter([3.0, 1.0, 2.0]), "b": iter([5.0, 7.0, 6.0])}

    def round_of(name: str) -> Measure:
        turns.append(name)
        return Measure(1, next(times[name]), 1.0)

    best = race({name: partial(round_of, name) for name in times}, By.CPU, 3)
    assert turns == ["a", "b"] * 3
    assert (best["a"].cpu_s, best["b"].cpu_s) == (1.0, 5.0)


def test_a_contestant_that_takes_long_is_not_asked_again() -> None:
    asked = {"slow": 0, "quick": 0}

    def round_of(name: str, wall_s: float) -> Measure:
        asked[name] += 1
        return Measure(1, 1.0, wall_s)

    race({"slow": lambda: round_of("slow", 60), "quick": lambda: round_of("quick", 1)}, By.WALL, 4)
    assert asked == {"slow": 1, "quick": 4}
    race({"quick": lambda: round_of("quick", 1)}, By.WALL, 4, most_s=2)
    assert asked["quick"] == 4 + 2


def test_a_process_is_measured_without_the_memory_of_the_one_that_starts_it() -> None:
    held = bytearray(128 * MIB)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
    measure = timed_process([sys.executable, "-I", "-S", "-c", "print('hello')"], records=3)
    assert measure.records == 3
    assert measure.cpu_s > 0
    assert measure.wall_s > 0
    assert 0 < measure.peak < 64 * MIB


def test_a_process_that_fails_is_no_measurement() -> None:
    with pytest.raises(Exception, match="ended with 7"):
        timed_process([sys.executable, "-I", "-S", "-c", "raise SystemExit(7)"], records=1)


def test_a_warm_program_runs_one_round_for_each_line() -> None:
    code = "print('ready', flush=True)\nwhile input():\n print(10, 2000, 4000, 42, flush=True)"
    with Answering(
        [sys.executable, "-c", f"try:\n exec({code!r})\nexcept EOFError: pass"], 7
    ) as it:
        assert it.round() == Measure(10, 2e-6, 4e-6, 7)
        it.round()
    assert it.sums == [42, 42]


def test_a_warm_program_is_told_what_to_do_and_one_that_ends_is_no_measurement() -> None:
    code = "print('ready', flush=True); print(1, 2, 3, len(input()), flush=True)"
    with Answering([sys.executable, "-c", code]) as it:
        it.round("produce this")
        assert it.sums == [len("produce this")]
        with pytest.raises(PeerError, match="ended instead of doing `more`"):
            it.round("more")


@pytest.mark.parametrize(
    ("unit", "by", "told"),
    [
        (Unit.RECORDS, By.WALL, "0.5 M/s, 4 s"),
        (Unit.BYTES, By.WALL, "512 MB/s, 0.5 M/s"),
        (Unit.EVENTS, By.WALL, "500000/s"),
        (Unit.PER_GB, By.CPU, "0.977 s/GB"),
        (Unit.DURATION, By.WALL, "4 s"),
        (Unit.EVENTS, By.MEMORY, "1 MiB"),
    ],
)
def test_an_amount_is_told_in_its_unit(unit: Unit, by: By, told: str) -> None:
    measure = Measure(2_000_000, cpu_s=2.0, wall_s=4.0, size=2_048_000_000, peak=MIB)
    assert report.amount(measure, Result("cluster", "a case", by, measure, unit=unit)) == told


def test_a_short_time_is_told_in_milliseconds() -> None:
    ping = Measure(1, 0.0, 0.0014)
    result = Result("cluster", "a ping", By.WALL, ping, unit=Unit.DURATION)
    assert report.amount(ping, result) == "1.4 ms"


def test_missed_goals_and_lost_races_are_named() -> None:
    slow = Measure(records=1, cpu_s=10.0, wall_s=10.0)
    results = [result(goal=TimesAsFast(10)), result(goal=TimesAsFast(60)), result(ours=slow)]
    missed, lost, count = report.verdict(results)
    assert missed.startswith("missed: decode, a case beside a peer: 50×")
    assert missed.endswith("goal ≥ 60×")
    assert lost.startswith("slower than the peer: decode, a case")
    assert count == "1 of 2 goals met"


def test_a_report_has_a_row_for_each_result_and_says_what_was_missed() -> None:
    out = StringIO()
    report.print_report(Console(file=out, width=200), MACHINE, [result(goal=TimesAsFast(60))])
    text = out.getvalue()
    assert "2026-11-15 · A processor, 2 cores" in text
    assert "50 M/s, 2 s" in text
    assert "MISSED" in text


def test_ratios_keep_three_digits() -> None:
    assert [report.times(r) for r in (0.974, 1.5, 12.34, 268.4)] == [
        "0.974×",
        "1.5×",
        "12.3×",
        "268×",
    ]


def test_results_are_json_with_their_verdict() -> None:
    said = json.loads(json.dumps(report.as_json(MACHINE, [result(goal=TimesAsFast(10))])))
    assert said["machine"]["cores"] == 2
    (row,) = said["results"]
    assert (row["met"], row["goal"], row["by"]) == (True, "≥ 10×", "CPU")
    assert row["ratio"] == pytest.approx(50)


def test_a_busy_machine_is_said_to_be_busy() -> None:
    busy = Machine("2026-11-15", "A processor", 1, GIB, "Linux", 3.0, {})
    assert busy.busy
    assert "read wall times with care" in busy.lines()[-1]
    assert "1 core," in busy.lines()[0]
