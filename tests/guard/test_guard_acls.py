"""Least privilege: what the documentation says is enough is, and what is missing is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.testing.apache_kafka import KafkaConfig
from tests.conftest import Result, RunSexton
from tests.guard.authorized_kafka import (
    CLUSTER_NAME,
    Allowed,
    AuthorizedKafka,
    write_properties,
)

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

PAGE = Path(__file__).parents[2] / "docs/how-to/run-the-guard.md"
ROW = re.compile(r"^\| (topic|cluster)(?: `([^`]+)`)? \| ([A-Za-z, ]+) \|", re.MULTILINE)


def documented() -> list[Allowed]:
    """The rows of the table in the documentation."""
    return [
        Allowed(kind, name or CLUSTER_NAME, tuple(operations.split(", ")))
        for kind, name, operations in ROW.findall(PAGE.read_text("utf-8"))
    ]


SEE, CHANGE, MEMORY, CLUSTER, PANIC = documented()
USERS = {
    "guard": (SEE, CHANGE, MEMORY, CLUSTER),
    "panicking": (SEE, CHANGE, MEMORY, CLUSTER, PANIC),
    "without-memory": (SEE, CHANGE, CLUSTER),
    "only-reading": (SEE, CHANGE, CLUSTER, replace(MEMORY, operations=("Read",))),
    "without-changes": (SEE, MEMORY, CLUSTER),
    "without-cluster": (SEE, CHANGE, MEMORY),
    "without-topics": (replace(SEE, name="_sexton_guard"), MEMORY, CLUSTER),
    "nobody": (),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[AuthorizedKafka]:
    with AuthorizedKafka(KafkaConfig(nodes=2), USERS) as two:
        two.create_topic("orders", [[1, 2]], {"cleanup.policy": "compact"})
        two.allow(USERS)
        yield two


@pytest.fixture
def guard(kafka: AuthorizedKafka, run_sexton: RunSexton, tmp_path: Path) -> RunSexton:
    def run(user: str, *words: str) -> Result:
        properties = write_properties(tmp_path / f"{user}.properties", user)
        reach = ("-b", kafka.for_users, "--command-config", properties, "--format", "json")
        return run_sexton("guard", *words, *reach)

    return run


def test_the_documented_acls_are_enough(guard: RunSexton) -> None:
    """They come first: the memory is made with them, too."""
    for words in ("plan", "run --once", "freeze --all", "status", "thaw --all"):
        answer = guard("guard", *words.split())
        assert answer.code == 0, answer.stderr
    for words in ("panic --yes", "panic --off"):
        answer = guard("panicking", *words.split())
        assert answer.code == 0, answer.stderr


@pytest.mark.parametrize(
    ("user", "words", "missing"),
    [
        ("nobody", "status", "topic _sexton_guard: this user has no ACL that allows Describe"),
        ("guard", "run --once --memory-topic elsewhere", "no ACL that allows Create on it"),
        ("without-memory", "run --once", "topic _sexton_guard: this user has no ACL that allows"),
        ("without-memory", "freeze orders", "no ACL that allows Read on it"),
        ("only-reading", "freeze orders", "no ACL that allows Write on it"),
        (
            "guard",
            "panic --yes",
            "the cluster: this user has no ACL that allows DescribeConfigs on it",
        ),
    ],
)
def test_the_acl_that_is_missing_is_named(
    guard: RunSexton, user: str, words: str, missing: str
) -> None:
    answer = guard(user, *words.split())
    assert answer.code == 1
    assert missing in answer.stderr


@pytest.mark.parametrize(
    ("user", "code", "remedy"),
    [
        ("without-changes", "guard-refused", "allow AlterConfigs on the topic"),
        ("without-cluster", "guard-moves", "allow Describe on the cluster"),
    ],
)
def test_what_a_guard_cannot_do_without_is_a_finding(
    guard: RunSexton, user: str, code: str, remedy: str
) -> None:
    answer = guard(user, "freeze", "orders")
    (finding,) = [each for each in answer.json["findings"] if each["code"] == code]
    assert remedy in finding["remedy"]
    guard("guard", "thaw", "--all")


def test_a_guard_that_may_see_no_topic_does_not_say_that_all_is_well(guard: RunSexton) -> None:
    assert guard("guard", "run", "--once").code == 0  # the memory is there
    answer = guard("without-topics", "run", "--once")
    assert answer.code == 1
    (finding,) = [each for each in answer.json["findings"] if each["code"] == "guard-sees-nothing"]
    assert "allow Describe" in finding["remedy"]
