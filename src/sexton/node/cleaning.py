"""When does a broker clean which of its logs?

Every `log.cleaner.backoff.ms` it picks the dirtiest log that is worth a pass (`log.cleanable`) and
has it prepared beside the running broker; then the cleaned segments take their place at once.

    begin ──Run──▶ prepare ──Ran──▶ swap ──▶ tell the group how far this log is clean

The bounds are those that the replica knows when the pass begins: MTRO and MXRO only grow, so a pass
that takes its time still removes nothing it should not. One pass at a time; a log that cannot be
cleaned says why and does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.log.cleanable import PASS_FAILURES, Candidate, pass_bounds
from sexton.log.cleaner import CleanerOptions, Prepared, begin
from sexton.node.replica import Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site

Swap = Callable[[Replica, Prepared], bool]


class Cleaning:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas
        self._seed = site.random.getrandbits(62)  # of the hash of keys
        self._busy = False
        self.swap: Swap = self._swap  # whoever watches may wrap it

    def start(self) -> None:
        self._site.outside.every(self._site.config.log_cleaner_backoff_ms, self.clean_some)

    def clean_some(self) -> None:
        """A pass over the log that needs it most, if any does and no other is under way."""
        found = None if self._busy else self._dirtiest()
        if found is not None:
            self._clean(*found)

    def _dirtiest(self) -> tuple[Replica, Candidate] | None:
        best: tuple[Replica, Candidate] | None = None
        for replica in self._replicas.by_partition.values():
            bounds = replica.removable
            candidate = replica.cleaning.candidate(
                replica.log, self._site.now_ms, bounds.mtro, bounds.mxro
            )
            if candidate and (best is None or candidate.dirty_ratio > best[1].dirty_ratio):
                best = (replica, candidate)
        return best

    def _clean(self, replica: Replica, candidate: Candidate) -> None:
        known, log = replica.removable, replica.log
        bounds = pass_bounds(log, candidate, self._site.now_ms, known.mtro, known.mxro)
        options = CleanerOptions(
            delete_retention_ms=log.config.delete_retention_ms,
            set_bytes=self._site.config.log_cleaner_dedupe_buffer_size,
            seed=self._seed,
        )
        run = begin(log, bounds, options)
        self._busy = True
        self._site.outside.run(run.prepare, lambda result: self._prepared(replica, result))

    def _prepared(self, replica: Replica, result: object) -> None:
        self._busy = False
        if isinstance(result, Prepared):
            try:
                if self.swap(replica, result):
                    replica.cleaning.succeeded(result.cleaned)
                    replica.cleaned(result.cleaned.end)
            except PASS_FAILURES as error:
                replica.cleaning.failed(error, self._site.now_ms)
        elif isinstance(result, PASS_FAILURES):
            replica.cleaning.failed(result, self._site.now_ms)
        elif isinstance(result, BaseException):
            raise result

    def _swap(self, replica: Replica, prepared: Prepared) -> bool:
        if self._replicas.by_partition.get(replica.partition) is not replica:
            prepared.discard()  # it has been removed meanwhile
            return False
        return prepared.swap(self._site.now_ms)
