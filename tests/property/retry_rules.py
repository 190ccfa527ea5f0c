"""What can happen in the small world of ordered retry."""

from __future__ import annotations

from collections.abc import Iterator

from sexton.machines.retry_rounds import Item, Lane, Outcome, Round
from tests.property.retry_group import BOTH, NAME, letter
from tests.property.retry_sending import Sending
from tests.property.retry_world import World

EVERYTHING = 1 << 30


class Moves(Sending):
    # ── what can happen ──

    def moves(self, world: World) -> Iterator[tuple[str, World]]:
        if world.refused:
            return
        for number in BOTH:
            yield from self._steps(world, number)
        yield from self._failures(world)
        yield from self._broker(world)

    def _steps(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        match world.workers[number].phase:
            case "starting":
                after = world.copy(*BOTH)
                if (name := self._start_step(after, number)) is not None:
                    if self.limits.atomic:
                        name = self._start_whole(after, number)
                    yield name, after
            case "ready":
                yield from self._rounds(world, number)
            case "sending" if self.transactional:
                yield from self._transaction_steps(world, number)
            case "sending":
                after = world.copy(number)
                yield self._stage(after, number), after

    def _failures(self, world: World) -> Iterator[tuple[str, World]]:
        for number in BOTH:
            worker = world.workers[number]
            if worker.phase in ("down", "stopped"):
                continue
            if (after := self._spend(world, "crashes", number)) is not None:
                after.workers[number].go_down()
                yield f"{number} crashes", after
                yield from self._half_written(after, world, number)
        for number in BOTH:
            if number == world.owner and world.workers[number].phase != "down":
                continue
            if (after := self._spend(world, "rebalances", *BOTH)) is not None:
                self._assign(after, number)
                yield f"{number} becomes the owner", after

    def _half_written(self, after: World, world: World, number: int) -> Iterator[tuple[str, World]]:
        """Without transactions: it crashed while it wrote."""
        worker = world.workers[number]
        if self.transactional or worker.phase != "sending":
            return
        stages = [*self._stages(world, number), ("nothing", [])]
        place, records = stages[worker.stage]
        for count in range(1, len(records)):
            half = after.copy()
            half.append(place, records[:count])
            yield f"{number} crashes after writing {count} of {len(records)} to {place}", half

    def _broker(self, world: World) -> Iterator[tuple[str, World]]:
        for number, transaction in list(world.transactions.items()):
            of = world.workers[number[0]]
            abandoned = of.number != number or of.phase != "sending"
            if transaction.decided is None:
                after = world.copy() if abandoned else self._spend(world, "aborts")
                if after is not None:
                    self._decide(after, number, commit=False)
                    yield f"the transaction of {number[0]} times out and is aborted", after
            else:
                for place in sorted(transaction.unmarked):
                    after = world.copy()
                    after.mark(number, place)
                    yield f"the marker reaches the {place}", after
        if (after := self._spend(world, "replaced")) is not None:
            after.old_ends = world.ends()
            yield "a leader is replaced, and does not hear of it", after
        starting = world.workers[world.owner].phase == "starting"
        if starting and (after := self._spend(world, "lost")) is not None:
            after.lose()
            yield "the lock and the retry topic are lost", after
        for place in ("lock", "retry"):
            for keeps in (True, False):
                after = self._spend(world, "compactions")
                if after is not None and after.compact(place, keeps):
                    kept = "tombstones kept" if keeps else "tombstones removed"
                    yield f"the {place} topic is compacted, {kept}", after

    # ── a round ──

    def _rounds(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        task = world.workers[number].task
        assert task is not None
        if task.stale:
            after = world.copy(number)
            reaped = after.workers[number].own_task().reap()
            assert reaped is not None
            self._send(after, number, reaped, ())
            yield f"{number} reaps", after
            return
        left = len(self.script) - task.position
        for polled in sorted({min(count, left) for count in self.limits.polls}):
            both = bool(polled and task.pending.heads)  # a pool may run either first
            for main_first in (False, True) if both else (False,):
                after = world.copy(number)
                runs, name = self._round(after, number, polled, None, main_first)
                if polled or runs:
                    yield name, after
                for failing in range(runs):
                    failed = self._spend(world, "failures", number)
                    if failed is not None:
                        _, name = self._round(failed, number, polled, failing, main_first)
                        yield name, failed
                cut = self._spend(world, "cuts", number) if runs > 1 else None
                if cut is not None:
                    _, name = self._round(cut, number, polled, None, main_first, most=1)
                    yield f"{name}, and is cut short", cut

    def _round(
        self,
        world: World,
        number: int,
        polled: int,
        failing: int | None,
        main_first: bool = False,
        most: int = EVERYTHING,
    ) -> tuple[int, str]:
        """How many ran; the `failing`-th of them failed."""
        worker = world.workers[number]
        task = worker.own_task()
        end = world.stable_end("retry")
        task.tail(world.rows("retry", worker.tail, end))
        worker.tail = max(worker.tail, end)
        offsets = range(task.position, task.position + polled)
        taken = task.begin(0, offsets, [self.script[each].encode() for each in offsets])
        lanes = [*taken.main_lanes, *taken.retry_lanes] if main_first else taken.lanes
        # Others may have it in a cache, or not; that they go on is the worse case.
        owner = self.transactional and worker.current
        told, outputs = self._run(world, taken, lanes, failing, most, owner)
        commit = task.finish(taken, 0)
        if told or polled or commit.changes:
            self._send(world, number, commit, tuple(outputs))
            if self.limits.atomic and self.transactional:
                self._whole_transaction(world, number)
        elif task.restart is None:
            task.confirmed()
        shown = f"{number} polls {' '.join(map(letter, offsets)) or 'nothing'}"
        return len(told), f"{shown}, runs {', '.join(told) or 'nothing'}"

    def _is_readable(self, world: World, item: Item) -> bool:
        """Where the task says it is, committed, and not compacted away."""
        record = world.retry[item.retry_offset] if item.retry_offset >= 0 else None
        if record is None or record.transaction is not None or record.value is None:
            return False
        return record.key == NAME.id_of(item.id)

    def _run(
        self,
        world: World,
        taken: Round,
        lanes: list[Lane],
        failing: int | None,
        most: int,
        owner: bool,
    ) -> tuple[list[str], list[int]]:
        told: list[str] = []
        outputs: list[int] = []
        for item in [item for lane in lanes for item in lane.items]:
            if item.lane.stopped or len(told) == most:
                continue
            if owner and item.index < 0 and not self._is_readable(world, item):
                world.fault = world.fault or f"the record of {letter(item.id)} cannot be read"
            fails = len(told) == failing
            taken.note(item, Outcome.RETRY if fails else Outcome.DONE)
            told.append(f"{letter(item.id)} {'fails' if fails else 'ok'}")
            held = item.outcome is Outcome.DEAD and self.settings.at_ceiling == "held"
            if item.outcome is not Outcome.RETRY and not held:  # what is held is not over yet
                outputs.append(item.id)
                self._effect(world, item.id)
        outputs += [item.id for item in taken.orders.skipped]
        return told, outputs
