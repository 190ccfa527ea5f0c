"""`sexton stores`: what people and programs are shown."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.cli.stores_status import in_words
from sexton.client.client import Client
from sexton.client.transacting import GROUP
from sexton.machines.stores_assignment import Share
from sexton.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sexton.stores.coordinators import Coordinator
from sexton.stores.described import Copy, describe
from sexton.stores.disks import RocksDisk
from sexton.stores.group import PROTOCOL
from sexton.stores.layout import CHECKPOINT
from sexton.stores.sayings import Claims, encode_claims, encode_share
from sexton.stores.warmth import Telling, Warmth, told_by
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import INPUT, app
from tests.stores.harness import (
    CHANGELOG,
    all_told,
    delete_before,
    make_topics,
    wait_until_active,
    wait_until_done,
    write,
)


def sexton(*words: object) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "sexton.cli.main", "stores", *map(str, words), "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_an_application_and_its_stores(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    write(servers, [(i % 2, f"key_{i % 10}") for i in range(100)])
    with app(servers, tmp_path / "a") as first, app(servers, tmp_path / "b") as second:
        wait_until_active(first, 1)
        wait_until_active(second, 1)
        wait_until_done(first, 50)
        wait_until_done(second, 50)
        until(lambda: all_told(servers), "both have told of their copies", 60)
        code, told = sexton("status", "counter", "-b", servers)
        assert code == 0
        tasks = {each["task"]: each for each in told["tasks"]}
        assert {each["owner"] for each in tasks.values()} == {"a", "b"}
        for each in tasks.values():
            assert (each["offset"], each["lag"]) == (50, 0)
            [copy] = [copy for copy in told["copies"] if copy["task"] == each["task"]]
            assert {each["owner"], copy["instance"]} == {"a", "b"}
            assert (copy["position"], copy["behind"]) == (each["changelog"], 0)
        code, told = sexton("verify", tmp_path / "a", "-b", servers)
        assert (code, told["summary"]["differences"]) == (0, 0)  # beside the running instance
    code, told = sexton("inspect", tmp_path / "a" / "counter" / "counts-0", "--entries", 1)
    assert code == 0
    assert [(each["input_position"], each["keys"]) for each in told["stores"]] == [(50, 5)]
    entry = {"store": "counter/counts-0", "key": "key_0", "value": "0x800000000000000a"}
    assert told["entries"] == [entry]
    code, told = sexton("status", "counter", "-b", servers)
    assert code == 3  # nobody runs it now


def make_stores(home: Path) -> list[Path]:
    """Two, with three keys each."""
    paths = [home / "counter" / f"counts-{number}" for number in range(2)]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        disk = RocksDisk(path)
        disk.write({b"\x01%d%d" % (number, key): b"v" for key in range(3)})
        disk.close()
    return paths


def damage_all(path: Path) -> None:
    (path / "CURRENT").write_bytes(b"nonsense\n")


def damage_checkpoint(path: Path) -> None:
    disk = RocksDisk(path)
    disk.write({CHECKPOINT: b"nonsense"})
    disk.close()


@pytest.mark.parametrize("damage", [damage_all, damage_checkpoint])
def test_a_damaged_store_hides_no_other(
    kafka: EmbeddedCluster, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damaged, _ = make_stores(tmp_path)
    damage(damaged)
    remedy = "remove this directory: it is rebuilt from its changelog"
    code, told = sexton("inspect", tmp_path, "--entries", 1)
    assert code == 3
    assert [(each["store"], each["keys"]) for each in told["stores"]] == [("counter/counts-1", 3)]
    assert [each["key"] for each in told["entries"]] == ["10"]
    [left_out] = told["incomplete"]
    assert left_out["subject"] == str(damaged) and left_out["why"].endswith(remedy)
    _, told = sexton("verify", tmp_path, "-b", kafka.bootstrap_servers)
    assert [each["why"] for each in told["incomplete"] if each["why"].endswith(remedy)] == [
        left_out["why"]
    ]


def test_entries_say_which_store_they_are_of(tmp_path: Path) -> None:
    make_stores(tmp_path)
    code, told = sexton("inspect", tmp_path, "--entries", 2)
    assert code == 0
    assert [(each["store"], each["key"]) for each in told["entries"]] == [
        ("counter/counts-0", "00"), ("counter/counts-0", "01"),
        ("counter/counts-1", "10"), ("counter/counts-1", "11"),
    ]  # fmt: skip


def test_a_copy_that_is_behind_shows_it(kafka: EmbeddedCluster) -> None:
    kafka.create_topic("counter-counts-changelog", 2)
    at = [TopicPartition("counter-counts-changelog", number) for number in range(2)]
    now_ms = round(time.time() * 1000)
    copies = {at[0]: Warmth(93, 7, now_ms), at[1]: Warmth(100, 0, now_ms - 3_600_000)}

    async def tell() -> list[dict[TopicPartition, Warmth]]:
        async with Client(kafka.bootstrap_servers) as client:
            await Telling(client, "counter", "b").tell(copies.items())
            return [await told_by(client, "counter", name) for name in ("b", "c")]

    assert asyncio.run(tell()) == [copies, {}]
    assert in_words(Copy("b", False, copies[at[0]])) == "b (7 behind)"
    assert in_words(Copy("b", True, copies[at[1]])) == "b (warming up, 0 behind 3600 s ago)"
    assert in_words(Copy("c", False, None)) == "c (has not said how far it is)"


async def _share_nothing(client: Client, claims: Claims) -> Callable[[], Awaitable[object]]:
    """An instance joins that will have no task; the group is stable when the result was called."""
    connection = await Coordinator(client, GROUP, "counter").connected()
    said = [JoinGroupRequestProtocol(PROTOCOL, encode_claims(claims, "a", -1))]
    join = partial(JoinGroupRequest, "counter", 60_000, 60_000)
    member = (await connection.ask(join("", None, "consumer", said), range(4, 10))).member_id
    joined = await connection.ask(join(member, None, "consumer", said), range(4, 10))
    assert joined.leader == member
    share = SyncGroupRequestAssignment(member, encode_share(Share(), {}))
    sync = SyncGroupRequest(
        "counter", joined.generation_id, member, None, "consumer", PROTOCOL, [share]
    )
    return lambda: connection.ask(sync)


def test_a_group_that_shares_its_tasks_is_waited_for(kafka: EmbeddedCluster) -> None:
    """Kafka does not say who its members are before each of them knows its share."""

    async def ask() -> None:
        async with Client(kafka.bootstrap_servers) as client:
            agree = await _share_nothing(client, Claims({}, [], {}))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await describe(client, "counter")
            await agree()
            found = await describe(client, "counter")
            assert (found.state, found.instances) == ("Stable", ("a",))

    asyncio.run(ask())


def test_a_task_that_never_committed_lacks_what_its_input_still_has(kafka: EmbeddedCluster) -> None:
    make_topics(kafka, 1)
    kafka.create_topic(CHANGELOG, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a")] * 10)
    delete_before(servers, TopicPartition(INPUT, 0), 7)

    async def ask() -> None:
        async with Client(servers) as client:
            agree = await _share_nothing(client, Claims({"counts": INPUT}, [], {}))
            await agree()
            [task] = (await describe(client, "counter")).tasks
            assert (task.owner, task.offset, task.input_lag) == (None, None, 3)

    asyncio.run(ask())


def test_a_store_that_is_not_its_changelog(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a"), (0, "b"), (0, "c"), (0, "c", b"forget")])
    with app(servers, tmp_path / "a") as first:
        wait_until_done(first, 4)
    path = tmp_path / "a" / "counter" / "counts-0"
    assert sexton("verify", path, "-b", servers)[0] == 0
    disk = RocksDisk(path)
    disk.write({b"\x01a": None, b"\x01b": b"other", b"\x01c": b"lives"})
    disk.close()
    code, told = sexton("verify", path, "-b", servers)
    assert code == 1
    found = {each["evidence"]["key"]: each["evidence"]["kind"] for each in told["findings"]}
    assert found == {"a": "missing", "b": "different", "c": "extra"}
    assert {each["code"] for each in told["findings"]} == {"store-divergence"}


def test_a_healthy_application_with_an_input_partition_that_is_empty(
    kafka: EmbeddedCluster, tmp_path: Path
) -> None:
    make_topics(kafka, 2)
    servers = kafka.bootstrap_servers
    write(servers, [(0, "a")])
    with app(servers, tmp_path / "a") as first:
        wait_until_active(first, 2)
        wait_until_done(first, 1)
    code, told = sexton("verify", tmp_path / "a", "-b", servers)
    assert (code, told["incomplete"], told["findings"]) == (0, [], [])
    found = {each["store"]: (each["keys"], each["differences"]) for each in told["stores"]}
    assert found == {"counter/counts-0": (1, 0), "counter/counts-1": (0, 0)}


def test_a_store_of_another_cluster(kafka: EmbeddedCluster, tmp_path: Path) -> None:
    make_topics(kafka, 1)
    write(kafka.bootstrap_servers, [(0, "a")])
    with app(kafka.bootstrap_servers, tmp_path / "a") as first:
        wait_until_done(first, 1)
    with EmbeddedCluster(1) as other:
        make_topics(other, 1)
        with app(other.bootstrap_servers, tmp_path / "b") as second:
            wait_until_active(second, 1)
        code, told = sexton("verify", tmp_path / "a", "-b", other.bootstrap_servers)
    assert code == 1
    assert [each["evidence"]["kind"] for each in told["findings"]] == ["foreign"]
