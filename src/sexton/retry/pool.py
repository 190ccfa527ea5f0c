"""Threads, or an event loop, that run a plan while the main loop goes on polling.

    pool.run(plan) ──▶ Execution        wait(timeout): is it done?

A plan is handed out, not dealt out: a worker takes the next lane when it has ended one, so a slow
handler holds up its own key only. A worker's cost for a lane is one `popleft`.
"""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue

from sexton.retry.handlers import Handling, Plan


class Execution:
    def __init__(self, plan: Plan, parts: int) -> None:
        self.plan = plan
        self.error: BaseException | None = None  # of ours: handlers' errors are outcomes
        self._parts = parts
        self._lock = threading.Lock()
        self._done = threading.Event()

    def wait(self, timeout_s: float) -> bool:
        if not self._done.wait(timeout_s):
            return False
        if self.error is not None:
            raise self.error
        return True

    def part_done(self, error: BaseException | None = None) -> None:
        with self._lock:
            self._parts -= 1
            if self.error is None:
                self.error = error
            if self._parts == 0:
                self._done.set()


class Pool:
    def __init__(self, handling: Handling, workers: int, most_in_batch: int, name: str) -> None:
        self._handling = handling
        self._workers = workers
        self._most = most_in_batch
        self._plans: SimpleQueue[Execution | None] = SimpleQueue()
        count = 1 if handling.is_async or handling.batch else workers
        self._loop = asyncio.new_event_loop() if handling.is_async else None
        self._threads = [
            threading.Thread(target=self._work, name=f"{name} {number}", daemon=True)
            for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def in_order(self) -> bool:
        """One message after the other, in log order: then it can run what is calm."""
        return not self._handling.batch and self._loop is None and len(self._threads) == 1

    def run(self, plan: Plan) -> Execution:
        parts = 1
        if len(self._threads) > 1:
            plan.in_lanes()
            parts = max(1, min(len(self._threads), plan.busy_lanes))
        execution = Execution(plan, parts)
        for _ in range(parts):
            self._plans.put(execution)
        return execution

    def close(self, timeout_s: float = 0.0) -> None:
        """Handlers that still run are left to themselves."""
        for _ in self._threads:
            self._plans.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self) -> None:
        while (execution := self._plans.get()) is not None:
            try:
                self._part(execution.plan)
            except BaseException as error:  # noqa: BLE001 - the main loop has to hear of it
                execution.part_done(error)
            else:
                execution.part_done()
        if self._loop is not None:
            self._loop.close()

    def _part(self, plan: Plan) -> None:
        handling = self._handling
        for calm in plan.calm:
            handling.run_calm(calm, plan)
        if self._loop is not None:
            self._loop.run_until_complete(self._part_async(plan))
        elif handling.batch:
            for wave in plan.waves(self._most):
                handling.run_batch(wave)
        elif len(self._threads) > 1:
            for of, item in plan.take():
                handling.run(of, item)
        else:
            handling.run_in_order(plan)

    async def _part_async(self, plan: Plan) -> None:
        handling = self._handling
        if handling.batch:
            for wave in plan.waves(self._most):
                await handling.run_batch_async(wave)
            return
        plan.in_lanes()
        workers = max(1, min(self._workers, plan.busy_lanes))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._lanes(plan))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    async def _lanes(self, plan: Plan) -> None:
        try:
            for of, item in plan.take():
                await self._handling.run_async(of, item)
        except BaseException:
            plan.cut = True  # nobody goes on
            raise
