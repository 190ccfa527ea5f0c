"""What happens to a sender in the middle of a batch, by name; each happens once.

With batches as the sink sends them, a sender that has so many of them (`after`) has requests under
way and batches that wait for one.

executors   its executor is killed, and that of the next attempt
task        it fails
files       all shuffle files are lost, and it fails
slow        it waits until its copy has sent
zombie      it is stopped, and its executor is killed
wake        the one that was stopped goes on, and ends before this one does
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sexton.testing.waiting import until

FOR_S = 120.0


@dataclass(frozen=True, slots=True)
class Chaos:
    """A probe that lets a fault happen while a batch is being sent."""

    place: str
    pipeline: str
    faults: Mapping[str, str]
    after: int
    steps: Counter[str] = field(default_factory=Counter)  # a task that is run again has its own

    def __call__(self, step: str, batch: int) -> None:
        fault = self.faults.get(str(batch))
        if fault is None:
            return
        self.steps[step] += 1
        if step == "sent":
            self.mark(f"sent-{fault}").write_text(str(os.getpid()))
        if step == "sending" and self.steps[step] == self.after:
            getattr(self, f"_{fault}")()

    def mark(self, name: str) -> Path:
        return Path(self.place) / f"{self.pipeline}-{name}"

    def _once(self, name: str) -> bool:
        try:
            os.close(os.open(self.mark(name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _executors(self) -> None:
        if self._once("executor"):
            self.mark("first-pid").write_text(str(os.getpid()))
            _kill_executor()
        elif self.mark("first-pid").read_text() != str(os.getpid()) and self._once("executors"):
            _kill_executor()

    def _task(self) -> None:
        if self._once("task"):
            raise RuntimeError("this task fails")

    def _files(self) -> None:
        if self._once("files"):
            lost = list(Path(self.place).glob("work/**/shuffle_*"))
            lost += list(Path(self.place).glob("local/**/shuffle_*"))
            assert lost, "there are no shuffle files"
            for path in lost:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            raise RuntimeError("this task fails, and what it has read is lost")

    def _slow(self) -> None:
        if self._once("slow"):
            until(self.mark("sent-slow").exists, "a copy that has sent", FOR_S)

    def _zombie(self) -> None:
        if self._once("zombie"):
            # Without the others of its executor it would be told to end, and to go on at once.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.setsid()
            self.mark("zombie-pid").write_text(str(os.getpid()))
            _kill_executor()
            os.kill(os.getpid(), signal.SIGSTOP)
            self.mark("woken").touch()

    def _wake(self) -> None:
        if self._once("wake"):
            zombie = int(self.mark("zombie-pid").read_text())
            os.kill(zombie, signal.SIGCONT)
            until(lambda: _has_ended(zombie), "the end of the one that was stopped", FOR_S)


def _kill_executor() -> None:
    daemon = os.getppid()
    java = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    assert java > 1, "the executor has died before"
    os.kill(java, signal.SIGKILL)


def _has_ended(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"
