"""Guards and brokers are killed with SIGKILL at random points; a judge looks at every option.

    python -m tests.guard.chaos SEED SECONDS [kafka] [forgetful]

One seed decides what happens and in which order; how fast brokers and guards are is different every
time. There are two kinds of episodes. In a wild one anything is killed and started at any time. A
calm one begins when all is well; broker and guards are killed then, too, but once every topic is
seen frozen, it must be so at every look until the broker is back.

At any time each option is either what it was at first or frozen, never anything else. In the end
one guard is left in peace, and everything must be as it was, byte for byte.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from sexton.base.errors import PeerError, Refused
from sexton.client.client import Client
from sexton.client.config_changes import describe_topics
from sexton.lab.divergences import APACHE_KAFKA_OPTIONS
from sexton.lab.guarding import CLIENT, TopicOptions, options_of
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Lags
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import TimedOut, until

TOPICS = {
    "plain": Lags(),
    "min": Lags("5", None),
    "both": Lags("1000", "60000"),
}
BROKERS = (1, 2, 3)
MOST_GUARDS = 2
LOOK_S = 0.02  # between two looks
CALM_S = 60.0  # until one guard that nobody disturbs has done all that is to be done


def frozen(before: Lags) -> Lags:
    """Where there is a deadline it is in the way, and is raised too."""
    return Lags(FOREVER, None if before.max is None else FOREVER)


@dataclass(slots=True)
class Outcome:
    happened: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        what = ", ".join(f"{count} {name}" for name, count in sorted(self.happened.items()))
        return "\n".join([what, *self.violations])


@dataclass(slots=True)
class Chaos:
    cluster: Any
    random: Random
    forgetful: bool = False
    calm_s: float = CALM_S
    outcome: Outcome = field(default_factory=Outcome)
    guards: list[subprocess.Popen[bytes]] = field(default_factory=list)
    down: int | None = None
    must_be_frozen: bool = False
    stopping: threading.Event = field(default_factory=threading.Event)

    # ── what happens ──

    def start_guard(self, *, mortal: bool = True) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.guard.guard_process",
            self.cluster.bootstrap_servers,
        ]
        if mortal and self.random.random() < 0.7:
            command += ["--dies-at", str(self.random.randint(1, 12))]
        if self.forgetful:
            command.append("--forgetful")
        self.guards.append(subprocess.Popen(command))
        self.outcome.happened["guards started"] += 1

    def kill_guard(self) -> None:
        if self.guards:
            guard = self.guards.pop(self.random.randrange(len(self.guards)))
            guard.kill()
            guard.wait(60)
            self.outcome.happened["guards killed"] += 1

    def bury_the_dead(self) -> None:
        for guard in [each for each in self.guards if each.poll() is not None]:
            assert guard.returncode == -signal.SIGKILL, "it ended by itself"
            self.guards.remove(guard)
            self.outcome.happened["guards killed between two steps"] += 1

    def disturb_guards(self) -> None:
        self.bury_the_dead()
        if len(self.guards) < MOST_GUARDS and self.random.random() < 0.6:
            self.start_guard()
        else:
            self.kill_guard()

    def disturb_broker(self) -> None:
        if self.down is None:
            self.take_away()
        else:
            self.bring_back()

    def take_away(self) -> None:
        self.down = self.random.choice(BROKERS)
        self.cluster.kill(self.down)
        self.outcome.happened["brokers killed"] += 1

    def bring_back(self) -> None:
        if self.down is not None:
            self.must_be_frozen = False  # it may be in sync at any moment
            self.cluster.restart(self.down)
            self.down = None

    # ── episodes ──

    def wild(self) -> None:
        for _ in range(self.random.randint(3, 6)):
            self.random.choice((self.disturb_broker, self.disturb_guards))()
            time.sleep(self.random.uniform(0.0, 1.0))

    def calm(self) -> None:
        self.bring_back()
        if not self.until_all(TOPICS, "is free when all is well", self.calm_s):
            return
        self.take_away()
        if not self.until_all({t: frozen(lags) for t, lags in TOPICS.items()}, "is frozen"):
            return
        self.outcome.happened["absences judged"] += 1
        self.must_be_frozen = True
        while self.guards:
            self.kill_guard()
        for _ in range(self.random.randint(0, 3)):
            self.start_guard()
            time.sleep(self.random.uniform(0.2, 1.0))
            self.disturb_guards()
        self.bring_back()

    def until_all(self, wanted: dict[str, Lags], what: str, within_s: float = CALM_S) -> bool:
        """There is a guard all the time, if not always the same one."""

        def is_so() -> bool:
            self.bury_the_dead()
            if not self.guards:
                self.start_guard(mortal=self.random.random() < 0.5)
            return self.look() == wanted

        try:
            until(is_so, what, within_s)
        except TimedOut:
            self.outcome.violations.append(f"not every topic {what}: {self.look()}")
            return False
        return True

    # ── looking ──

    def look(self) -> dict[str, Lags] | None:
        """What is set on each topic; None if the broker that was asked does not answer."""
        node = next(each for each in BROKERS if each != self.down)
        try:
            return asyncio.run(_lags(self.address_of(node)))
        except (PeerError, Refused):
            return None

    def address_of(self, node: int) -> str:
        if isinstance(self.cluster, ApacheKafka):
            return self.cluster.nodes[node].address
        return str(self.cluster.address_of(node))

    def judge(self) -> None:
        """Until it is stopped: looks again and again."""
        while not self.stopping.wait(LOOK_S):
            strict = self.must_be_frozen
            seen = self.look()
            if seen is None:
                continue
            self.outcome.happened["looks"] += 1
            strict &= self.must_be_frozen  # the same absence: no other begins so soon
            for topic, lags in seen.items():
                is_frozen = lags == frozen(TOPICS[topic])
                if not is_frozen and lags != TOPICS[topic]:
                    self.outcome.violations.append(f"{topic} has {lags}: a value is lost")
                elif strict and not is_frozen:
                    self.outcome.violations.append(f"{topic} is free while a replica is away")
            if self.outcome.violations:
                return


async def _lags(address: str) -> dict[str, Lags]:
    async with Client(address, CLIENT) as client:
        found = (await describe_topics(client, TOPICS, [MIN_LAG, MAX_LAG])).found
    return {name: Lags(each[MIN_LAG].own, each[MAX_LAG].own) for name, each in found.items()}


def chaos(
    seed: int,
    seconds: float,
    cluster: Any,
    *,
    forgetful: bool = False,
    calm_s: float = CALM_S,
) -> Outcome:
    before = {name: _created(cluster, name, lags) for name, lags in TOPICS.items()}
    run = Chaos(cluster, Random(f"{seed} guards"), forgetful, calm_s)
    end = time.monotonic() + seconds
    with _judged(run):
        run.start_guard(mortal=False)
        while time.monotonic() < end and not run.outcome.violations:
            (run.calm if run.random.random() < 0.5 else run.wild)()
        if not run.outcome.violations:
            run.bring_back()
            run.until_all(TOPICS, "is as it was", calm_s)
    for name, options in before.items():
        if not run.outcome.violations and options_of(cluster.bootstrap_servers, name) != options:
            run.outcome.violations.append(f"{name}: some option is not as it was")
    return run.outcome


def _created(cluster: Any, name: str, lags: Lags) -> TopicOptions:
    options = {"cleanup.policy": "compact", MIN_LAG: lags.min, MAX_LAG: lags.max}
    given = {option: value for option, value in options.items() if value is not None}
    cluster.create_topic(name, [[1, 2, 3], [2, 3, 1]], given)
    return options_of(cluster.bootstrap_servers, name)


@contextmanager
def _judged(run: Chaos) -> Iterator[None]:
    judge = threading.Thread(target=run.judge, name="judge")
    judge.start()
    try:
        yield
    finally:
        run.stopping.set()
        judge.join()
        while run.guards:
            run.kill_guard()


@contextmanager
def kafka_or_embedded(kafka: bool) -> Iterator[Any]:
    if kafka:
        with ApacheKafka(KafkaConfig(nodes=3, options=APACHE_KAFKA_OPTIONS)) as apache:
            yield apache
    else:
        with EmbeddedCluster(compaction="independent") as embedded:
            yield embedded


if __name__ == "__main__":
    seed, seconds, *more = sys.argv[1:]
    with kafka_or_embedded("kafka" in more) as somewhere:
        print(chaos(int(seed), float(seconds), somewhere, forgetful="forgetful" in more))
