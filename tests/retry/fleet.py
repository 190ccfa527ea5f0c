"""Instances as processes: started, killed, paused and woken up by a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sexton.testing.waiting import until
from tests.retry.harness import PATIENCE_S

ROOT = Path(__file__).parents[2]


class Worker:
    def __init__(self, servers: str, log: Path, *options: str) -> None:
        self.log = log
        with log.open("ab") as into:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.retry.worker", servers, *options],
                stdout=into, stderr=into, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )  # fmt: skip

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.told()
        return "ready\n" in self.log.read_text(encoding="utf-8").splitlines(keepends=True)

    def told(self) -> str:
        return self.log.read_text(encoding="utf-8")[-5_000:]

    def wait_until_ready(self) -> None:
        until(lambda: self.is_ready, "a worker is ready", PATIENCE_S, self.told)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> int:
        """As a supervisor does; how it ended."""
        self._signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)


class Fleet:
    def __init__(self, servers: str, directory: Path) -> None:
        self.servers = servers
        self.directory = directory
        self.workers: list[Worker] = []

    def start(self, *options: str) -> Worker:
        log = self.directory / f"worker-{len(self.workers)}.log"
        log.touch()
        worker = Worker(self.servers, log, *options)
        self.workers.append(worker)
        return worker

    def told(self) -> str:
        return "\n".join(f"── {worker.log.name}\n{worker.told()}" for worker in self.workers)


@contextmanager
def fleet(servers: str, directory: Path) -> Iterator[Fleet]:
    workers = Fleet(servers, directory)
    try:
        yield workers
    finally:
        for worker in workers.workers:
            worker.resume()
            worker.kill()
