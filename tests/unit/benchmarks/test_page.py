"""The page of results: the last of each benchmark, their summary, and the older ones elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import page
from benchmarks.machine import Machine
from benchmarks.measure import By, Measure
from benchmarks.page import HISTORY, PAGE, Recorded, record, summary
from benchmarks.registry import BENCHMARKS
from benchmarks.report import as_recorded
from benchmarks.result import AtMostSeconds, Result, TimesAsFast
from benchmarks.segments import GIB, MIB

EMPTY = "# Benchmarks\n\n## How fast is it?\n\nold\n\n## What is measured\n\nMuch.\n\n## Results\n"


def machine(date: str = "2026-11-15", load: float = 0.0) -> Machine:
    return Machine(date, "A processor", 2, GIB, "Linux", load, {"sexton": "1"})


def raced(
    seconds: float, benchmark: str = "decode", case: str = "a case", goal: float | None = None
) -> Result:
    """Beside a peer that takes a second."""
    ours, peer = Measure(1_000_000, seconds, seconds), Measure(1_000_000, 1.0, 1.0)
    wanted = TimesAsFast(goal) if goal else None
    return Result(benchmark, case, By.CPU, ours, "a peer", peer, wanted)


@pytest.fixture
def pages(tmp_path: Path) -> tuple[Path, Path]:
    written, history = tmp_path / "benchmarks.md", tmp_path / "history.md"
    written.write_text(EMPTY, encoding="utf-8")
    history.write_text("# Older\n", encoding="utf-8")
    return written, history


def test_the_page_has_the_last_result_and_the_history_those_before(
    pages: tuple[Path, Path],
) -> None:
    for day, seconds in [("2026-11-15", 0.5), ("2026-11-16", 0.25), ("2026-11-17", 2.0)]:
        record(*pages, as_recorded(machine(day), GIB, [raced(seconds)]))
    now, before = (path.read_text(encoding="utf-8") for path in pages)
    assert now.count("### decode\n\n2026-11-17: 1024 MiB of segments, on A processor, 2 co") == 1
    assert now.count("| decode | a case | CPU |") == 1
    assert re.findall(r"(?m)^## (.*)$", before) == ["2026-11-15 · decode", "2026-11-16 · decode"]
    assert before.startswith("# Older\n\n## 2026-11-15 · decode\n\n1024 MiB of segments, on A pro")
    assert re.findall(r"\| ([\d.]+×) \| - \|", before) == ["2×", "4×"]
    assert "\n## What is measured\n\nMuch.\n\n## Results\n\n### decode\n" in now
    assert "\nold\n" not in now


def test_a_run_of_several_is_kept_as_several_in_the_order_of_the_registry(
    pages: tuple[Path, Path],
) -> None:
    run = [raced(0.5, "verify", goal=3), raced(0.5, "decode", goal=1), raced(2.0, "encode")]
    record(*pages, as_recorded(machine(), GIB, run))
    record(*pages, as_recorded(machine("2026-11-16"), GIB, [raced(0.1, "encode")]))
    now, before = (path.read_text(encoding="utf-8") for path in pages)
    assert re.findall(r"(?m)^### (.*)\n\n([\d-]+):", now) == [
        ("decode", "2026-11-15"), ("encode", "2026-11-16"), ("verify", "2026-11-15"),
    ]  # fmt: skip
    assert re.findall(r"(?m)^## (.*)$", before) == ["2026-11-15 · encode"]
    results = now.partition("## Results\n")[2]
    assert re.findall(r"\* (\d of \d) goals met", results) == ["1 of 1", "0 of 0", "0 of 1"]
    assert results.count("missed: ") == 1


def test_the_same_benchmark_twice_in_one_run_loses_neither(pages: tuple[Path, Path]) -> None:
    run = [raced(0.5), raced(0.5, "encode"), raced(0.25)]
    record(*pages, as_recorded(machine(), GIB, run))
    now, before = (path.read_text(encoding="utf-8") for path in pages)
    assert now.count("\n### decode\n") == before.count(" · decode\n") == 1


def test_a_run_with_record_keeps_both_pages(
    pages: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "PAGE", pages[0])
    monkeypatch.setattr(command, "HISTORY", pages[1])
    monkeypatch.setattr(command, "this_machine", machine)
    monkeypatch.setattr(command, "_run", lambda *_: [raced(0.5, goal=1)])
    assert [command.main(["decode", *more]) for more in (["--record"], ["--record"], [])] == [0] * 3
    now, before = (path.read_text(encoding="utf-8") for path in pages)
    assert now.count("\n### decode\n") == before.count(" · decode\n") == 1
    assert "sexton was at least as fast 1 times and slower 0" in now


def test_the_summary_has_the_worst_case_and_the_best_beside_each_peer() -> None:
    run = [raced(0.5, case="middling", goal=1), raced(2.0, case="lost", goal=1), raced(0.1)]
    said = summary(as_recorded(machine(load=9), GIB, run))
    assert "In 3 timed comparisons, sexton was at least as fast 2 times and slower 1\n" in said
    assert "it met 1 of 2, **1 missed**." in said
    (line,) = re.findall(r"(?m)^\| \[decode\].*$", said)
    assert line == (
        "| [decode](#decode) | a peer | **0.5×**, 0.5 M/s against 1 M/s: lost (CPU) "
        "| **10×**, 10 M/s against 1 M/s: a case (CPU) | 1 of 2, **1 missed** | 2026-11-15, busy |"
    )


def test_more_memory_is_worse_and_no_race_and_a_goal_without_a_peer_has_its_line() -> None:
    small, large = (Measure(1, 1.0, 1.0, peak=size * MIB) for size in (1, 4))
    run = [
        Result("clean", "lean", By.MEMORY, small, "a peer", large),
        Result("clean", "fat", By.MEMORY, large, "a peer", small),
        Result("clean", "alone", By.WALL, small, goal=AtMostSeconds(0.5)),
        Result("clean", "only to be known", By.WALL, small),
    ]
    said = summary(as_recorded(machine(), GIB, run))
    assert "In 0 timed comparisons" in said
    alone, memory = re.findall(r"(?m)^\| \[clean\].*$", said)
    assert "| - | **1e-06 M/s**, goal ≤ 0.5 s: alone (wall) |  | 0 of 1, **1 missed** |" in alone
    assert "| **4×**, 4 MiB against 1 MiB: fat (memory) | **0.25×**, 1 MiB against" in memory


def test_the_page_of_the_project_is_what_its_results_say(pages: tuple[Path, Path]) -> None:
    """The summary equals its tables, and each benchmark is there exactly once."""
    for ours, copy in zip((PAGE, HISTORY), pages, strict=True):
        copy.write_text(ours.read_text(encoding="utf-8"), encoding="utf-8")
    record(*pages, [])
    for ours, copy in zip((PAGE, HISTORY), pages, strict=True):
        written = ours.read_text(encoding="utf-8")
        assert written == copy.read_text(encoding="utf-8"), "out of date: run `make pages`"
    _, results = page._read(PAGE)
    assert [each.benchmark for each in results] == [each.name for each in BENCHMARKS]
    tables = PAGE.read_text(encoding="utf-8").partition("## Results\n")[2]
    lines = [line for line in tables.splitlines() if line.startswith("| ")]
    assert sum(2 + len(each.rows) for each in results) == len(lines)  # none was passed over


def test_no_result_of_the_page_is_older_than_one_of_the_history() -> None:
    _, results = page._read(PAGE)
    last = {each.benchmark: each.date for each in results}
    older = re.findall(r"(?m)^## ([\d-]+) · (\w+)$", HISTORY.read_text(encoding="utf-8"))
    assert older and all(date <= last[name] for date, name in older)


def test_a_damaged_row_is_not_passed_over() -> None:
    broken = Recorded("decode", "2026-11-15", "| decode | a case | CPU | 1 M/s |")
    with pytest.raises(TypeError):
        summary([broken])
