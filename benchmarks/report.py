"""Results as a table for people, as JSON for programs, and as Markdown to be kept.

The same cells everywhere. Goals that were missed are named in words below the table, first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.machine import Machine
from benchmarks.measure import By, Measure
from benchmarks.page import Recorded
from benchmarks.result import Result, Unit

HEADINGS = ("benchmark", "case", "by", "ours", "peer", "theirs", "ratio", "goal", "")
_TEXT = {"benchmark", "case", "by", "peer", ""}


def cells(result: Result) -> tuple[str, ...]:
    """One row, in the order of HEADINGS."""
    return (
        result.benchmark,
        result.case,
        result.by,
        amount(result.ours, result),
        result.peer_name or "-",
        amount(result.peer, result) if result.peer else "-",
        times(result.ratio) if result.ratio is not None else "-",
        str(result.goal) if result.goal else "-",
        {True: "met", False: "MISSED", None: ""}[result.met],
    )


def amount(measure: Measure, result: Result) -> str:
    """As the result's unit has it: "52.1 M/s, 0.164 s"."""
    by = result.by
    if by is By.MEMORY:
        return f"{measure.peak / (1 << 20):.0f} MiB"
    seconds, rate = measure.seconds(by), measure.rate(by)
    match result.unit:
        case Unit.RECORDS:
            return f"{rate / 1e6:.3g} M/s, {seconds:.3g} s"
        case Unit.BYTES:
            return f"{_digits(measure.size / seconds / 1e6)} MB/s, {rate / 1e6:.3g} M/s"
        case Unit.EVENTS:
            return f"{_digits(rate)}/s"
        case Unit.PER_GB:
            return f"{_digits(seconds / (measure.size / 1e9))} s/GB"
        case Unit.DURATION:
            return f"{seconds * 1e3:.3g} ms" if seconds < 0.1 else f"{seconds:.3g} s"


def times(ratio: float) -> str:
    """Three digits, so that 0.97 does not become 1."""
    return f"{_digits(ratio)}×"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def verdict(results: Sequence[Result]) -> list[str]:
    """Missed goals by name, lost races by name, and how many goals were met."""
    missed = [result for result in results if result.met is False]
    goals = [result for result in results if result.met is not None]
    lines = [f"missed: {_in_words(result)}, goal {result.goal}" for result in missed]
    for result in results:
        slower = result.ratio is not None and result.by is not By.MEMORY and result.ratio < 1
        if slower and result not in missed:
            lines.append(f"slower than the peer: {_in_words(result)}")
    return [*lines, f"{len(goals) - len(missed)} of {len(goals)} goals met"]


def _in_words(result: Result) -> str:
    beside = f" beside {result.peer_name}" if result.peer_name else ""
    ratio = f"{times(result.ratio)}, " if result.ratio is not None else ""
    return (
        f"{result.benchmark}, {result.case}{beside}: {ratio}"
        f"{amount(result.ours, result)} ({result.by})"
    )


def print_report(console: Console, machine: Machine, results: Sequence[Result]) -> None:
    for line in machine.lines():
        console.print(line, highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in _TEXT else "right")
    for result in results:
        style = "red" if result.met is False else None
        table.add_row(*cells(result), style=style)
    console.print(table)
    for line in verdict(results):
        console.print(line, highlight=False, style="red" if line.startswith("missed") else None)


def as_json(machine: Machine, results: Sequence[Result]) -> dict[str, Any]:
    return {
        "machine": dataclasses.asdict(machine),
        "results": [
            {
                **dataclasses.asdict(result),
                "goal": str(result.goal) if result.goal else None,
                "ratio": result.ratio,
                "met": result.met,
            }
            for result in results
        ],
    }


def as_recorded(machine: Machine, size: int, results: Sequence[Result]) -> list[Recorded]:
    """What docs/benchmarks.md keeps of a run: a section for each benchmark."""
    return [
        Recorded(name, machine.date, _section(machine, size, list(rows)))
        for name, rows in groupby(results, key=lambda result: result.benchmark)
    ]


def _section(machine: Machine, size: int, results: Sequence[Result]) -> str:
    head, *rest = machine.lines()
    rows = [HEADINGS, tuple("---" for _ in HEADINGS), *(cells(result) for result in results)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    notes = "\n".join(f"* {line}" for line in [*rest, *verdict(results)])
    on = f"{size / (1 << 20):.0f} MiB of segments, on {head.partition(' · ')[2]}."
    return f"{on}\n\n{notes}\n\n{table}"
