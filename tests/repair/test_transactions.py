"""May a transaction be aborted? `sexton txn`, on transactions that hang and on those that do not.

Each refusal has its negative control: with `--force` the very data is gone that it would protect.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.cli import txn_abort
from sexton.cli.main import main
from sexton.cli.output import Output
from sexton.client.client import Client
from sexton.client.producing import BatchSender
from sexton.client.topology import PartitionPlace
from sexton.client.transacting import Transaction, end_transaction, init_producer_id
from sexton.client.transaction_lists import describe_transaction
from sexton.guard.repair_outcomes import OpenTransaction
from sexton.lab.divergences import EMBEDDED_OPTIONS
from sexton.lab.looking import consumed
from sexton.lab.stage import FOREVER_MS
from sexton.records.few import few_batch
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.repair.stages import stage

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as started:
        yield started


@pytest.fixture
def run(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> Run:
    def txn(*arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(
            ["txn", *arguments, "-b", cluster.bootstrap_servers, "--format", "json"]
        )  # fmt: skip
        return code, json.loads(capsys.readouterr().out)

    return txn


@pytest.fixture(scope="module")
def there(cluster: EmbeddedCluster) -> str:
    """A topic with one partition, and nothing in it."""
    cluster.create_topic("there", 1)
    return "there"


def abort(run: Run, topic: str, start: int, *more: str) -> tuple[int, dict[str, Any]]:
    return run("abort", f"{topic}:0", "--start-offset", str(start), *more)


def all_lose_the_end(cluster: EmbeddedCluster, topic: str, end: Callable[[], None]) -> None:
    """Broker 3 is down when a transaction ends, and then leads though it is not in sync.

    The others follow it and give up the marker: all have the data, and nobody will end it.
    """
    cluster.wait_for(topic, 0, lambda state: len(state.isr) == 3)
    before = _end_on(cluster, topic, 1)
    until(lambda: _end_on(cluster, topic, 3) == before, "broker 3 has all")
    cluster.kill(3)
    cluster.wait_for(topic, 0, lambda state: 3 not in state.isr)
    end()
    until(lambda: _end_on(cluster, topic, 1) > before, "the marker is there")
    until(lambda: _is_complete(cluster, f"{topic}-p1"), "the coordinator is done with it")
    for node in (1, 2):
        cluster.kill(node)
    cluster.restart(3)
    cluster.wait_for(topic, 0, lambda state: state.leader == -1)
    elect = ["cluster", "elect", f"{topic}-0", "--unclean", "--yes"]
    assert main([*elect, "-b", cluster.address_of(3)]) == 0
    for node in (1, 2):
        cluster.restart(node)
    cluster.wait_for(topic, 0, lambda state: len(state.isr) == 3)


def test_what_hangs_is_found_explained_and_aborted(
    cluster: EmbeddedCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    at = stage(cluster, "hangs")
    at.write("a", "1")
    at.begin("p1", "h", "1")
    all_lose_the_end(cluster, at.topic, lambda: at.abort("p1"))
    capsys.readouterr()
    at.write("b", "1")
    assert consumed(cluster.bootstrap_servers, at.topic).latest == {"a": "1"}

    code, told = run("find-hanging", "--topic", at.topic, "--max-transaction-timeout", "0")
    assert code == 1, told["error"]
    (found,) = told["transactions"]
    assert (found["start_offset"], found["ended"]) == (1, "hanging")

    code, told = run("explain", f"{at.topic}:0")
    assert code == 1, told["error"]
    assert [each["waits_at"] for each in told["replicas"]] == [1, 1, 1]
    assert {each["knows"] for each in told["answers"]} == {"open"}
    assert "sexton txn abort" in told["findings"][0]["remedy"]

    code, told = abort(run, at.topic, 1)
    assert code == 0
    assert told["summary"] == {
        "ended": "hanging", "because": told["summary"]["because"], "aborted": True, "lost": None,
    }  # fmt: skip
    until(
        lambda: consumed(cluster.bootstrap_servers, at.topic).latest == {"a": "1", "b": "1"},
        "consumers go on",
    )
    assert run("explain", f"{at.topic}:0")[0] == 0


def test_what_its_producer_begins_while_we_asked_is_not_aborted(
    cluster: EmbeddedCluster,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A replica that has missed the end takes the next transaction for the same: it begins at the
    same offset, and only the coordinator tells that there is another one."""
    at = stage(cluster, "goes-on")
    at.begin("p1", "h", "1")
    all_lose_the_end(cluster, at.topic, lambda: at.abort("p1"))
    tell = txn_abort._tell

    def begin_another(found: OpenTransaction, out: Output) -> None:
        tell(found, out)
        at.begin("p1", "live", "2")

    monkeypatch.setattr(txn_abort, "_tell", begin_another)
    capsys.readouterr()
    code, told = abort(run, at.topic, 0)
    at.commit("p1")
    assert "live" in consumed(cluster.bootstrap_servers, at.topic).latest
    assert code == 1 and "Ongoing" in told["error"]["why"], told


def test_a_transaction_under_way_is_left_to_its_producer(
    cluster: EmbeddedCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    at = stage(cluster, "under-way")
    at.begin("p1", "k", "1")
    name = f"{at.topic}-p1"
    _code, told = run("list", "--state", "Ongoing")
    assert name in [each["transactional_id"] for each in told["transactions"]]
    _code, told = run("describe", name)
    assert told["transactions"][0]["partitions"] == f"{at.topic}-0"
    _code, as_in_kafka = run("describe", "--transactional-id", name)
    assert as_in_kafka["transactions"][0]["producer_id"] == told["transactions"][0]["producer_id"]

    asked = ["txn", "find-hanging", "--topic", at.topic, "-b", cluster.bootstrap_servers]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "1 transaction wrote something within the last 15 min, and was left out" in said
    _code, told = run("find-hanging", "--topic", at.topic)
    assert told["summary"] == {"transactions": 0, "under_way": 0, "left_out": 1}

    code, told = abort(run, at.topic, 0)
    assert code == 1 and "Ongoing" in told["error"]["why"]
    assert run("explain", f"{at.topic}:0")[0] == 0  # it is no finding: it will end
    at.commit("p1")
    assert consumed(cluster.bootstrap_servers, at.topic).latest == {"k": "1"}


def test_a_topic_that_goes_while_one_looks_does_not_end_the_search(
    cluster: EmbeddedCluster, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = stage(cluster, "goes-meanwhile")
    at.begin("p1", "k", "1")
    place = Client.place

    async def place_after_it_went(self: Client, partition: TopicPartition) -> PartitionPlace:
        cluster.delete_topic(partition.topic)
        return await place(self, partition)

    monkeypatch.setattr(Client, "place", place_after_it_went)
    code, told = run("find-hanging", "--topic", at.topic, "--max-transaction-timeout", "0")
    assert (code, told["findings"]) == (3, [])
    (unread,) = told["incomplete"]
    assert unread["subject"] == f"{at.topic}-0" and "there is no topic" in unread["why"]


def test_a_state_that_kafka_does_not_have_is_wrong_usage(run: Run) -> None:
    code, told = run("list", "--state", "ongoing", "--state", "Empty")
    assert code == 2
    assert told["error"]["subject"] == "the transaction state ongoing"
    assert "Ongoing, PrepareCommit" in told["error"]["hint"]


def test_a_pattern_that_is_no_regular_expression_is_wrong_usage(run: Run) -> None:
    code, told = run("list", "--transactional-id-pattern", "*")
    assert code == 2
    assert told["error"]["subject"] == "the pattern *"
    assert "orders-.*" in told["error"]["hint"]


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ("explain nowhere:0", "nowhere"),
        ("explain there:7", "there:7"),
        ("abort --topic there --partition 7 --start-offset 0", "there:7"),
        ("abort there:7 --start-offset 0", "there:7"),
        ("describe-producers --topic there --partition 7", "there:7"),
        ("describe-producers there:7", "there:7"),
        ("explain --topic there --partition 7", "there:7"),
        ("find-hanging nowhere", "nowhere"),
        ("find-hanging there:7", "there:7"),
        ("find-hanging --topic nowhere", "nowhere"),
        ("find-hanging --topic there --partition 7", "there:7"),
        ("find-hanging --topic there --broker-id 9", "--broker-id 9"),
        ("find-hanging --broker-id 9", "--broker-id 9"),
    ],
)
def test_what_is_not_there_is_wrong_usage_and_not_called_healthy(
    there: str, run: Run, asked: str, subject: str
) -> None:
    code, told = run(*asked.split())
    assert code == 2 and told["error"]["kind"] == "config-error"
    assert told["error"]["subject"] == subject and told["error"]["hint"]


def test_where_no_topic_is_to_be_seen_nothing_is_called_healthy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Brokers leave out what a user may not describe: who alerts on this would never be alerted."""
    with EmbeddedCluster(brokers=1) as empty:
        assert main(["txn", "find-hanging", "-b", empty.bootstrap_servers]) == 3
    said = capsys.readouterr()
    assert "No transaction hangs, as far as could be asked." in said.out
    assert "none that this user may see (it takes DESCRIBE on topics)" in said.err


def test_a_replica_that_is_away_makes_it_incomplete_and_no_alarm(
    cluster: EmbeddedCluster, run: Run
) -> None:
    """Healthy transactions go on while a broker is down; nobody may call them stuck for it."""
    at = stage(cluster, "one-is-away")
    at.begin("p1", "k", "1")
    cluster.kill(3)
    for asked in (
        ("explain", f"{at.topic}:0"),
        ("find-hanging", "--topic", at.topic, "--max-transaction-timeout", "0"),
    ):
        code, told = run(*asked)
        assert (code, told["findings"]) == (3, []), asked
        (why,) = [each["why"] for each in told["incomplete"] if "offset 0" in each["subject"]]
        assert "and says Ongoing; broker 3 cannot be asked" in why
    code, told = run("explain", f"{at.topic}:0")
    assert [each["ended"] for each in told["transactions"]] == ["under way"]
    cluster.restart(3)
    cluster.wait_until_in_sync(at.topic)
    assert run("explain", f"{at.topic}:0")[0] == 0  # the control: all can be asked again
    at.commit("p1")


def stuck_beside_a_witness(cluster: EmbeddedCluster) -> str:
    """Broker 3 has missed a COMMIT that broker 1 has forgotten; broker 2 still knows all."""
    at = stage(cluster, "witness")
    at.begin("p1", "k", "1")
    at.take_away()
    at.commit("p1")
    at.write("k", "2")
    at.write("z", "1")
    cluster.kill(2)
    cluster.wait_for(at.topic, 0, lambda state: set(state.isr) == {1})
    assert at.is_forgotten(1)
    cluster.alter_topic(at.topic, {"min.compaction.lag.ms": FOREVER_MS})
    at.bring_back()
    cluster.restart(2)
    cluster.wait_for(at.topic, 0, lambda state: len(state.isr) == 3)
    at.elect()
    return at.topic


def test_what_was_committed_is_not_aborted(cluster: EmbeddedCluster, run: Run) -> None:
    topic = stuck_beside_a_witness(cluster)
    code, told = run("describe-producers", "--topic", topic, "--partition", "0")
    assert code == 0
    waiting = {
        each["broker"]
        for each in told["producers"]
        if each["current_transaction_start_offset"] is not None
    }
    assert waiting == {3}

    code, told = abort(run, topic, 0)
    assert code == 1, told["error"]
    assert {each["broker"]: each["knows"] for each in told["replicas"]} == {
        1: "unknown",
        2: "committed",
        3: "open",
    }
    assert "were committed" in told["error"]["why"] and "sexton repair" in told["error"]["hint"]
    assert consumed(cluster.bootstrap_servers, topic).records == ()  # it waits, and hides nothing

    code, told = abort(run, topic, 0, "--force")  # nobody is there to be asked
    assert code == 2 and told["error"]["subject"] == "--yes"
    assert "were committed" in told["error"]["why"] and told["summary"]["aborted"] is False
    assert consumed(cluster.bootstrap_servers, topic).records == ()

    # The negative control: what was acknowledged is hidden from now on, where broker 2 shows it.
    code, told = abort(run, topic, 0, "--force", "--yes")
    assert code == 0 and "were committed" in told["summary"]["lost"]
    offsets = {}
    for node in (3, 2):
        cluster.elect(topic, 0, node)
        offsets[node] = [each.offset for each in consumed(cluster.bootstrap_servers, topic).records]
    assert 0 in offsets[2] and 0 not in offsets[3]


def test_where_nobody_remembers_the_end_it_is_rebuilt_not_aborted(
    cluster: EmbeddedCluster, run: Run
) -> None:
    at = stage(cluster, "nobody-remembers")
    at.begin("p1", "k", "1")
    at.take_away()
    at.commit("p1")
    at.write("k", "2")
    assert at.is_forgotten(1)
    at.bring_back()
    at.elect()
    code, told = abort(run, at.topic, 0)
    assert code == 1, told["error"]
    assert {each["knows"] for each in told["replicas"]} == {"unknown", "open"}
    assert "sexton repair" in told["error"]["hint"]


def test_a_commit_that_only_the_coordinator_remembers_is_not_aborted(
    cluster: EmbeddedCluster, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    at = stage(cluster, "coordinator-remembers", bumps=True)
    topic = at.topic
    at.begin("p1", "k", "1")
    all_lose_the_end(cluster, topic, lambda: at.commit("p1"))
    capsys.readouterr()
    at.write("b", "1")

    code, told = abort(run, topic, 0)
    assert code == 1, told["error"]
    assert {each["knows"] for each in told["replicas"]} == {"open"}
    assert told["summary"]["ended"] == "unknown" and "committed" in told["error"]["why"]
    code, told = abort(run, topic, 0, "--force", "--yes")  # the negative control
    assert code == 0
    assert consumed(cluster.bootstrap_servers, topic).latest == {"b": "1"}


def _is_complete(cluster: EmbeddedCluster, transactional_id: str) -> bool:
    async def ask() -> bool:
        async with Client(cluster.bootstrap_servers) as client:
            found = await describe_transaction(client, transactional_id)
            return found.state.startswith("Complete")

    return asyncio.run(ask())


def _end_on(cluster: EmbeddedCluster, topic: str, node: int) -> int:
    async def ask() -> int:
        async with Client(cluster.bootstrap_servers) as client:
            return (await client.replica(TopicPartition(topic, 0), node).offsets()).log_end

    return asyncio.run(ask())


def test_what_another_coordinator_has_taken_over_is_not_aborted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Who was replaced, and is cut off, says Empty: it has not heard of what was begun since."""
    with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("taken-over", [[1, 2]])
        early, late = (cluster.address_of(node) for node in (3, 2))

        async def begin(servers: str) -> Transaction:
            async with Client(servers) as client:
                return await init_producer_id(client, "x", 60_000)

        asyncio.run(begin(late))
        cluster.wait_until_in_sync("__transaction_state")
        cluster.elect("__transaction_state", 0, 3)
        transaction = asyncio.run(begin(late))
        cluster.isolate(3)
        until(lambda: cluster.leader_of("__transaction_state") != 3, "another coordinator")

        async def write(*, committed: bool) -> None:
            async with Client(late) as client:
                if committed:
                    await end_transaction(client, transaction, committed=True)
                    return
                sender = BatchSender(client, transaction)
                at = TopicPartition("taken-over", 0)
                await sender.send(
                    at, bytearray(few_batch([(b"k", b"1")], time.time_ns() // 1_000_000))
                )
                await sender.flush()

        asyncio.run(write(committed=False))
        asked = ["--topic", "taken-over", "--partition", "0", "--start-offset", "0"]
        assert main(["txn", "abort", *asked, "-b", f"{early},{late}", "--format", "json"]) == 1
        assert "Ongoing" in json.loads(capsys.readouterr().out)["error"]["why"]
        asyncio.run(write(committed=True))
        assert consumed(late, "taken-over").latest == {"k": "1"}
