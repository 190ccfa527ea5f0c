"""Many seeds at once: a process for each core, and each result as soon as there is one.

    options ──▶ worker ──▶ Finished ──┐
    options ──▶ worker ──▶ Finished ──┼──▶ whoever asked, in the order in which they end
    options ──▶ worker ──▶ Finished ──┘

Runs share nothing, so what a seed gives does not depend on which worker has it, nor on how many
there are. Workers are started anew rather than forked: a fork would inherit whatever threads and
files the caller has. Kernels are compiled by the time that this module is imported; workers find
them in the cache.

No queue outlives anyone here. A worker knows that it is not needed any more when its pipe ends; the
caller knows that a worker died, of hunger for memory perhaps, when the same pipe ends on its side,
and reports the seed that it had. Whoever stops asking, by Ctrl-C or otherwise, ends the workers at
once. A caller that is killed cannot, and a worker looks at its pipe between two seeds only, which
may be hours: so a thread of each worker does nothing but wait for the caller's end.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from sexton.sim.checks import Violation
from sexton.sim.options import Options
from sexton.sim.run import START_MS, Result, Run

LAST_WORD_S = 5.0  # how long a worker that was told to end may take before it is killed


@dataclass(frozen=True, slots=True)
class Finished:
    """One seed's result, and what it takes to tell of it."""

    result: Result
    traceback: str = ""  # of a crash
    cpu_s: float = 0.0


def campaign(plan: Iterable[Options], jobs: int) -> Iterator[Finished]:
    """Runs everything that is planned; one job at a time needs no other process."""
    if jobs == 1:
        yield from map(run_one, plan)
        return
    workers: list[_Worker] = []
    waiting = iter(plan)
    try:
        for options in waiting:
            workers.append(_hire(options))
            if len(workers) == jobs:
                break
        while workers:
            yield from _round(workers, waiting)
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            _bury(worker)


def run_one(options: Options) -> Finished:
    began = time.process_time()
    run = Run(options)
    result = run.go()
    finished = Finished(result, run.traceback, time.process_time() - began)
    del run
    gc.collect()  # a cluster is full of cycles, and of logs; the next one needs the room
    return finished


# ── workers ──


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    has: Options = field(repr=False)


def _hire(options: Options) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True)
    with _deaf_to_interrupts():
        process.start()
    theirs.close()  # or the pipe would not end when the worker does
    ours.send(options)
    return _Worker(process, ours, options)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """A process that is started meanwhile ignores Ctrl-C: it is its employer who ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no signals come here, and none can be set
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(pipe: Connection) -> None:
    """A worker's life."""
    threading.Thread(target=_end_with_the_caller, daemon=True).start()
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(run_one(pipe.recv()))


def _end_with_the_caller() -> None:
    caller = multiprocessing.parent_process()
    assert caller is not None, "a worker is started by someone"
    caller.join()
    os._exit(1)  # in the middle of a seed: nobody wants its result


def _round(workers: list[_Worker], waiting: Iterator[Options]) -> Iterator[Finished]:
    """Waits for someone to finish; gives out new work before telling of what is done."""
    ready = wait([worker.pipe for worker in workers])
    for worker in [worker for worker in workers if worker.pipe in ready]:
        following = next(waiting, None)
        try:
            finished: Finished = worker.pipe.recv()
            if following is not None:
                worker.has = following
                worker.pipe.send(following)
        except (EOFError, ConnectionError):
            finished = _died(worker)
            workers.remove(worker)
            _bury(worker)
            if following is not None:
                workers.append(_hire(following))
        else:
            if following is None:
                workers.remove(worker)
                _bury(worker)
        yield finished


def _bury(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.join(LAST_WORD_S)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()
    worker.process.close()


def _died(worker: _Worker) -> Finished:
    worker.process.join(LAST_WORD_S)
    what = f"the process that ran it ended with code {worker.process.exitcode}"
    violation = Violation("worker-died", START_MS, f"seed {worker.has.seed}", what)
    return Finished(Result(worker.has.seed, worker.has, violation))
