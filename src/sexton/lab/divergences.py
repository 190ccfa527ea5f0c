"""How replicas of a compacted topic come to disagree, each way as a script that anyone can run.

    outcome = deleted_key_lives(cluster)      # EmbeddedCluster or ApacheKafka, three brokers
    outcome.diverged, outcome.story

Brokers 1 and 2 stay; broker 3 copies the first record and then is away, or slow, or comes back
with an old disk. Meanwhile the others clean their logs and forget a witness: a tombstone, or a
marker that says how a transaction ended. Then broker 3 is back in the ISR, which is all that Kafka
asks of it, and is elected. An ordinary consumer reads the topic from it, and every replica is read
for itself.

Where each replica forgets by its own timers (Apache Kafka, `compaction.policy=independent`) they
end up with different truths. Where they ask each other first (`coordinated`), broker 3's absence
holds the witness in place, at the same timers, and it goes when broker 3 is back.

Timers are short, so that on Apache Kafka it takes seconds; on the embedded cluster time is moved.
"""

from __future__ import annotations

import importlib
import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.lab.looking import Consumed, ReplicaLog, consumed, replica_logs
from sexton.lab.tv2_writer import Tv2Writer
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until

TOPIC_OPTIONS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": 500,
    "delete.retention.ms": 1_000,
    "min.cleanable.dirty.ratio": 0,
    "message.timestamp.type": "LogAppendTime",  # segments age by the brokers' clock
    "follower.replication.throttled.replicas": "*",  # of use to Apache Kafka's throttle only
}
EMBEDDED_OPTIONS: Final = {
    "replica.fetch.wait.max.ms": 20,
    "replica.fetch.max.bytes": 100,  # a follower that is slow copies a batch at a time
    "producer.id.expiration.ms": 6_000,
}
APACHE_KAFKA_OPTIONS: Final = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3_000,
    "auto.leader.rebalance.enable": False,
    "log.cleaner.backoff.ms": 200,
    "replica.fetch.max.bytes": 100,
    "producer.id.expiration.ms": 6_000,
    "producer.id.expiration.check.interval.ms": 200,
}
STEP_MS: Final = 1_100  # a little more than delete.retention.ms, and than segment.ms
MOST_STEPS: Final = 12
FOREVER_MS: Final = (1 << 63) - 1
AWAY: Final = 3
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    diverged: bool
    forgotten: bool  # did the others forget the witness while broker 3 could not know of it?
    cleaned_up: bool  # and in the end, when everyone was back?
    seen: Consumed  # by an ordinary consumer, after the election of broker 3
    replicas: dict[int, ReplicaLog]  # at that time
    story: tuple[str, ...] = ()


@dataclass(slots=True)
class Stage:
    """A topic on three brokers, the clients that write to it, and what has happened so far."""

    cluster: Cluster
    name: str
    replicas: tuple[int, ...] = (1, 2, AWAY)
    topic: str = ""
    story: list[str] = field(default_factory=list)
    _producers: dict[str, Any] = field(default_factory=dict)
    _fillers: int = 0

    def __post_init__(self) -> None:
        self.topic = f"{self.name}-{next(_NUMBERS)}"
        self.cluster.create_topic(self.topic, [list(self.replicas)], TOPIC_OPTIONS)
        self.cluster.wait_for(self.topic, 0, lambda state: set(state.isr) == set(self.replicas))
        if self.cluster.leader_of(self.topic) != 1:
            self.cluster.elect(self.topic, 0, 1)

    # ── writing, as an application does ──

    def write(self, key: str, value: str | None) -> None:
        """A plain record, acknowledged by all replicas in sync."""
        self._send(self._producer("", {}), key, value)
        self.tell(f"write {key}={value}" if value is not None else f"delete {key}")

    def ballast(self, count: int) -> None:
        """Records that stay, each a batch of its own."""
        for number in range(count):
            self._send(self._producer("", {}), f"ballast-{number}", "x")
        self.tell(f"write {count} other keys")

    def begin(self, producer: str, key: str, value: str) -> None:
        """A transaction with one record, left open."""
        client = self._producers.get(producer)
        if client is None:
            client = self._producer(producer, {"transactional.id": f"{self.topic}-{producer}"})
            client.init_transactions(30)
        client.begin_transaction()
        self._send(client, key, value)
        self.tell(f"{producer} writes {key}={value} in a transaction")

    def commit(self, producer: str) -> None:
        self._end(self._producers[producer].commit_transaction)
        self.tell(f"{producer} commits")

    def abort(self, producer: str) -> None:
        self._end(self._producers[producer].abort_transaction)
        self.tell(f"{producer} aborts")

    def _end(self, end: Callable[[float], None]) -> None:
        """A transaction ends for its producer when it is decided, a little before its marker."""
        before = self._acknowledged()
        end(30)
        until(lambda: self._acknowledged() > before, "a marker at the end of the log")

    def _acknowledged(self) -> int:
        return max(log.offsets.high_watermark for log in self.logs().values())

    def _producer(self, name: str, more: dict[str, Any]) -> Any:
        if name not in self._producers:
            settings = {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "acks": "all",
                "linger.ms": 0,
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                **more,
            }
            self._producers[name] = importlib.import_module("confluent_kafka").Producer(settings)
        return self._producers[name]

    def _send(self, client: Any, key: str, value: str | None) -> None:
        failures: list[str] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error.str())

        text = None if value is None else value.encode()
        client.produce(self.topic, text, key.encode(), partition=0, on_delivery=delivered)
        left = client.flush(30)
        if left or failures:
            raise PeerError(self.topic, f"a record was not taken: {failures or 'no answer'}")

    # ── time ──

    def step(self) -> None:
        """Some time, and a record in a new segment, so that the one before can be cleaned."""
        self.cluster.let_time_pass(STEP_MS)
        self._fillers += 1
        self._send(self._producer("", {}), "filler", str(self._fillers))

    def steps_until(self, good: Callable[[dict[int, ReplicaLog]], bool]) -> bool:
        """Time passes until it is so; False if that does not come in `MOST_STEPS`."""
        for _ in range(MOST_STEPS):
            if good(self.logs()):
                return True
            self.step()
        return good(self.logs())

    # ── brokers ──

    def take_away(self) -> None:
        """Broker 3 dies, with what it has."""
        until(lambda: self.has_copied(1) or None, f"broker {AWAY} has the first record")
        self.cluster.kill(AWAY)
        self.cluster.wait_for(self.topic, 0, lambda state: AWAY not in state.isr)
        self.tell(f"broker {AWAY} is killed")

    def bring_back(self) -> None:
        self.cluster.restart(AWAY)
        self.wait_until_in_sync()
        self.tell(f"broker {AWAY} is back, in sync")

    def wait_until_in_sync(self) -> None:
        self.cluster.wait_for(self.topic, 0, lambda state: AWAY in state.isr)

    def elect(self) -> None:
        self.cluster.elect(self.topic, 0, AWAY)
        self.tell(f"broker {AWAY} is elected")

    def has_copied(self, count: int) -> bool:
        """Can so many offsets be read from broker 3?"""
        log = self.logs().get(AWAY)
        return log is not None and log.offsets.high_watermark >= count

    # ── looking ──

    def logs(self) -> dict[int, ReplicaLog]:
        return replica_logs(self.cluster.bootstrap_servers, self.topic)

    def _all_know_the_end(self) -> bool:
        offsets = [log.offsets for log in self.logs().values()]
        ends = {each.high_watermark for each in offsets} | {each.log_end for each in offsets}
        return len(offsets) == 3 and len(ends) == 1

    def tell(self, what: str) -> None:
        self.story.append(what)

    def outcome(
        self,
        forgotten: bool,
        diverged: Callable[[Consumed, dict[int, ReplicaLog]], bool],
        witness: int,
    ) -> Outcome:
        """Looks at everything, then waits for the witness at this offset to go everywhere."""
        until(self._all_know_the_end, "every replica has all, and knows that all have it")
        seen = consumed(self.cluster.bootstrap_servers, self.topic)
        logs = self.logs()
        shown = " ".join(f"{key}={value}" for key, value in seen.latest.items())
        self.tell(f"a consumer sees {shown or 'nothing'}, up to offset {seen.position}")
        self.cluster.alter_topic(self.topic, {"min.compaction.lag.ms": None})
        cleaned_up = self.steps_until(
            lambda logs: all(_gone(log, witness) for log in logs.values())
        )
        return Outcome(
            self.name, diverged(seen, logs), forgotten, cleaned_up, seen, logs, tuple(self.story)
        )


def _gone(log: ReplicaLog, offset: int) -> bool:
    """Was something there of which nothing is left? An emptied batch says nothing."""
    return offset < log.offsets.high_watermark and log.stored.get(offset, "()").endswith("()")


# ── the four ways of the article ──


def deleted_key_lives(cluster: Cluster) -> Outcome:
    """A key that was deleted everywhere is back: broker 3 never hears of its tombstone."""
    stage = Stage(cluster, "deleted-key-lives")
    stage.write("k", "1")
    stage.take_away()
    stage.write("k", None)
    forgotten = stage.steps_until(lambda logs: _gone(logs[1], 1))
    stage.bring_back()
    stage.elect()
    return stage.outcome(forgotten, lambda seen, _logs: "k" in seen.latest, witness=1)


def aborted_as_committed(cluster: Cluster) -> Outcome:
    """An aborted record is shown: the producer's next COMMIT settles both for broker 3."""
    stage = Stage(cluster, "aborted-as-committed")
    stage.begin("p1", "k", "1")
    stage.take_away()
    stage.abort("p1")
    forgotten = stage.steps_until(lambda logs: _gone(logs[1], 1))
    stage.bring_back()
    stage.begin("p1", "j", "2")
    stage.commit("p1")
    stage.elect()
    return stage.outcome(forgotten, lambda seen, _logs: "k" in seen.latest, witness=1)


def committed_as_aborted(cluster: Cluster) -> Outcome:
    """A committed record is hidden: the producer's next ABORT settles both for broker 3.

    A COMMIT marker goes only when all it settled has been superseded, so no key is lost by it. But
    broker 3 holds a committed record and does not show it, and tells consumers that it was aborted,
    until its own cleaner removes it. So that one can look, cleaning is put off meanwhile.
    """
    stage = Stage(cluster, "committed-as-aborted")
    stage.begin("p1", "k", "1")
    stage.take_away()
    stage.commit("p1")
    stage.write("k", "2")
    forgotten = stage.steps_until(lambda logs: _gone(logs[1], 1))
    cluster.alter_topic(stage.topic, {"min.compaction.lag.ms": FOREVER_MS})
    stage.bring_back()
    stage.begin("p1", "j", "2")
    stage.abort("p1")
    stage.elect()

    def diverged(seen: Consumed, logs: dict[int, ReplicaLog]) -> bool:
        held = not _gone(logs[AWAY], 0)
        return held and all(record.offset != 0 for record in seen.records)

    return stage.outcome(forgotten, diverged, witness=1)


def stuck(cluster: Cluster) -> Outcome:
    """A partition freezes: broker 3 waits for a marker that is gone, and so do its readers."""
    stage = Stage(cluster, "stuck")
    stage.begin("p1", "k", "1")
    stage.take_away()
    stage.commit("p1")
    stage.write("k", "2")
    forgotten = stage.steps_until(lambda logs: _gone(logs[1], 1))
    stage.bring_back()
    stage.elect()
    stage.write("z", "1")
    return stage.outcome(forgotten, lambda seen, _logs: seen.latest.get("z") is None, witness=1)


# ── and three more ──


def slow_reassignment(cluster: Cluster) -> Outcome:
    """No broker is ever down: broker 3 is being added, slowly, and a deleted key lives on it."""
    stage = Stage(cluster, "slow-reassignment", replicas=(1, 2))
    stage.write("k", "1")
    stage.ballast(24)
    cluster.slow_down(AWAY)
    try:
        cluster.begin_reassign(stage.topic, 0, [1, 2, AWAY])
        stage.tell(f"broker {AWAY} is added, and copies slowly")
        until(lambda: _holds(stage, 0) or None, f"broker {AWAY} has the first record")
        stage.write("k", None)
        gone = stage.steps_until(lambda logs: _gone(logs[1], 25))
        forgotten = gone and not stage.has_copied(26)
    finally:
        cluster.speed_up(AWAY)
    stage.wait_until_in_sync()
    stage.elect()
    return stage.outcome(forgotten, lambda seen, _logs: "k" in seen.latest, witness=25)


def _holds(stage: Stage, offset: int) -> bool:
    log = stage.logs().get(AWAY)
    return log is not None and log.offsets.log_end > offset


def stale_disk(cluster: Cluster) -> Outcome:
    """Broker 3 comes back with a disk as it was before a key was deleted, from a backup say."""
    stage = Stage(cluster, "stale-disk")
    stage.write("k", "1")
    with tempfile.TemporaryDirectory(prefix="sexton-disk-") as kept:
        image = Path(kept, "image")
        place = cluster.data_directory(AWAY) / f"{stage.topic}-0"
        cluster.stop(AWAY)
        shutil.copytree(place, image)
        stage.tell(f"an image of broker {AWAY}'s disk is made")
        cluster.restart(AWAY)
        stage.wait_until_in_sync()
        stage.write("k", None)
        forgotten = stage.steps_until(
            lambda logs: len(logs) == 3 and all(_gone(log, 1) for log in logs.values())
        )
        cluster.stop(AWAY)
        shutil.rmtree(place)
        shutil.copytree(image, place)
        stage.tell(f"broker {AWAY}'s disk is put back to the image")
    stage.bring_back()
    stage.elect()
    return stage.outcome(forgotten, lambda seen, _logs: "k" in seen.latest, witness=1)


def life_of_a_marker(cluster: Cluster, *, away: bool) -> tuple[str, ...]:
    """What there is at a marker's offset on broker 1, each state once, in order.

    First the marker is emptied, `delete.retention.ms` after its data has gone; then, when its
    producer has expired, the empty batch goes. If broker 3 is away, it has the data alone.
    """
    stage = Stage(cluster, "life-of-a-marker")
    partition = TopicPartition(stage.topic, 0)
    writer = Tv2Writer(cluster.bootstrap_servers, partition, f"{stage.topic}-p1")
    writer.write("k", "1")
    if away:
        stage.take_away()
    writer.commit()
    stage.write("k", "2")
    states: dict[str, None] = {}

    def gone(logs: dict[int, ReplicaLog]) -> bool:
        if logs[1].offsets.high_watermark <= 1:
            return False
        state = logs[1].stored.get(1, "1:gone").partition(":")[2]
        states["empty" if state == "()" else state] = None
        return state == "gone"

    stage.steps_until(gone)
    return tuple(states)


Scenario = Callable[[Cluster], Outcome]
SCENARIOS: Final[dict[str, Scenario]] = {
    "deleted-key-lives": deleted_key_lives,
    "aborted-as-committed": aborted_as_committed,
    "committed-as-aborted": committed_as_aborted,
    "stuck": stuck,
    "slow-reassignment": slow_reassignment,
    "stale-disk": stale_disk,
}
