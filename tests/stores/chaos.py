"""Three instances that nobody lets be, while somebody writes.

The report's strategy: they start one after the other, each start a rebalance; the line to the
coordinator of groups and transactions is late, stands still, breaks; one of them is killed, or sits
on its tasks while the group has given them to others.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from sexton.base.errors import SextonError
from sexton.client.client import Client
from sexton.client.retrying import Patience
from sexton.stores.verifying import places_in, summarize, verify
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until
from tests.stores.counting import SINK
from tests.stores.harness import (
    Process,
    inputs_committed,
    offsets_committed,
    producer_of,
    write,
)
from tests.stores.lines import Lines

COORDINATORS = ("__consumer_offsets", "__transaction_state")
NAMES = ("a", "b", "c")
SHARED = "share of the tasks"  # an instance says so after each rebalance
SHORTLY = Patience(timeout_ms=5_000)
STILL_S = (1.0, 8.0)  # a line stands still for so long: sessions here last 6 s


class ClusterBehindLines(Cluster, Protocol):
    def port_of(self, node: int) -> int: ...


class Chaos:
    def __init__(
        self,
        kafka: ClusterBehindLines,
        lines: Lines,
        partitions: int,
        home: Path,
        seed: int,
        **options: object,
    ) -> None:
        self.kafka, self.lines, self.partitions, self.home = kafka, lines, partitions, home
        self.chance = random.Random(seed)
        self.options = options
        self.written = 0
        self.done: list[str] = []  # what was done to them, for whoever reads a failure
        self.instances: dict[str, Process] = {}
        self._began_s = time.monotonic()
        self._stopping = threading.Event()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self.looks = 0  # at the group's offsets
        self.went_back: list[str] = []  # those that were less than at the look before
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    @property
    def servers(self) -> str:
        return self.kafka.bootstrap_servers

    def _write(self) -> None:
        producer, keys = producer_of(self.servers), random.Random(0)
        while not self._stopping.wait(0.05):
            chosen = [keys.randrange(self.partitions) for _ in range(50)]
            inputs = [(number, f"key_{number}") for number in chosen]
            self.written += write(self.servers, inputs, producer)

    def _watch(self) -> None:
        """No offset of the group ever goes back, whoever commits it."""
        before: dict[int, int] = {}
        while not self._stopping.wait(0.3):
            try:
                now = offsets_committed(self.servers, self.partitions, SHORTLY)
            except SextonError:
                continue  # its line is bad, too
            self.looks += 1
            self.went_back += [
                f"partition {number}: from {before[number]} to {offset}"
                for number, offset in sorted(now.items())
                if offset < before.get(number, 0)
            ]
            before = now

    # ── what is done ──

    def start(self) -> None:
        """One after the other: each is a rebalance."""
        self._writer.start()
        self._watcher.start()
        for name in NAMES:
            self._launch(name)
            self.instances[name].wait_until_said(SHARED, timeout_s=120)
        self._say("all have their share")

    def round(self) -> None:
        self._upset_a_line()
        name = self.chance.choice(NAMES)
        if self.chance.random() < 0.6:
            self._kill(name)
        else:
            self._pause(name)
        self.lines.mend()

    def _launch(self, name: str) -> None:
        self.instances[name] = Process(self.servers, self.home / name, **self.options)

    def _kill(self, name: str) -> None:
        self._after(self.chance.randrange(3, 60))
        self._say(f"{name} is killed")
        before = self.instances[name].times_said(SHARED)
        self.instances[name].kill()
        self._launch(name)
        self.instances[name].wait_until_said(SHARED, before + 1, timeout_s=120)

    def _pause(self, name: str) -> None:
        """Until the group has gone on without it; then it finds its way back.

        That others are told their share is not enough: they may be late with the same generation.
        """
        self._say(f"{name} stands still")
        paused = self.instances[name]
        others = [each for other, each in self.instances.items() if other != name]
        paused.send(signal.SIGSTOP)
        before = _generation([paused])
        try:
            why = f"the group goes on without {name}"
            until(lambda: _generation(others) > before, why, 120, self._told)
            self._after(self.chance.randrange(3, 60))
        finally:
            paused.send(signal.SIGCONT)
        why = f"{name} finds its way back"
        until(lambda: _generation([paused]) > before, why, 120, self._told)

    def _upset_a_line(self) -> None:
        coordinator = self.kafka.leader_of(self.chance.choice(COORDINATORS))
        port = self.kafka.port_of(coordinator)
        kind = self.chance.choice(("late", "cut", "still"))
        self._say(f"the line to {coordinator}: {kind}")
        self.lines.delay(port, self.chance.randrange(20, 200))
        if kind == "still":
            self.lines.stall(port)
            time.sleep(self.chance.uniform(*STILL_S))  # an outage takes its time
            self.lines.flow(port)
        if kind != "late":
            self.lines.cut(port)

    def _say(self, what: str) -> None:
        self.done.append(f"{time.monotonic() - self._began_s:.0f} s: {what}")

    def _after(self, records: int) -> None:
        goal = self.written + records
        until(lambda: self.written >= goal, "more is written", 180)

    # ── what comes of it ──

    def finish(self, timeout_s: float = 240) -> None:
        """Everything that was written is counted."""
        self._stopping.set()
        self._writer.join()
        self.lines.mend()
        self._say("nothing more is written")

        def counted() -> bool:
            return inputs_committed(self.servers, self.partitions) == self.written

        until(counted, f"{self.written} records are counted", timeout_s, self._told)
        self._watcher.join()
        self._say("everything is counted")

    def differences(self) -> list[str]:
        """Between what each instance has on its disk, once it is dead, and the changelogs."""
        self.close()
        there = [place for name in NAMES for place in places_in(self.home / name)]
        places = [place for place in there if summarize(place).checkpoint is not None]
        assert len(places) >= self.partitions

        async def compared() -> list[str]:
            async with Client(self.servers) as client:
                found = [await verify(client, place) for place in places]
            return [f"{each.place.path}: {d}" for each in found for d in each.differences]

        return asyncio.run(compared())

    def _told(self) -> str:
        logs = (each.log.read_text(errors="replace")[-3000:] for each in self.instances.values())
        return "\n".join((*self.done, *logs))

    def close(self) -> None:
        self._stopping.set()
        for each in self.instances.values():
            if each.alive:
                each.kill()


def _generation(instances: list[Process]) -> int:
    """The latest in which one of them was told what is its."""
    told = "".join(each.log.read_text(errors="replace") for each in instances)
    return max(map(int, re.findall(rf"{SHARED} in generation (\d+)", told)), default=0)


def validate(servers: str) -> tuple[int, list[dict[str, Any]]]:
    """What `sexton validate` says of the sink: its exit code, and what it found."""
    command = [sys.executable, "-m", "sexton.cli.main", "validate", SINK, "-b", servers]
    command += ["--value", "int64", "--rising", "--sequence", "int64"]  # as the counter promises
    command += ["--engine", "local", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]
