"""Where do recorded results stay, and how does a reader find the one that counts?

On two pages. `docs/benchmarks.md` has the last result of each benchmark, and at its top a summary
that is made from nothing but these results; whatever a newer result replaces moves to the end of
`docs/internals/benchmarks-history.md`:

    a run ──record──▶ docs/benchmarks.md ──what it replaces──▶ docs/internals/benchmarks-history.md

The summary has a line for each peer, with the worst case and the best, so that it cannot be kinder
than the tables below it. `python -m benchmarks.page` writes it again (`make pages` does that).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import By
from benchmarks.registry import BENCHMARKS

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "benchmarks.md"
HISTORY = DOCS / "internals" / "benchmarks-history.md"
SUMMARY, RESULTS = "## How fast is it?\n", "## Results\n"  # headings, and what follows is generated
COLUMNS = ("benchmark", "beside", "at worst", "at best", "goals met", "measured")


class Row(NamedTuple):
    """A line of a table, as `report.cells` has written it."""

    benchmark: str
    case: str
    by: str
    ours: str
    peer: str
    theirs: str
    ratio: str
    goal: str
    met: str

    @property
    def how_good(self) -> float:
        """To compare rows beside one peer. More memory is worse."""
        times = float(self.ratio.rstrip("×"))
        return -times if self.by == By.MEMORY else times

    @property
    def lost(self) -> bool:
        return self.peer != "-" and self.by != By.MEMORY and self.how_good < 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one benchmark gave on one day: `body` is all that stands below its heading."""

    benchmark: str
    date: str
    body: str

    @property
    def rows(self) -> list[Row]:
        cells = re.findall(rf"(?m)^\| ({self.benchmark} \| .*) \|$", self.body)
        return [Row(*(cell.strip() for cell in line.split(" | "))) for line in cells]

    @property
    def busy(self) -> bool:
        return "the machine was busy" in self.body


def record(page: Path, history: Path, new: Sequence[Recorded]) -> None:
    """Put results on the page, and those that they replace at the end of the older ones."""
    head, kept = _read(page)
    last = {each.benchmark: each for each in kept}
    replaced = []
    for each in new:
        replaced += [last[each.benchmark]] if each.benchmark in last else []
        last[each.benchmark] = each
    older = [history.read_text(encoding="utf-8").rstrip("\n")]
    older += [f"## {each.date} · {each.benchmark}\n\n{each.body}" for each in replaced]
    history.write_text("\n\n".join(older) + "\n", encoding="utf-8")
    order = [benchmark.name for benchmark in BENCHMARKS]
    results = sorted(last.values(), key=lambda each: order.index(each.benchmark))
    page.write_text(_page(head, results), encoding="utf-8")


def _read(page: Path) -> tuple[str, list[Recorded]]:
    head, _, results = page.read_text(encoding="utf-8").partition(RESULTS)
    sections = re.split(r"(?m)^### ", results)[1:]
    return head, [_recorded(section) for section in sections]


def _recorded(section: str) -> Recorded:
    name, _, rest = section.partition("\n\n")
    date, _, body = rest.partition(": ")
    return Recorded(name, date, body.rstrip("\n"))


def _page(head: str, results: Sequence[Recorded]) -> str:
    before, _, after = head.partition(SUMMARY)
    measured = after[after.index("\n## ") :] if "\n## " in after else ""
    sections = [f"### {each.benchmark}\n\n{each.date}: {each.body}\n" for each in results]
    return f"{before}{SUMMARY}\n{summary(results)}{measured}{RESULTS}\n" + "\n".join(sections)


def summary(results: Sequence[Recorded]) -> str:
    """In how many races we were faster, how many goals were met, and a table that says where."""
    rows = [row for each in results for row in each.rows]
    races = [row for row in rows if row.peer != "-" and row.by != By.MEMORY]
    lost = sum(row.lost for row in races)
    lines = [COLUMNS, tuple("---" for _ in COLUMNS)]
    lines += [line for each in results for line in _lines(each)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{_said(len(races), lost, _goals(rows))}\n\n{table}\n"


def _said(races: int, lost: int, goals: str) -> str:
    return f"""\
In {races} timed comparisons, sexton was at least as fast {races - lost} times and slower {lost}
times. Of the goals, which are our own, it met {goals}.

A ratio says how many times as fast as the peer we are; by memory, how many times its memory we
take. M/s are million records a second. In parentheses is what was measured: CPU time, wall-clock
time or memory. *Busy* means that the machine had other things to do as well."""


def _lines(recorded: Recorded) -> Iterator[tuple[str, ...]]:
    """One for each goal without a peer; then one for each peer, memory apart."""
    name = f"[{recorded.benchmark}](#{recorded.benchmark})"
    when = recorded.date + (", busy" if recorded.busy else "")
    beside: dict[tuple[str, bool], list[Row]] = {}
    for row in recorded.rows:
        if row.peer != "-":
            beside.setdefault((row.peer, row.by == By.MEMORY), []).append(row)
        elif row.goal != "-":
            said = f"**{_short(row.ours)}**, goal {row.goal}: {row.case} ({row.by})"
            yield name, "-", said, "", _goals([row]), when
    for rows in beside.values():
        worst, best = (choose(rows, key=lambda row: row.how_good) for choose in (min, max))
        better = _case(best) if len(rows) > 1 else ""
        yield name, worst.peer, _case(worst), better, _goals(rows), when


def _case(row: Row) -> str:
    amounts = f"{_short(row.ours)} against {_short(row.theirs)}"
    return f"**{row.ratio}**, {amounts}: {row.case} ({row.by})"


def _short(amount: str) -> str:
    """ "54.4 M/s, 0.157 s" without the seconds, which depend on how much a peer was given."""
    return amount.partition(",")[0]


def _goals(rows: Iterable[Row]) -> str:
    goals = [row for row in rows if row.goal != "-"]
    met = sum(row.met == "met" for row in goals)
    missed = f", **{len(goals) - met} missed**" if met < len(goals) else ""
    return f"{met} of {len(goals)}{missed}" if goals else "-"


if __name__ == "__main__":
    record(PAGE, HISTORY, [])
