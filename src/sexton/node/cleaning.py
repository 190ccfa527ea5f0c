"""When does a broker clean which of its logs?

Every `log.cleaner.backoff.ms` it picks the dirtiest log that is worth a pass (`log.cleanable`) and
has it prepared beside the running broker; then the cleaned segments take their place at once.

    begin ──Run──▶ prepare ──Ran──▶ swap ──▶ tell the group how far this log is clean

The bounds are those that the replica knows when the pass begins: MTRO and MXRO only grow, so a pass
that takes its time still removes nothing it should not. One pass at a time; a log that cannot be
cleaned says why and does not hold up the others.

`CleanNow` does not wait for any of that: the logs it names are cleaned one after the other, dirty
enough or not, and the answer comes when the last one is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.log.cleanable import PASS_FAILURES, Candidate, first_uncleanable, pass_bounds
from sexton.log.cleaner_report import CleanerOptions
from sexton.log.cleaner_swap import Prepared
from sexton.log.disk import DiskFailed
from sexton.node.messages import CleanNow, CleanNowAnswer
from sexton.node.outside import Caller
from sexton.node.replica import Replica
from sexton.node.replicas import Replicas
from sexton.node.site import Site

Swap = Callable[[Replica, Prepared], bool]


@dataclass(slots=True)
class _Order:
    """Somebody asked for passes and waits for the last of them."""

    caller: Caller
    left: deque[TopicPartition]
    under_way: TopicPartition | None = None
    cleaned: list[tuple[TopicPartition, int]] = field(default_factory=list)
    failed: list[tuple[TopicPartition, str]] = field(default_factory=list)


class Cleaning:
    def __init__(self, site: Site, replicas: Replicas) -> None:
        self._site = site
        self._replicas = replicas
        self._seed = site.random.getrandbits(62)  # of the hash of keys
        self._busy = False
        self._orders: deque[_Order] = deque()
        self.swap: Swap = self._swap  # whoever watches may wrap it

    def start(self) -> None:
        self._site.outside.every(self._site.config.log_cleaner_backoff_ms, self.clean_some)

    def clean_some(self) -> None:
        """A pass over the log that needs it most, if any does and no other is under way."""
        self._fulfil()
        found = None if self._busy else self._dirtiest()
        if found is not None:
            self._clean(*found)

    def clean_now(self, caller: Caller, request: CleanNow) -> None:
        every = self._replicas.by_partition
        wanted = every if request.partitions is None else request.partitions
        left = deque(p for p in wanted if p in every and every[p].log.config.compacts)
        self._orders.append(_Order(caller, left))
        self._fulfil()

    def _fulfil(self) -> None:
        """Goes on with what was asked for, unless a pass is under way."""
        while self._orders and not self._busy:
            order = self._orders[0]
            if not order.left:
                self._orders.popleft()
                answer = CleanNowAnswer(tuple(order.cleaned), tuple(order.failed))
                self._site.outside.answer(order.caller, answer)
                continue
            replica = self._replicas.by_partition.get(order.left.popleft())
            if replica is None:
                continue  # it has been removed meanwhile
            try:
                replica.log.roll(self._site.now_ms)
            except DiskFailed:
                raise
            except PASS_FAILURES as error:  # a full disk, which is why somebody asks
                order.failed.append((replica.partition, str(error)))
                continue
            end = first_uncleanable(replica.log, self._site.now_ms)
            if end > replica.log.segments[0].base_offset:
                order.under_way = replica.partition
                self._clean(replica, Candidate(end, 1.0, "asked"))

    def _ended(self, replica: Replica, cleaned_until: int | None, why: str = "") -> None:
        """A pass is over: whoever waits for it hears of it."""
        order = self._orders[0] if self._orders else None
        if order is None or order.under_way != replica.partition:
            return
        order.under_way = None
        if cleaned_until is not None:
            order.cleaned.append((replica.partition, cleaned_until))
        else:
            order.failed.append((replica.partition, why))

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
        from sexton.log.cleaner import begin  # with its kernels: a broker starts without them

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
                    self._ended(replica, result.cleaned.end)
            except DiskFailed:
                raise
            except PASS_FAILURES as error:
                self._failed(replica, error)
        elif isinstance(result, PASS_FAILURES):
            self._failed(replica, result)
        elif isinstance(result, BaseException):
            self._ended(replica, None, str(result))
            raise result
        self._ended(replica, None, "the log was changed meanwhile")
        self._fulfil()

    def _failed(self, replica: Replica, error: Exception) -> None:
        replica.cleaning.failed(error, self._site.now_ms)
        self._ended(replica, None, str(error))

    def _swap(self, replica: Replica, prepared: Prepared) -> bool:
        if self._replicas.by_partition.get(replica.partition) is not replica:
            prepared.discard()  # it has been removed meanwhile
            return False
        return prepared.swap(self._site.now_ms)
