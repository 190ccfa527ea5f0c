"""How a worker of the small world writes what its round came to, with or without transactions."""

from __future__ import annotations

from collections.abc import Iterator

from sexton.machines.retry_rounds import Commit
from tests.property.retry_group import BOTH, NAME, Group
from tests.property.retry_mistakes import COUNTING, FRESH, Mistake
from tests.property.retry_world import PLACES, Record, Transaction, World


class Sending(Group):
    def _send(self, world: World, number: int, commit: Commit, outputs: tuple[int, ...]) -> None:
        worker = world.workers[number]
        worker.phase, worker.commit, worker.outputs = "sending", commit, outputs
        worker.flushed = worker.offsets_sent = False
        worker.stage, worker.number = 0, None
        if self.transactional:
            which = next(n for n in range(9) if (number, n) not in world.transactions)
            worker.number = (number, which)
            world.transactions[worker.number] = Transaction(outputs)
            if self.mistake is Mistake.RELEASE_SEEN_EARLY:
                worker.own_task().confirmed()
        else:
            self._skip_empty(world, number)

    def _confirmed(self, world: World, number: int) -> None:
        worker = world.workers[number]
        task = worker.own_task()
        if self.mistake is not Mistake.RELEASE_SEEN_EARLY:
            task.confirmed()
        if self.mistake is None:
            task.check()
        worker.phase, worker.commit, worker.outputs, worker.number = "ready", None, (), None
        worker.flushed = worker.offsets_sent = False
        worker.stage = 0
        if task.restart is not None:
            self._start_up(world, number)

    # ── its transaction ──

    def _transaction_steps(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        worker = world.workers[number]
        assert worker.number is not None and worker.commit is not None
        if worker.fenced or worker.number not in world.transactions:
            after = world.copy(*BOTH)
            how = "fenced" if worker.fenced else "aborted"
            if self.mistake is Mistake.RELEASE_SEEN_EARLY:
                self._confirmed(after, number)  # it goes on with what it believes
            else:
                self._failed(after, number, how)
            yield f"{number} learns that it is {how}", after
            return
        if any(of == number and (of, n) != worker.number for of, n in world.transactions):
            return  # CONCURRENT_TRANSACTIONS: a producer ends one before it begins the next
        if not worker.flushed:
            after = world.copy(number)
            self._flush(after, number)
            yield f"{number} flushes its records", after
        if not worker.offsets_sent:
            yield self._send_offsets(world.copy(*BOTH), number)
        if worker.flushed and worker.offsets_sent:
            yield from self._end(world, number)

    def _whole_transaction(self, world: World, number: int) -> None:
        which = world.workers[number].number
        assert which is not None
        self._flush(world, number)
        if world.workers[number].current:
            self._send_offsets(world, number)
            self._decide(world, which, commit=True)
            self._confirmed(world, number)
        else:
            self._decide(world, which, commit=False)
            self._failed(world, number, "fenced")

    def _flush(self, world: World, number: int) -> None:
        worker = world.workers[number]
        commit = worker.commit
        assert commit is not None
        locks, retries, tombstones, releases = self._records(world, number, commit)
        world.append("lock", [*locks, *releases])
        world.append("retry", [*retries, *tombstones])
        worker.flushed = True

    def _records(self, world: World, number: int, commit: Commit) -> tuple[list[Record], ...]:
        """Locks, retry records, retry tombstones, lock tombstones."""
        of = world.workers[number].number
        redirected = {NAME.id_of(item.id) for item in commit.redirected}
        counted = self.mistake in COUNTING
        locks = [
            Record(self._lock_key(world, key, fresh=True), value, of, number)
            for key, value, _ in commit.locks
            if not counted or key in redirected
        ]
        retries = [Record(key, b"message", of, number) for key in sorted(redirected)]
        tombstones = [Record(key, None, of, number) for key in commit.retry_tombstones]
        releases = [
            Record(self._lock_key(world, key, fresh=False), None, of, number)
            for key in commit.lock_tombstones
        ]
        return locks, retries, tombstones, releases

    def _lock_key(self, world: World, key: bytes, fresh: bool) -> bytes:
        message = NAME.offset_of(key)
        assert message is not None
        if self.mistake is Mistake.BUSINESS_KEY:
            return self.script[message].encode()
        if self.mistake is Mistake.DUAL_WRITE:
            ours = [
                record for record in world.lock
                if record and (NAME.offset_of(record.key) or 0) % FRESH == message
            ]  # fmt: skip
            return NAME.id_of(message + FRESH * (len(ours) - (not fresh)))
        return key

    def _send_offsets(self, world: World, number: int) -> tuple[str, World]:
        worker = world.workers[number]
        commit = worker.commit
        assert commit is not None and worker.number is not None
        assert worker.task is not None
        transaction = world.transactions[worker.number]
        settles_only = commit.position == worker.task.position
        if self.mistake is Mistake.SETTLES_WITHOUT_OFFSETS and settles_only:
            worker.offsets_sent = True
            return f"{number} sends no offsets", world
        if not worker.current and self.mistake is not Mistake.FENCED_BY_ID_ALONE:
            self._failed(world, number, "fenced")
            return f"{number} sends offsets of an old generation, and is fenced", world
        worker.offsets_sent = True
        offsets = (commit.position, commit.metadata)
        world.transactions[worker.number] = transaction._replace(offsets=offsets)
        return f"{number} sends offset {commit.position}", world

    def _end(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        which = world.workers[number].number
        assert which is not None
        after = world.copy(number)
        self._decide(after, which, commit=True)
        self._confirmed(after, number)
        yield f"{number} commits", after
        for place in sorted(PLACES):
            late = self._spend(world, "late", number)
            if late is not None:
                self._decide(late, which, commit=True, late=place)
                self._confirmed(late, number)
                yield f"{number} commits; the marker has not reached the {place}", late
        for commit in (True, False):
            unknown = self._spend(world, "unknown", *BOTH)
            if unknown is not None:
                self._decide(unknown, which, commit)
                self._failed(unknown, number, "unknown")
                lost = "the answer is lost" if commit else "the request is lost"
                yield f"{number} commits, and {lost}", unknown

    # ── without transactions ──

    def _stages(self, world: World, number: int) -> list[tuple[str, list[Record]]]:
        commit = world.workers[number].commit
        assert commit is not None
        locks, retries, tombstones, releases = self._records(world, number, commit)
        if self.mistake is Mistake.RELEASE_REDONE:
            return [("lock", [*locks, *releases]), ("retry", [*retries, *tombstones])]
        return [("lock", locks), ("retry", [*retries, *tombstones]), ("lock", releases)]

    def _skip_empty(self, world: World, number: int) -> None:
        worker = world.workers[number]
        stages = self._stages(world, number)
        while worker.stage < len(stages) and not stages[worker.stage][1]:
            worker.stage += 1

    def _stage(self, world: World, number: int) -> str:
        worker = world.workers[number]
        commit = worker.commit
        assert commit is not None
        stages = self._stages(world, number)
        if worker.stage < len(stages):
            place, records = stages[worker.stage]
            world.append(place, records)
            worker.stage += 1
            self._skip_empty(world, number)
            return f"{number} writes to {place}"
        if not worker.current:
            self._failed(world, number, "fenced")
            return f"{number} commits an offset of an old generation, and is fenced"
        world.committed = (commit.position, commit.metadata)
        self._confirmed(world, number)
        return f"{number} commits offset {commit.position}"
