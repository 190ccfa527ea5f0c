"""How replicas of a compacted topic come to disagree, each way as a script that anyone can run.

    outcome = tombstone_divergence(cluster)   # EmbeddedCluster or ApacheKafka, three brokers
    outcome.diverged, outcome.story

Brokers 1 and 2 stay; broker 3 copies the first record and then is away, or slow, or comes back
with an old disk. Meanwhile the others clean their logs and forget a witness: a tombstone, or a
marker that says how a transaction ended. Then broker 3 is back in the ISR, which is all that Kafka
asks of it, and is elected. An ordinary consumer reads the topic from it, and every replica is read
for itself.

Where each replica forgets by its own timers (Apache Kafka, `compaction.policy=independent`) they
end up with different truths. Where they ask each other first (`coordinated`), broker 3's absence
holds the witness in place, at the same timers, and it goes when broker 3 is back.

A last story is not about a witness, but about where a leader's term began: broker 3 leads, and dies
with records that nobody else has.

Timers are short, so that on Apache Kafka it takes seconds; on the embedded cluster time is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sexton.base.errors import ConfigError, PeerError
from sexton.lab.hands import ClientHands, Hands
from sexton.lab.looking import Consumed, ReplicaLog
from sexton.lab.stage import (
    AWAY,
    MIN_LAG,
    NEXT,
    RETENTION,
    Look,
    Outcome,
    Pace,
    Stage,
    Watch,
    gone,
)
from sexton.testing.cluster import Cluster

TOPIC_OPTIONS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": 500,
    RETENTION: 1_000,
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
    "replica.fetch.wait.max.ms": 100,  # followers soon hear how far all have got
    "auto.leader.rebalance.enable": False,
    "log.cleaner.backoff.ms": 200,
    "replica.fetch.max.bytes": 100,
    "producer.id.expiration.ms": 6_000,
    "producer.id.expiration.check.interval.ms": 200,
}
QUICK: Final = Pace(TOPIC_OPTIONS, step_ms=1_100)
WHOLE_LIFE: Final = ("COMMIT", "empty", "gone")

Script = Callable[[Stage], Outcome]


class About(NamedTuple):
    """Roughly how many seconds it takes on two cores, start included."""

    sim: int
    embedded: int
    kafka: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One story. Called with a cluster, it is played there."""

    name: str
    shows: str
    script: Script
    about_s: About
    finding: str | None = None  # what an audit calls it; None: replicas stay the same
    first_replicas: tuple[int, ...] = (1, 2, AWAY)
    # Has it an early form? Where every transaction has an epoch of its own (KIP-890), a marker is
    # emptied after delete.retention.ms. Else it waits for its producer to expire, and goes whole.
    has_early_form: bool = False
    bumps: bool = False  # it is about such transactions in any case
    broker_options: Mapping[str, object] = field(default_factory=dict)  # beside those of the place
    # Does a guard keep it from happening? It does if a replica is away, or being filled, when the
    # others forget. That a disk is from another day nobody sees before it is read.
    guard_helps: bool = True
    held_by: str = RETENTION  # the option that keeps for a while what must not be forgotten
    copies_slowly: bool = False  # so nothing waits for days, wherever it is played
    remark: str = ""  # about the finding, if its name does not say what happened

    def __call__(
        self,
        cluster: Cluster,
        look: Look | None = None,
        *,
        watch: Watch | None = None,
        early: bool = False,
        hands: Hands | None = None,
        pace: Pace = QUICK,
        bumps: bool | None = None,
    ) -> Outcome:
        """`look` is called when the damage can be seen, `watch` after each step.

        `bumps` is for clusters whose transactions are all of one kind, such as before Kafka 4.0.
        """
        if early and not self.has_early_form:
            raise ConfigError(self.name, "has no early form", "it needs no producer to expire")
        used = hands or ClientHands(cluster)
        with_bumps = (early or self.bumps) if bumps is None else bumps
        try:
            stage = Stage(
                cluster, used, pace, self.name, look, watch, self.first_replicas, with_bumps
            )
            return self.script(stage)
        finally:
            used.close()


# ── the four ways to diverge ──


def _tombstone_divergence(stage: Stage) -> Outcome:
    stage.write("k", "1")
    stage.take_away()
    stage.write("k", None)
    forgotten = stage.is_forgotten(1)
    stage.bring_back()
    stage.elect()
    return stage.outcome(forgotten, _k_is_shown, witness=1)


def _aborted_as_committed(stage: Stage) -> Outcome:
    stage.begin("p1", "k", "1")
    stage.take_away()
    stage.abort("p1")
    forgotten = stage.is_forgotten(1)
    stage.bring_back()
    stage.begin("p1", "j", "2")
    stage.commit("p1")
    stage.elect()
    return stage.outcome(forgotten, _k_is_shown, witness=1)


def _committed_as_aborted(stage: Stage) -> Outcome:
    """A COMMIT marker goes only when all it settled has been superseded, so no key is lost by it.

    But broker 3 holds a committed record and does not show it, and tells consumers that it was
    aborted, until its own cleaner removes it. So that one can look, cleaning is put off meanwhile.
    """
    stage.begin("p1", "k", "1")
    stage.take_away()
    stage.commit("p1")
    stage.write("k", "2")
    forgotten = stage.is_forgotten(1)
    if forgotten:
        stage.put_off_cleaning()
    stage.bring_back()
    stage.begin("p1", "j", "2")
    stage.abort("p1")
    stage.elect()

    def diverged(seen: Consumed, logs: dict[int, ReplicaLog]) -> bool:
        held = not gone(logs[AWAY], 0)
        return held and all(record.offset != 0 for record in seen.records)

    return stage.outcome(forgotten, diverged, witness=1)


def _stuck_partition(stage: Stage) -> Outcome:
    stage.begin("p1", "k", "1")
    stage.take_away()
    stage.commit("p1")
    stage.write("k", "2")
    forgotten = stage.is_forgotten(1)
    stage.bring_back()
    stage.elect()
    stage.write("z", "1")
    return stage.outcome(forgotten, lambda seen, _logs: seen.latest.get("z") is None, witness=1)


def _k_is_shown(seen: Consumed, _logs: dict[int, ReplicaLog]) -> bool:
    return "k" in seen.latest


# ── and four more ──


def _slow_reassignment(stage: Stage) -> Outcome:
    stage.write("k", "1")
    tombstone = 1 + stage.ballast()
    stage.cluster.slow_down(AWAY)
    try:
        with stage.in_a_hurry():
            stage.cluster.begin_reassign(stage.topic, 0, [1, 2, AWAY])
            stage.tell(f"broker {AWAY} is added, and copies slowly")
            stage.until(lambda: stage.holds(0), f"broker {AWAY} has the first record")
            stage.write("k", None)
            forgotten = stage.is_forgotten(tombstone) and not stage.has_copied(tombstone + 1)
    finally:
        stage.cluster.speed_up(AWAY)
    stage.wait_until_in_sync()
    stage.tell(f"broker {AWAY} has copied the rest, and is in sync")
    stage.elect()
    return stage.outcome(forgotten, _k_is_shown, witness=tombstone)


def _stale_disk(stage: Stage) -> Outcome:
    stage.write("k", "1")
    stage.cluster.stop(AWAY)
    stage.hands.keep_image(stage.topic, AWAY)
    stage.tell(f"an image of broker {AWAY}'s disk is made")
    stage.cluster.restart(AWAY)
    stage.wait_until_in_sync()
    stage.write("k", None)
    forgotten = stage.passes_until(
        lambda logs: len(logs) == 3 and all(gone(log, 1) for log in logs.values())
    )
    then = "clean their logs and forget" if forgotten else "keep"
    stage.tell(f"time passes; all brokers {then} offset 1")
    stage.cluster.stop(AWAY)
    stage.hands.put_back(stage.topic, AWAY)
    stage.tell(f"broker {AWAY}'s disk is put back to the image")
    stage.bring_back()
    stage.elect()
    return stage.outcome(forgotten, _k_is_shown, witness=1)


def _late_epoch(stage: Stage) -> Outcome:
    """Whoever leads tells a former leader where its term ended: where the next one began.

    Broker 1 goes by the first batch that is left of that one. If the real first ones were cleaned,
    beyond the last record of broker 3, then broker 3 cuts off nothing.
    """
    stage.write_to_leader("a", "1")  # whoever is to write while broker 2 is held back is connected
    stage.dies_as_leader_with("k")  # at offset 2
    stage.write_fillers(8)  # from 1 or 2 on
    if "k" in stage.logs()[NEXT].latest:
        why = "was held back, and has copied k=1 all the same"
        raise PeerError(f"broker {NEXT}", why, "play it again: this machine was too slow")
    beyond = 3
    forgotten = stage.passes_until(lambda logs: gone(logs[NEXT], beyond))
    then = "cleans its log: the first batches of its term are gone" if forgotten else "keeps all"
    stage.tell(f"time passes; broker {NEXT} {then}")
    stage.cluster.begin_reassign(stage.topic, 0, [1, NEXT, AWAY])
    stage.cluster.wait_for(stage.topic, 0, lambda state: 1 in state.isr)
    stage.tell(f"broker 1 is added, and copies what broker {NEXT} has")
    stage.elect(1)
    stage.cluster.restart(AWAY)
    stage.wait_until_in_sync()
    stage.wait_until_all_know_the_end()
    then = "has kept" if "k" in stage.logs()[AWAY].latest else "has cut off"
    stage.tell(f"broker {AWAY} is back, in sync, and {then} k=1, which was never committed")
    stage.elect()
    return stage.outcome(forgotten, _k_is_shown, witness=beyond)


def _marker_lifecycle(stage: Stage) -> Outcome:
    """Nobody is away, and nobody loses anything."""
    states = marker_states(stage)

    def diverged(_seen: Consumed, logs: dict[int, ReplicaLog]) -> bool:
        return len({tuple(log.latest.items()) for log in logs.values()}) > 1

    return stage.outcome(states[-1] == "gone", diverged, witness=1, states=states)


def marker_states(stage: Stage, *, away: bool = False) -> tuple[str, ...]:
    """What there is at a marker's offset on broker 1, each state once, in order.

    First the marker is emptied, `delete.retention.ms` after its data has gone; then, when its
    producer has expired, the empty batch goes. If broker 3 is away, it has the data alone.
    """
    stage.begin("p1", "k", "1")
    if away:
        stage.take_away()
    stage.commit("p1")
    stage.write("k", "2")
    states: dict[str, None] = {}

    def has_gone(logs: dict[int, ReplicaLog]) -> bool:
        if logs[1].offsets.high_watermark <= 1:
            return False
        state = logs[1].stored.get(1, "1:gone").partition(":")[2]
        state = "empty" if state == "()" else state
        if state not in states:
            states[state] = None
            stage.tell(f"broker 1's marker at offset 1 is: {state}")
        return state == "gone"

    stage.passes_until(has_gone)
    return tuple(states)


tombstone_divergence: Final = Scenario(
    "tombstone-divergence",
    "a key that was deleted everywhere is back: broker 3 never hears of its tombstone",
    _tombstone_divergence,
    About(3, 4, 25),
    "tombstone-divergence",
)
aborted_as_committed: Final = Scenario(
    "aborted-as-committed",
    "an aborted record is shown: the producer's next COMMIT settles both for broker 3",
    _aborted_as_committed,
    About(4, 4, 35),
    "aborted-as-committed",
    has_early_form=True,
)
committed_as_aborted: Final = Scenario(
    "committed-as-aborted",
    "a committed record is hidden: the producer's next ABORT settles both for broker 3",
    _committed_as_aborted,
    About(4, 4, 40),
    "committed-as-aborted",
    has_early_form=True,
)
stuck_partition: Final = Scenario(
    "stuck-partition",
    "a partition freezes: broker 3 waits for a marker that is gone, and so do its readers",
    _stuck_partition,
    About(4, 4, 35),
    "stuck-partition",
    has_early_form=True,
)
slow_reassignment: Final = Scenario(
    "slow-reassignment",
    "a deleted key is back although no broker was ever down: broker 3 is added, slowly",
    _slow_reassignment,
    About(4, 4, 20),
    "tombstone-divergence",
    first_replicas=(1, 2),
    copies_slowly=True,
)
stale_disk: Final = Scenario(
    "stale-disk",
    "a deleted key is back with a disk from before the delete, as from a backup",
    _stale_disk,
    About(3, 4, 25),
    "tombstone-divergence",
    guard_helps=False,
)
late_epoch: Final = Scenario(
    "late-epoch",
    "a record that was never committed is shown: broker 3 led, and is told too late an offset for"
    " the end of its term",
    _late_epoch,
    About(3, 4, 30),
    "tombstone-divergence",
    first_replicas=(AWAY, NEXT),
    # A follower that is held back stays in sync. Longer sessions would not do: a guard has to hear
    # who died.
    broker_options={"replica.lag.time.max.ms": 60_000},
    held_by=MIN_LAG,
    remark="No log tells the audit that the key was never committed: it looks as if it had been"
    " deleted, hence the name, and `likely`.",
)
marker_lifecycle: Final = Scenario(
    "marker-lifecycle",
    "a marker is emptied first, and goes when its producer has expired; nobody loses anything",
    _marker_lifecycle,
    About(3, 4, 25),
    bumps=True,
    # On a busy machine, too, there is time to see the marker empty.
    broker_options={"producer.id.expiration.ms": 10_000},
)

_DIVERGENCES = (
    tombstone_divergence,
    aborted_as_committed,
    committed_as_aborted,
    stuck_partition,
    slow_reassignment,
    stale_disk,
    late_epoch,
)
SCENARIOS: Final[dict[str, Scenario]] = {each.name: each for each in _DIVERGENCES}
LAB: Final[dict[str, Scenario]] = {**SCENARIOS, marker_lifecycle.name: marker_lifecycle}
