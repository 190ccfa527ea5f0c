"""The two halves of KAFKA-17507, as they were and fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sexton.lab.stores_eos import STORIES, validated
from sexton.testing.embedded import EmbeddedCluster
from tests.stores.counting import app
from tests.stores.harness import (
    make_topics,
    regressions,
    sums,
    wait_until_done,
    write,
)

EARLY = "lab.markers.acknowledged.before.offsets.ms"


@pytest.mark.parametrize("fixed", [False, True], ids=["as it was", "fixed"])
@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_as_it_says(name: str, fixed: bool) -> None:
    story, told = STORIES[name], list[str]()
    options = {} if fixed else story.broker_options
    with EmbeddedCluster(1, options=options) as cluster:
        verdict = story.play(cluster, fixed, told.append)
    assert bool(verdict.words) is not fixed
    assert len(told) == 5


def test_the_words_are_those_of_the_report() -> None:
    said = validated([("key_17", 109), ("key_17", 110), ("key_17", 105), ("key_17", 106)])
    assert len(said) == 1
    assert said[0].endswith("Partition: 17, Key: key_17, LastValue: 110, NewValue: 105")
    assert "INCONSISTENT DUPLICATE (Read Committed)" in said[0]


def test_a_task_does_not_need_the_groups_offset(tmp_path: Path) -> None:
    """On the broker of eos-offsets an owner that is told an old offset goes on where it was."""
    with EmbeddedCluster(1, options={EARLY: 3_600_000}) as kafka:
        make_topics(kafka, 1)
        servers = kafka.bootstrap_servers
        for number in range(3):
            write(servers, [(0, "a")] * 5)
            with app(servers, tmp_path / str(number)) as one:
                wait_until_done(one, 5 * (number + 1))
        found = sums(servers, 0)
    assert regressions(found) == []
    assert len(found) == 15
