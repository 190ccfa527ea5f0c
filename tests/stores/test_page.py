"""The page about stores runs as it is written."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from sexton.stores import App, AppConfig
from sexton.testing.embedded import EmbeddedCluster
from tests.stores.harness import wait_until_done

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/keep-state.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    kafka.create_topic("words", 2)
    kafka.create_topic("totals", 2)
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "log_level": 0,
            "partitioner": "murmur2_random",  # as the page says: Java's
        }
    )
    for word in ("kafka", "log", "kafka"):
        producer.produce("words", b"", word)
    assert producer.flush(60) == 0
    said = run_page(kafka, tmp_path, records=3)
    assert said[0][0] == 2
    assert said[0][-1] == "active"
    assert {words[2] for words in said[1:]} == {"running"}


def test_the_first_run_says_nothing_that_one_has_to_guess(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    kafka.create_topic("words", 2)
    kafka.create_topic("totals", 2)
    said = run_page(kafka, tmp_path, records=0)
    assert said[0] == (0, "up to input", 0, "active")
    assert len(said) == 3
    assert not {None, -1} & {word for words in said for word in words}


def run_page(kafka: EmbeddedCluster, state: Path, *, records: int) -> list[tuple[object, ...]]:
    """What its blocks print, once so many records have been counted."""
    said: list[tuple[object, ...]] = []

    def wait_for_work(app: App) -> None:
        if records:
            wait_until_done(app, records)

    def note(*words: object) -> None:
        said.append(words)

    names: dict[str, object] = {"wait_for_work": wait_for_work, "print": note}
    for block in BLOCKS:
        text = block.replace("localhost:9092", kafka.bootstrap_servers)
        text = text.replace("    view = ", "    wait_for_work(app)\n    view = ")  # all is counted
        exec(text.replace('"state"', repr(str(state))), names)
    return said


def test_the_options_are_the_true_ones() -> None:
    known = {each.name: each.default for each in fields(AppConfig)}
    table = PAGE.partition("## Options\n")[2].partition("\n## ")[0]
    for name, default in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE):
        assert name in known
        if default.strip().isdecimal():
            assert known[name] == int(default)
