"""What every command and library may do is on the page about threats, and nothing that is not."""

from __future__ import annotations

import re

from sexton.cli import registry
from sexton.retry.config import RetryConfig
from sexton.retry.topics import Names
from sexton.spark.sink_protocol import PREFIX
from sexton.stores.task import AppConfig
from sexton.stores.warmth import copies_group
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs/concepts/threat-model.md").read_text(encoding="utf-8")
PATHS = {entry.path for entry in registry.COMMANDS}
OPERATIONS = {
    "Read", "Write", "Create", "Delete", "Alter", "Describe", "DescribeConfigs", "AlterConfigs",
}  # fmt: skip


def rows_of(head: str) -> list[list[str]]:
    """The cells of each row of the table that begins with this head."""
    table = PAGE.partition(f"| {head} | reads |")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]


def covered(name: str) -> set[str]:
    """A group stands for all of its commands."""
    return {path for path in PATHS if path == name or path.startswith(f"{name} ")}


def test_every_command_has_its_line() -> None:
    named = [name for first, *_ in rows_of("command") for name in re.findall("`(.+?)`", first)]
    assert [name for name in named if not covered(name)] == [], "no such command"
    told = [path for name in named for path in covered(name)]
    assert sorted(told) == sorted(PATHS)


def test_every_line_says_what_kafka_must_allow() -> None:
    for head in ("command", "library"):
        assert rows_of(head)
        for first, _reads, _changes, needs in rows_of(head):
            asked = set(re.findall(r"\b([A-Z][A-Za-z]+)\b", re.sub("`.+?`", "", needs)))
            unknown = asked - OPERATIONS - {"KIP"}
            assert not unknown, (first, unknown)
            assert asked or needs.startswith(("none", "–", "the same")), first


def test_names_that_permissions_are_given_for_are_those_of_the_code() -> None:
    libraries = "\n".join(" ".join(row) for row in rows_of("library"))
    assert f"`{PREFIX}NAME`" in libraries
    retry = RetryConfig(Names.of("TOPIC", "GROUP"), "GROUP", {"bootstrap.servers": "x:1"})
    (begins,) = re.findall("`(sexton-retry-[^`]+)`", libraries)
    assert retry.transactional_id().startswith(begins)
    app = AppConfig("APP", "x:1")
    assert f"`{app.changelog('TASK')}`" in libraries
    assert app.transactional_id("TASK", 0).startswith("APP-")
    assert copies_group("APP", "x").startswith("APP-copies-")
