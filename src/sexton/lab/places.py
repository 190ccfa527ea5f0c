"""Where a scenario can be played: in the simulator, on the embedded cluster, on Apache Kafka.

    with open_place("kafka=3.9.2", "independent", LocalRunner()) as place:
        ending = perform(stuck_partition, place)

Leaving the block ends every process and removes every file, however it is left.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from sexton.audit.rules import judge_open
from sexton.base.errors import ConfigError
from sexton.guard.status import Deed
from sexton.lab.divergences import APACHE_KAFKA_OPTIONS, EMBEDDED_OPTIONS, QUICK, Scenario
from sexton.lab.hands import ClientHands, Hands
from sexton.lab.stage import RETENTION, Pace
from sexton.survey.plan import Wanted
from sexton.survey.runner import Runner
from sexton.survey.survey import PartitionSurvey, Survey, run_files_survey, run_survey
from sexton.testing.cluster import Cluster

Policy = Literal["independent", "coordinated"]
HOUR_MS: Final = 3_600_000
PLACES: Final = ("sim", "embedded", "kafka")
NOTHING_MORE: Final[Mapping[str, object]] = {}


@dataclass(frozen=True, slots=True)
class Beside:
    """A guard that looks at this place."""

    news: Callable[[], list[Deed]]  # what it has done since somebody last asked
    changed_options: Callable[[str], list[str]]  # of a topic that it has let go again


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    about: str  # what it is, in a sentence
    cluster: Cluster
    policy: Policy  # what replicas do here; Apache Kafka has but one
    audit: Callable[[str], Survey]  # of a topic
    hands: Callable[[], Hands]
    pace: Callable[[Scenario, bool], Pace] = lambda _scenario, _early: QUICK
    bumps: bool | None = None  # False: transactions are those of Kafka before 4.0
    clock_is_moved: bool = False  # only when the scenario says so
    guard: Beside | None = None

    @property
    def forgets_alone(self) -> bool:
        """Does each replica forget by its own timers, with nobody to hold it back?"""
        return self.policy == "independent" and self.guard is None

    def plays(self, scenario: Scenario, early: bool) -> None:
        """ConfigError if it cannot be played here."""
        if early and self.bumps is False:
            hint = "leave out --early, or use Kafka 4.0 or newer"
            raise ConfigError("--early", "needs transactions that bump epochs (KIP-890)", hint)
        if early:
            refuse_without_early_form(scenario)


def place_called(on: str) -> tuple[str, str]:
    """Its name, and the version of Apache Kafka if one was given; ConfigError if it is none."""
    name, _, version = on.partition("=")
    if name not in PLACES or (version and name != "kafka") or on.endswith("="):
        raise ConfigError(
            f"--on {on}", "is not a place to run it", "sim, embedded, kafka or kafka=4.3.1"
        )
    return name, version


def refuse_without_early_form(scenario: Scenario) -> None:
    """ConfigError if it has none, wherever it is played."""
    if not scenario.has_early_form:
        hint = "leave out --early; `sexton lab list` tells which have an early form"
        why = f"{scenario.name} waits for no producer to expire"
        raise ConfigError("--early", why, hint)


@contextmanager
def open_place(
    on: str,
    policy: Policy | None,
    runner: Runner,
    broker_options: Mapping[str, object] = NOTHING_MORE,
) -> Iterator[Place]:
    """`on` is sim, embedded, kafka or kafka=VERSION. The simulator has its own timers."""
    name, version = place_called(on)
    if name == "kafka":
        if policy is not None:
            hint = "it always cleans as --policy independent does"
            raise ConfigError("--policy", "Apache Kafka has no choice of policies", hint)
        options = {**APACHE_KAFKA_OPTIONS, **broker_options}
        with _apache_kafka(version, runner, options) as place:
            yield place
    elif name == "embedded":
        options = {**EMBEDDED_OPTIONS, **broker_options}
        with _embedded(policy or "independent", runner, options) as place:
            yield place
    else:
        yield _simulator(policy or "independent", runner)


@contextmanager
def _embedded(policy: Policy, runner: Runner, options: Mapping[str, object]) -> Iterator[Place]:
    from sexton.testing.embedded import EmbeddedCluster

    with EmbeddedCluster(compaction=policy, options=options, frozen_clock=True) as cluster:
        yield Place(
            "embedded",
            "three brokers in this process, with ordinary clients; the clock is moved",
            cluster,
            policy,
            _over_the_wire(cluster, runner),
            lambda: ClientHands(cluster),
            clock_is_moved=True,
        )


@contextmanager
def _apache_kafka(version: str, runner: Runner, options: Mapping[str, object]) -> Iterator[Place]:
    from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
    from sexton.testing.jar_lock import shipped_versions
    from sexton.testing.kafka_jars import KAFKA_4

    chosen = version or KAFKA_4
    checked = chosen in shipped_versions()
    config = KafkaConfig(chosen, nodes=3, options=options, unlocked=not checked)
    with ApacheKafka(config) as cluster:
        about = f"Apache Kafka {chosen}, three nodes on this machine; timers are seconds"
        yield Place(
            f"kafka={chosen}",
            about if checked else f"{about}; nobody has checked these jars",
            cluster,
            "independent",
            _over_the_wire(cluster, runner),
            lambda: ClientHands(cluster),
            bumps=False if chosen.startswith("3.") else None,
        )


def _over_the_wire(cluster: Cluster, runner: Runner) -> Callable[[str], Survey]:
    def audit(topic: str) -> Survey:
        return run_survey(Wanted(cluster.bootstrap_servers, topics=(topic,)), runner)

    return audit


# ── the simulator ──


def _simulator(policy: Policy, runner: Runner) -> Place:
    from sexton.lab.sim_cluster import SimCluster
    from sexton.lab.sim_hands import SimHands

    cluster = SimCluster(policy)

    def look(topic: str) -> Survey:
        with tempfile.TemporaryDirectory(prefix="sexton-sim-") as kept:
            paths = cluster.copy_out(Path(kept))
            return run_files_survey(paths, runner, topics=(topic,))

    def audit(topic: str) -> Survey:
        first, second = look(topic), look(topic)
        judged = zip(first.partitions, second.partitions, strict=True)
        now_ms = cluster.world.now_ms
        return replace(second, partitions=tuple(_with_open(*each, now_ms) for each in judged))

    return Place(
        "sim",
        "three whole brokers on a simulated network, disks and clock, where days pass in a second;"
        " the audit reads their files",
        cluster,
        policy,
        audit,
        lambda: SimHands(cluster),
        _simulated_pace,
    )


def _with_open(first: PartitionSurvey, second: PartitionSurvey, now_ms: int) -> PartitionSurvey:
    """Files say nothing of what comes after them; two copies show who waits for ever."""
    before, after = list(first.facts.values()), list(second.facts.values())
    found = judge_open(before, after, {}, now_ms=now_ms)
    return replace(second, findings=(*second.findings, *found))


def _simulated_pace(scenario: Scenario, early: bool) -> Pace:
    """Kafka's defaults are 24 hours for tombstones and markers, and as much for producers."""
    compact = {"cleanup.policy": "compact"}
    if scenario.copies_slowly:  # nobody does so for days
        return Pace({**compact, RETENTION: 60_000}, step_ms=150_000, ballast=40)
    if early or scenario.bumps:  # emptied well before the producer expires
        return Pace({**compact, RETENTION: 4 * HOUR_MS}, step_ms=9 * HOUR_MS // 2)
    # Not for longer than a week: by then a coordinator has forgotten a transactional id.
    return Pace(compact, step_ms=25 * HOUR_MS, most_steps=5)
