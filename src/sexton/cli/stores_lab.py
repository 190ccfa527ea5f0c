"""The lab's stories about state and offsets (`lab.stores_eos`), as `sexton lab run` tells them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sexton.base.errors import ConfigError
from sexton.base.extras import need
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.lab.eos_story import Story
    from sexton.testing.cluster import Cluster

STEPS = (number("step"), Column("what"))
VERDICTS = (Column("validator"),)


def run_story(name: str, on: str, fixed: bool, format: Format) -> None:
    from sexton.lab.performing import NotAsTold
    from sexton.lab.stores_eos import STORIES

    story = STORIES[name]
    with Output("lab run", format) as out:
        steps: list[tuple[int, str]] = []

        def tell(what: str) -> None:
            steps.append((len(steps) + 1, what))
            out.say(f"{len(steps):3}  {what}")

        _must_be_possible(story, on)  # or nothing is told at all, nor fetched
        out.say(f"{name}{', fixed' if fixed else ''}: {story.shows}\n")
        with out.progress("starting"), _cluster(story, on, fixed) as cluster:
            verdict = story.play(cluster, fixed, tell)
        if format is not Format.table:
            out.rows("steps", STEPS, steps)
        last = ", ".join(str(value) for _, value in verdict.sums[-6:])
        out.say(f"\nA read_committed consumer sees, at the end: ..., {last}")
        out.rows("verdicts", VERDICTS, [(words,) for words in verdict.words[:5]])
        if not verdict.words:
            out.say("The validator finds nothing.")
        out.summarize(scenario=name, fixed=fixed, wrong=len(verdict.words))
        if bool(verdict.words) is fixed:
            told = "nothing to be wrong" if fixed else "sums to go wrong"
            raise NotAsTold(name, f"expected {told}, found {len(verdict.words)} wrong sums")


@contextmanager
def _cluster(story: Story, on: str, fixed: bool) -> Iterator[Cluster]:
    place, _, version = on.partition("=")
    options = {**story.options, **({} if fixed else story.as_it_was)}
    if place == "embedded":
        from sexton.testing.embedded import EmbeddedCluster

        with EmbeddedCluster(story.brokers, options=options) as cluster:
            yield cluster
    else:
        from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
        from sexton.testing.kafka_jars import KAFKA_4

        config = KafkaConfig(version or KAFKA_4, story.brokers, options)
        with ApacheKafka(config) as kafka:
            yield kafka


def _must_be_possible(story: Story, on: str) -> None:
    from sexton.testing.java import find_java

    there = ("embedded", "kafka") if story.on_kafka else ("embedded",)
    place, equals, version = on.partition("=")
    if place not in there or (equals and not (place == "kafka" and version)):
        why = f"{story.name} is not played there"
        raise ConfigError(f"--on {on}", why, f"choose {', '.join(there)}")
    need(*story.packages, *(["confluent_kafka"] if place == "kafka" else []))
    if story.needs_java or place == "kafka":
        find_java()
