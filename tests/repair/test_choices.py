"""What a person has decided about a key is written, with all that goes with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sexton.audit.finding import AuditFinding, Verdict
from sexton.base.partitions import TopicPartition
from sexton.cli import repair_run
from sexton.cli.main import main
from sexton.client.client import Client
from sexton.guard.repair_choices import Choice, publish
from sexton.lab.divergences import EMBEDDED_OPTIONS
from sexton.lab.looking import consumed
from sexton.records import Record, decode
from sexton.testing.embedded import EmbeddedCluster
from tests.repair.stages import diverged

AT = TopicPartition("orders", 0)
HEADERS = (("trace", b"1"), ("nothing", None), ("trace", b"2"))
FINDING = AuditFinding(
    "missing-record", "error", AT, (1,), "m", b"k", {1: 0}, {1: "aa"}, (),
    Verdict(None, "unknown", "gone"), None, None, "r", (),
)  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1) as started:
        started.create_topic(AT.topic, 1)
        producer = Producer({"bootstrap.servers": started.bootstrap_servers})
        producer.produce(AT.topic, b"v" * 50_000, b"k", headers=[*HEADERS])
        assert producer.flush(60) == 0
        yield started


def written(cluster: EmbeddedCluster, choice: Choice) -> Record:
    """The record that comes of it."""

    async def work() -> Record:
        async with Client(cluster.bootstrap_servers) as client:
            offset = await publish(client, choice, [FINDING])
            async for chunk in client.replica(AT, 1).read(offset):
                for record in decode(chunk.data).records():
                    if record.offset == offset:
                        return record
        raise AssertionError("it is not there")

    return asyncio.run(work())


def test_a_value_that_is_kept_keeps_its_headers(cluster: EmbeddedCluster) -> None:
    record = written(cluster, Choice(AT, b"k", keep=True, broker=1))
    assert (record.key, record.value, record.headers) == (b"k", b"v" * 50_000, HEADERS)


def test_a_tombstone_has_neither_value_nor_headers(cluster: EmbeddedCluster) -> None:
    record = written(cluster, Choice(AT, b"k", keep=False))
    assert (record.key, record.value, record.headers) == (b"k", None, ())


# ── the key is written by its producer meanwhile ──


@pytest.fixture(scope="module")
def divergent() -> Iterator[tuple[EmbeddedCluster, dict[str, str]]]:
    """In each topic the deleted keys k and l live on broker 3, which leads."""
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as started:
        names = ("value", "tombstone")
        keys = dict.fromkeys(names, "kl")
        yield started, diverged(started, dict.fromkeys(names, (1, 2, 3)), keys)


@pytest.mark.parametrize(
    ("name", "option"), [("value", "--keep-value"), ("tombstone", "--publish-tombstone")]
)
def test_what_was_written_since_the_audit_is_not_buried(
    divergent: tuple[EmbeddedCluster, dict[str, str]],
    name: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who is asked takes his time to answer, and an audit of a large topic takes hours."""
    cluster, topics = divergent
    topic = topics[name]

    def takes_his_time(*_: object) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce(topic, b"new", b"k")
        assert producer.flush(60) == 0

    monkeypatch.setattr(repair_run, "consent", takes_his_time)
    where = ["-b", cluster.bootstrap_servers, "--state", str(tmp_path / "notes.json")]
    chosen = [option, "l", option, "k"]
    code = main(["repair", topic, *where, "--show-keys", "--format", "json", *chosen])
    told = json.loads(capsys.readouterr().out)
    latest = consumed(cluster.bootstrap_servers, topic).latest
    assert latest["k"] == "new"
    assert code == 2 and told["error"]["subject"] == "the key k", told
    assert latest["l"] == "1", "and nothing else was written"
