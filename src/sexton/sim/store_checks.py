"""Does a promoted store hold what was committed, and does the group's offset never go back?

    (8)  once a commit is confirmed, nobody is told an older offset of the group
    (9)  a store whose owner begins to work is the fold of its committed changelog, and goes on
         where that says; and so each input is counted once, in order

Both are judged by what was written to the topics (`truth`), not by what the task believes. A store
is judged when it is promoted and its owner has the newest producer epoch: whoever is overtaken on
the way works for nothing, for it can commit nothing. Once one of the topics has lost committed
records, by an operator's choice or a broken disk, there is nothing to judge by, and the application
is taken down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sexton.base.partitions import TopicPartition
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.sim.checks import Checks
from sexton.sim.truth import Truth

if TYPE_CHECKING:
    from sexton.sim.store_worker import Worker

INPUT, OUTPUT, CHANGELOG = "orders", "counts", "counts-changelog"
POSITION = b"position"  # the fixed key; no key of the input is called so


class StoreChecks:
    def __init__(self, checks: Checks, partitions: int) -> None:
        self.checks, self.counts = checks, checks.counts
        self._partitions = range(partitions)
        self._owners: dict[int, Worker] = {}  # the last one with a new epoch
        self._committed: dict[int, int] = {}  # what Kafka has confirmed of the input
        self.latest_generation = -1  # that somebody was given a share in

    @property
    def excused(self) -> bool:
        topics = (INPUT, OUTPUT, CHANGELOG)
        mine = [TopicPartition(topic, n) for topic in topics for n in self._partitions]
        theirs = [TopicPartition(topic, 0) for topic in (TRANSACTION_STATE, CONSUMER_OFFSETS)]
        return any(self._truth(at).losses for at in (*mine, *theirs))

    def _truth(self, at: TopicPartition) -> Truth:
        return self.checks.group(at).truth

    # ── (8) ──

    def acknowledged(self, worker: Worker) -> int:
        return self._committed.get(worker.partition, 0)

    def committed(self, worker: Worker, next_input: int) -> None:
        self.counts.store_commits += 1
        self._committed[worker.partition] = max(self.acknowledged(worker), next_input)

    def told(self, worker: Worker, offset: int | None, least: int) -> None:
        if (offset or 0) < least and not self.excused:
            what = f"the group had committed {least} of {worker.input_at} and it is told {offset}"
            self.checks.fail("offset-went-back", str(worker), what)

    def offset_taken(self, worker: Worker, generation: int, latest: int) -> None:
        """A share of a later generation was given out before this was even sent."""
        if generation < latest and not self.excused:
            what = f"it commits for generation {generation}, and {latest} has shared out its tasks"
            self.checks.fail("old-generation-commits", str(worker), what)

    def shared(self, generation: int) -> None:
        self.latest_generation = max(self.latest_generation, generation)

    # ── (9) ──

    def initialised(self, worker: Worker) -> None:
        self._owners[worker.partition] = worker

    def promoted(self, worker: Worker, goes_on: int | None, end: int | None = None) -> None:
        """Its store is said to be the changelog below `end`, and nothing was done on top of it."""
        if self.excused or self._owners.get(worker.partition) is not worker:
            return
        self.counts.promotions += 1
        truth = self._truth(worker.changelog_at)
        end = truth.end if end is None else end
        self._same_store(worker, fold(truth, end))
        position = _position(truth, end)
        if (goes_on or 0) != position:
            log = worker.changelog_at
            what = f"it goes on from input {goes_on or 0}, and {position} is committed in {log}"
            self.checks.fail("stale-store", str(worker), what)
        self.counted_once(worker.partition)

    def _same_store(self, worker: Worker, wanted: dict[bytes, bytes]) -> None:
        has = worker.disk.data
        for key in sorted(has.keys() | wanted.keys()):
            if key not in wanted and self.checks.ran_ahead:
                continue  # for a broker whose clock did, a tombstone's time was over too early
            if has.get(key) != wanted.get(key):
                said = [_text(each.get(key)) for each in (has, wanted)]
                log = worker.changelog_at
                what = f"{key.decode()} is {said[0]} in its store and {said[1]} in {log}"
                self.checks.fail("stale-store", str(worker), what)

    def counted_once(self, partition: int) -> None:
        """What a read_committed consumer of the output sees: each input once, in order."""
        at = TopicPartition(OUTPUT, partition)
        last, counts = -1, dict[bytes, int]()
        for _, entry in sorted(self._truth(at).entries.items()):
            if not entry.outcome.visible:
                continue
            offset, count = map(int, (entry.value or b"").split())
            key = entry.key.decode()
            if offset <= last:
                what = f"input {offset} ({key}) is counted after input {last}"
                self.checks.fail("counted-twice", str(at), what)
            before = counts.get(entry.key, 0)
            if count not in (0, before + 1):
                what = f"{key} was counted {before}, and is {count} with input {offset}"
                self.checks.fail("counted-twice", str(at), what)
            last, counts[entry.key] = offset, count

    # ── at the end ──

    @property
    def caught_up(self) -> bool:
        return self.excused or all(
            self._counted_to(number) >= self._truth(TopicPartition(INPUT, number)).end
            for number in self._partitions
        )

    def _counted_to(self, number: int) -> int:
        truth = self._truth(TopicPartition(CHANGELOG, number))
        return _position(truth, truth.end)

    def finished(self) -> None:
        """Everything has healed, and there was time to count the last input."""
        if self.excused:
            return
        for number in self._partitions:
            self.counted_once(number)
            self._all_counted(number)

    def _all_counted(self, number: int) -> None:
        source = self._truth(TopicPartition(INPUT, number))
        position = self._counted_to(number)
        if position < source.end:
            what = f"inputs are counted up to {position} and end at {source.end}"
            self.checks.fail("not-counted", f"task {number}", what)
        entries = self._truth(TopicPartition(OUTPUT, number)).entries.values()
        counted = {int((e.value or b"").split()[0]) for e in entries if e.outcome.visible}
        for key in source.keys:
            last = source.last_before(key, position)
            if last is not None and last[1] is not None and last[0] not in counted:
                what = f"input {last[0]} ({key.decode()}) is below {position} and not counted"
                self.checks.fail("not-counted", f"task {number}", what)


def fold(truth: Truth, end: int) -> dict[bytes, bytes]:
    """The last committed value of each key of the store in the changelog below `end`."""
    last = {key: truth.last_before(key, end) for key in truth.keys if key != POSITION}
    return {key: each[1] for key, each in last.items() if each and each[1] is not None}


def _position(truth: Truth, end: int) -> int:
    last = truth.last_before(POSITION, end)
    return 0 if last is None else int(last[1] or b"0")


def _text(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode()
