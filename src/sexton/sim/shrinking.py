"""A run fails after a hundred faults. Which of them does it take?

    all that happened ──▶ half of them? the other half? quarters? ──▶ none can be left out

This is delta debugging (Zeller and Hildebrandt's `ddmin`): try to leave out ever smaller parts of
what is left, and keep whatever still fails in the same way. It ends with a set of faults of which
each is needed: leave out any one and the run does not fail, or fails differently.

Time is cut whenever that is possible. A run that failed on its first day does not need the second:
up to its failure the shorter run is the same run. A violation that came while faults were still
happening is looked for in that part only, for healing and tidying take days of their own. One that
came later is looked for in half the hours, and half of those, before anything else is tried.

Nothing here is random, so the same failing run always shrinks to the same faults.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sexton.sim.checks import Violation
from sexton.sim.options import HOUR_MS
from sexton.sim.plan import BUILD_MS, all_but
from sexton.sim.replay import Replay
from sexton.sim.run import START_MS, Run

Fault = tuple[int, int, str]  # number, time, what it did


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that fails, and the faults that happened in it before it did."""

    replay: Replay
    violation: Violation
    faults: tuple[Fault, ...]

    @property
    def worked_ms(self) -> int:
        """How long clients had worked when it failed."""
        return self.violation.at_ms - START_MS - BUILD_MS

    @property
    def while_working(self) -> bool:
        """Or else it was found once everything had healed."""
        return self.worked_ms < self.replay.options.hours * HOUR_MS

    def is_like(self, other: Violation | None) -> bool:
        """The same kind; a crash is the same if it comes from the same line."""
        known = self.violation
        if other is None or other.kind != known.kind:
            return False
        return known.kind != "crash" or other.where == known.where


@dataclass(frozen=True, slots=True)
class Progress:
    """After each run: the smallest failure so far, or None if the first run was clean."""

    runs: int
    best: Failure | None
    tried: str


Attempt = Callable[[Replay, bool], Failure | None]


def attempt(replay: Replay, while_working: bool) -> Failure | None:
    """One run. The failure it ends with, if it does."""
    kind = WorkOnly if while_working else Run
    run = kind(replay.options, without=replay.without)
    violation = run.go().violation
    return None if violation is None else Failure(replay, violation, tuple(run.injected))


class WorkOnly(Run):
    """A run that ends when its faults do."""

    def _heal(self) -> None:
        pass

    def _tidy(self) -> None:
        pass


def shrink(replay: Replay, attempt: Attempt = attempt) -> Iterator[Progress]:
    """Runs again and again; what it yields last holds the answer."""
    first = attempt(replay, False)
    yield Progress(1, first, "everything")
    if first is None:
        return
    search = _Search(first, attempt)
    yield from search.less_time()
    yield from search.fewer_faults()
    yield search.once_more()


class _Search:
    def __init__(self, first: Failure, attempt: Attempt) -> None:
        self.runs = 1
        self._attempt = attempt
        self._while_working = first.while_working
        self.best = self._cut(first)
        self._harmless: set[tuple[int, ...]] = set()  # do not fail, nor would they in less time

    def _try(self, replay: Replay) -> bool:
        """Keeps the new failure if it is like the one that is sought."""
        self.runs += 1
        failure = self._attempt(replay, self._while_working)
        if failure is None or not self.best.is_like(failure.violation):
            return False
        self.best = self._cut(failure)
        return True

    def _cut(self, failure: Failure) -> Failure:
        """The same without the hours after it, if it came while clients worked."""
        if not self._while_working:
            return failure
        hours = max(failure.worked_ms // HOUR_MS + 1, 1)
        options = replace(failure.replay.options, hours=hours)
        return replace(failure, replay=replace(failure.replay, options=options))

    def _told(self, tried: str) -> Progress:
        return Progress(self.runs, self.best, tried)

    def less_time(self) -> Iterator[Progress]:
        """What failed after healing may do so after half the time."""
        hours = self.best.replay.options.hours // 2
        while hours >= 1 and not self._while_working:
            options = replace(self.best.replay.options, hours=hours)
            done = self._try(replace(self.best.replay, options=options))
            yield self._told(f"{hours} hours")
            hours = hours // 2 if done else 0

    def fewer_faults(self) -> Iterator[Progress]:
        """First without what was planned and never happened, which should change nothing."""
        happened = [number for number, _, _ in self.best.faults]
        search = minimal(happened)
        kept = happened
        while True:
            fails = False
            if tuple(kept) not in self._harmless:
                options = self.best.replay.options
                fails = self._try(Replay(options, all_but(options, kept)))
                yield self._told(_faults(len(kept)))
            if not fails:
                self._harmless.add(tuple(kept))
            try:
                kept = next(search) if kept is happened else search.send(fails)
            except StopIteration:
                return

    def once_more(self) -> Progress:
        """The answer must stand by itself: it is run as whoever replays it will."""
        self.runs += 1
        failure = self._attempt(self.best.replay, False)
        assert failure is not None and failure.violation == self.best.violation, failure
        return self._told("the answer")


def _faults(count: int) -> str:
    return "1 fault" if count == 1 else f"{count} faults"


def minimal(items: Sequence[int]) -> Generator[list[int], bool, list[int]]:
    """Yields what to try, is sent whether that still fails, returns the smallest that did."""
    if (yield []):
        return []
    best, parts = list(items), 2
    while len(best) > 1:
        for smaller, parts_then in _smaller(best, parts):
            if (yield smaller):
                best, parts = smaller, parts_then
                break
        else:
            if parts >= len(best):
                break  # each alone is needed
            parts = min(len(best), 2 * parts)
    return best


def _smaller(items: list[int], parts: int) -> Iterator[tuple[list[int], int]]:
    """Each part alone, then all but one part; and into how many parts to cut what is left."""
    bounds = [len(items) * n // parts for n in range(parts + 1)]
    cuts = list(pairwise(bounds))
    for start, end in cuts:
        yield items[start:end], 2
    for start, end in cuts if parts > 2 else ():
        yield items[:start] + items[end:], parts - 1
