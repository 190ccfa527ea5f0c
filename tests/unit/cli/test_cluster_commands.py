"""`sexton cluster ...` against real brokers that run in a thread of this process."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from rich.console import ConsoleDimensions

from sexton.base.errors import ConfigError
from sexton.broker.cluster import ClusterConfig, LocalCluster
from sexton.broker.control_server import ControlServer
from sexton.broker.home import Home
from sexton.broker.options import with_options
from sexton.broker.steward import Steward
from sexton.cli.live import Memory, View, watch
from sexton.report.tables import Column, number
from sexton.testing.waiting import until as wait_until
from tests.conftest import RunSexton

QUICK = {
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 150,
    "replica.fetch.backoff.ms": 20,
    "request.timeout.ms": 1_000,
}


@contextmanager
def running(data: Path) -> Iterator[str]:
    """What `sexton up` runs, without the process around it; gives the bootstrap servers."""
    up, down = threading.Event(), threading.Event()
    bootstrap: list[str] = []

    async def run() -> None:
        home = Home(data)
        home.take()
        cluster = LocalCluster(data, with_options(ClusterConfig(brokers=3), QUICK))
        control = ControlServer(data, Steward(cluster).handle)
        cluster.start()
        await control.start()
        await cluster.ready()
        bootstrap.append(cluster.bootstrap_servers)
        up.set()
        await asyncio.to_thread(down.wait)
        await control.stop()
        cluster.stop()
        home.leave()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert up.wait(20)
        yield bootstrap[0]
    finally:
        down.set()
        thread.join(20)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def bootstrap(data: Path) -> Iterator[str]:
    with running(data) as servers:
        yield servers


@pytest.fixture
def orders(run_sexton: RunSexton, data: Path, bootstrap: str) -> Iterator[str]:
    """A compacted topic with two partitions and three replicas."""
    sizes = ("--partitions", 2, "--replication-factor", 3, "--config", "cleanup.policy=compact")
    made = run_sexton("cluster", "topics", "orders", "--create", *sizes, "--data", data)
    assert made.code == 0, made.stderr
    yield "orders"
    gone = run_sexton("cluster", "topics", "orders", "--delete", "--yes", "--data", data)
    assert gone.code == 0, gone.stderr


def test_without_consent_no_topic_is_deleted_and_no_leader_elected(
    run_sexton: RunSexton, data: Path, orders: str
) -> None:
    """The control is the fixture: with --yes the topic goes."""
    reach = ("--data", data, "--format", "json")
    before = run_sexton("cluster", "topics", orders, *reach).json["partitions"]
    for words in (("topics", orders, "--delete"), ("elect", f"{orders}:0", "--unclean")):
        refused = run_sexton("cluster", *words, *reach)
        assert refused.code == 2 and refused.json["error"]["subject"] == "--yes"
    assert run_sexton("cluster", "topics", orders, *reach).json["partitions"] == before


def test_status_is_the_same_over_both_ways(
    run_sexton: RunSexton, data: Path, bootstrap: str, orders: str
) -> None:
    own = run_sexton("cluster", "status", "--data", data, "--format", "json").json
    other = run_sexton("cluster", "status", "-b", bootstrap, "--format", "json").json
    for key in ("broker", "host", "port", "state", "active", "leaders", "in_sync", "replicas"):
        assert [b[key] for b in own["brokers"]] == [b[key] for b in other["brokers"]], key
    for key in ("topics", "partitions", "under_replicated", "leaderless", "cluster_id"):
        assert own["summary"][key] == other["summary"][key], key
    assert own["summary"]["bootstrap_servers"] == bootstrap


def test_offsets_are_the_same_over_both_ways(
    run_sexton: RunSexton, data: Path, bootstrap: str, orders: str
) -> None:
    own = run_sexton("cluster", "offsets", "--data", data, "--format", "json").json
    other = run_sexton("cluster", "offsets", "-b", bootstrap, "--format", "json").json
    assert own["replicas"] == other["replicas"]
    assert len(own["replicas"]) == 6
    assert {row["mtro"] for row in own["replicas"]} == {0}
    assert sorted(row["role"] for row in own["replicas"]) == ["follower"] * 4 + ["leader"] * 2


def test_topics_are_listed_and_shown(run_sexton: RunSexton, data: Path, orders: str) -> None:
    listed = run_sexton("cluster", "topics", "--data", data, "--format", "tsv")
    assert listed.stdout == "orders\t2\t3\t0\t0\tfalse\n"
    shown = run_sexton("cluster", "topics", "orders", "--data", data, "--format", "json").json
    assert [row["partition"] for row in shown["partitions"]] == [0, 1]
    assert all(sorted(row["isr"].split(",")) == ["1", "2", "3"] for row in shown["partitions"])


def test_a_topic_that_cannot_be_made_says_why(
    run_sexton: RunSexton, data: Path, orders: str
) -> None:
    again = run_sexton("cluster", "topics", "orders", "--create", "--data", data)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    bad = run_sexton(
        "cluster", "topics", "new", "--create", "--config", "cleanup.policy=shred", "--data", data
    )
    assert bad.code == 1
    assert "INVALID_CONFIG" in bad.stderr


def test_a_leader_is_chosen(run_sexton: RunSexton, data: Path, orders: str) -> None:
    for leader in (3, 1, 2):
        answer = run_sexton(
            "cluster", "elect", "orders-0", "--leader", leader, "--data", data, "--format", "json"
        )
        assert answer.code == 0, answer.stderr
        assert answer.json["partitions"] == [{"topic": "orders", "partition": 0, "leader": leader}]


def test_an_election_that_cannot_be_held_is_named(
    run_sexton: RunSexton, data: Path, orders: str
) -> None:
    def led_by() -> int:
        shown = run_sexton("cluster", "topics", orders, "--data", data, "--format", "json").json
        leader: int = shown["partitions"][0]["leader"]
        return leader

    preferred = led_by()
    assert run_sexton("cluster", "kill", preferred, "--data", data).code == 0
    wait_until(lambda: led_by() != preferred, "another leads")
    answer = run_sexton("cluster", "elect", "orders-0", "--data", data)
    assert answer.code == 3
    assert answer.stderr.startswith("incomplete: orders-0: the preferred leader ")
    assert answer.stderr.endswith(" (PREFERRED_LEADER_NOT_AVAILABLE)\n")
    assert run_sexton("cluster", "restart", preferred, "--data", data).code == 0
    answer = run_sexton("cluster", "elect", "orders-0", "--leader", preferred, "--data", data)
    assert answer.code == 0, "the control: it is back"


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        (("elect", "nope:0"), "nope"),
        (("elect", "orders:0", "orders:9"), "orders:9"),
        (("elect", "orders:9", "--leader", "1"), "orders:9"),
        (("reassign", "nope:0=1"), "nope"),
        (("reassign", "orders:9=1"), "orders:9"),
        (("reassign", "orders:9", "--cancel"), "orders:9"),
        (("topics", "orders", "nope"), "nope"),
        (("topics", "nope", "--delete", "--yes"), "nope"),
        (("offsets", "nope"), "nope"),
        (("clean", "nope"), "nope"),
    ],
)
def test_what_was_named_and_is_not_there_is_told_in_the_same_words_by_all(
    run_sexton: RunSexton, data: Path, orders: str, words: tuple[str, ...], subject: str
) -> None:
    answer = run_sexton("cluster", *words, "--data", data, "--format", "json")
    told = answer.json["error"]
    kind = "partition" if ":" in subject else "topic"
    assert (told["kind"], told["subject"]) == ("config-error", subject)
    assert told["why"] == f"there is no such {kind}" and told["hint"]
    assert answer.code == 2


def test_replicas_are_moved_and_back(run_sexton: RunSexton, data: Path, orders: str) -> None:
    for replicas in ("2,3", "1,2,3"):
        answer = run_sexton("cluster", "reassign", f"orders-1={replicas}", "--data", data)
        assert answer.code == 0, answer.stderr
        shown = run_sexton("cluster", "topics", "orders", "--data", data, "--format", "json").json
        assert shown["partitions"][1]["replicas"] == replicas
    under_way = run_sexton("cluster", "reassign", "--data", data, "--format", "json").json
    assert under_way["partitions"] == []


def test_a_broker_is_killed_and_restarted(run_sexton: RunSexton, data: Path, orders: str) -> None:
    def state() -> dict[int, str]:
        answer = run_sexton("cluster", "status", "--data", data, "--format", "json").json
        return {row["broker"]: row["state"] for row in answer["brokers"]}

    assert run_sexton("cluster", "kill", 2, "--data", data).code == 0
    assert state() == {1: "up", 2: "down", 3: "up"}
    restarted = run_sexton("cluster", "restart", 2, "--data", data, "--format", "jsonl")
    assert restarted.json_lines[0] == {"type": "broker", "broker": 2, "state": "up"}
    assert state() == {1: "up", 2: "up", 3: "up"}


@pytest.mark.parametrize(
    ("begin", "state", "end"), [("pause", "paused", "resume"), ("isolate", "isolated", "heal")]
)
def test_a_broker_is_troubled_and_left_in_peace(
    run_sexton: RunSexton, data: Path, bootstrap: str, begin: str, state: str, end: str
) -> None:
    begun = run_sexton("cluster", begin, 3, "--data", data, "--format", "tsv")
    assert begun.stdout == f"3\t{state}\n"
    assert run_sexton("cluster", end, 3, "--data", data, "--format", "tsv").stdout == "3\tup\n"


def test_everything_is_cleaned_now(run_sexton: RunSexton, data: Path, orders: str) -> None:
    answer = run_sexton("cluster", "clean", "orders", "--data", data, "--format", "json")
    assert answer.code == 0, answer.stderr
    assert answer.json["passes"] == []  # there is nothing in it yet


def test_a_replica_that_cannot_be_cleaned_says_why_and_is_cleaned_once_it_can(
    run_sexton: RunSexton, data: Path, bootstrap: str, orders: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number_ in range(20):
        producer.produce(orders, key=b"k", value=b"%d" % number_, partition=0)
        producer.flush(10)
    segment = data / "broker-2" / f"{orders}-0" / f"{0:020}.log"
    wait_until(lambda: segment.stat().st_size > 1_000, "all records on broker 2")
    healthy = segment.read_bytes()
    segment.write_bytes(healthy[:80] + bytes([healthy[80] ^ 1]) + healthy[81:])
    run_sexton("cluster", "clean", orders, "--data", data)
    for ways in (("--data", data), ("-b", bootstrap)):
        told = run_sexton("cluster", "offsets", orders, *ways, "--format", "json")
        assert told.code == 1, told.stderr
        (found,) = told.json["findings"]
        assert found["code"] == "uncleanable-partition" and found["where"] == "orders-0 on broker 2"
        assert f"{0:020}.log" in found["message"]
    by_broker = {r["broker"]: r["mcco"] for r in told.json["replicas"] if r["partition"] == 0}
    assert by_broker[1] > 0 and by_broker[3] > 0 and by_broker[2] == 0, "the others go on"
    segment.write_bytes(healthy)
    run_sexton("cluster", "clean", orders, "--data", data)
    assert run_sexton("cluster", "offsets", orders, "--data", data).code == 0


def test_where_no_cluster_runs_one_is_told_how_to_start_it(
    run_sexton: RunSexton, tmp_path: Path
) -> None:
    for words in (("status",), ("offsets",), ("topics",), ("kill", "1"), ("elect", "--all")):
        answer = run_sexton("cluster", *words, "--data", tmp_path, "--format", "json")
        assert answer.code == 2
        assert answer.json["error"]["why"] == "no cluster runs there"
        assert "sexton up" in answer.json["error"]["hint"]


@pytest.mark.parametrize(
    "words",
    [
        ("kill", "1"),
        ("restart", "1"),
        ("pause", "1"),
        ("resume", "1"),
        ("isolate", "1"),
        ("heal",),
        ("clean",),
    ],
    ids=lambda words: words[0],
)
def test_what_is_done_to_our_own_cluster_only_speaks_of_no_other(
    run_sexton: RunSexton, tmp_path: Path, words: tuple[str, ...]
) -> None:
    answer = run_sexton("cluster", *words, "--data", tmp_path)
    assert answer.stderr == (
        f"error: {tmp_path}: no cluster runs there\n"
        "hint: start one with `sexton up`, or name its --data\n"
    )


def test_a_cluster_that_cannot_be_reached_is_named(run_sexton: RunSexton) -> None:
    answer = run_sexton("cluster", "topics", "-b", "127.0.0.1:1")
    assert answer.code == 1
    assert "127.0.0.1:1" in answer.stderr


def test_a_login_where_nobody_asks_for_one_says_what_to_look_at(
    run_sexton: RunSexton, bootstrap: str
) -> None:
    first = bootstrap.partition(",")[0]
    login = ("sasl.mechanism=PLAIN", "sasl.username=me", "sasl.password=mine")
    settings = [
        word for each in ("security.protocol=SASL_PLAINTEXT", *login) for word in ("-X", each)
    ]
    answer = run_sexton("cluster", "status", "-b", first, *settings)
    assert answer.stderr.splitlines() == [
        f"error: {first} takes no login, PLAIN or other (ILLEGAL_SASL_STATE)",
        "hint: does the port speak what security.protocol and sasl.mechanism say?",
    ]
    assert answer.code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("kill",),
        ("kill", "two"),
        ("kill", "0"),
        ("kill", "9"),
        ("offsets", "nope"),
        ("topics", "--create"),
        ("topics", "--delete"),
        ("topics", "a", "--create", "--delete"),
        ("topics", "--partitions", "3"),
        ("topics", "a", "--create", "--config", "nonsense"),
        ("elect",),
        ("elect", "orders"),
        ("elect", "orders-0", "--all"),
        ("elect", "--all", "--leader", "1"),
        ("reassign", "orders-0"),
        ("reassign", "orders-0=one"),
        ("reassign", "--cancel"),
        ("status", "--watch"),  # without a terminal
        ("status", "-b", "nowhere"),
        ("status", "-b", "a:1", "--data", "here"),
    ],
)
def test_what_cannot_be_asked_exits_with_2(
    run_sexton: RunSexton,
    data: Path,
    bootstrap: str,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SEXTON_DATA", str(data))
    answer = run_sexton("cluster", *words)
    assert answer.stderr.startswith("error: "), answer
    assert answer.code == 2


@pytest.mark.parametrize(
    ("line", "code", "told", "subject"),
    [
        (
            "cluster topics new --create --config foo=bar", 1,
            "the topic new: Unknown topic config name: foo (INVALID_CONFIG)", "INVALID_CONFIG",
        ),
        (
            "cluster topics new --create --partitions 10001", 1,
            "new cannot have 10001 partitions; ask for 1 to 10000 (INVALID_PARTITIONS)",
            "INVALID_PARTITIONS",
        ),
        (
            "stores status nosuch", 2,
            "the group nosuch: there is no such group (GROUP_ID_NOT_FOUND)", "GROUP_ID_NOT_FOUND",
        ),
        (
            "txn describe nosuch", 2,
            (
                "the transactional id nosuch: there is no such transactional id "
                "(TRANSACTIONAL_ID_NOT_FOUND)"
            ), "TRANSACTIONAL_ID_NOT_FOUND",
        ),
    ],
)  # fmt: skip
def test_what_kafka_refuses_is_named_before_its_code(
    run_sexton: RunSexton, bootstrap: str, line: str, code: int, told: str, subject: str
) -> None:
    answer = run_sexton(*line.split(), "-b", bootstrap, "--format", "json")
    assert answer.stderr.splitlines()[0] == f"error: {told}"
    assert answer.code == code
    error = answer.json["error"]  # programs find the code where it always was
    assert (error["kind"], error["subject"]) == ("refused", subject)
    assert told == f"{error['why']} ({subject})"


def test_a_partition_where_a_topic_is_meant_is_told_so(
    run_sexton: RunSexton, data: Path, bootstrap: str
) -> None:
    answer = run_sexton("cluster", "topics", "orders:0", "-b", bootstrap)
    assert answer.stderr.splitlines() == [
        "error: the topic orders:0: no topic can have that name (INVALID_TOPIC_EXCEPTION)",
        "hint: a topic's name has letters, digits, '.', '_' and '-' only",
    ]
    assert answer.code == 2
    answer = run_sexton("cluster", "offsets", "orders:0", "--data", data)
    assert answer.stderr.splitlines() == [
        "error: orders:0: there is no such topic",
        "hint: whole topics are meant here: leave out the colon and the partition",
    ]


def test_an_answer_is_one_object_also_when_it_fails(
    run_sexton: RunSexton, data: Path, bootstrap: str
) -> None:
    answer = run_sexton("cluster", "kill", 9, "--data", data, "--format", "json")
    assert answer.json["error"]["why"] == "is not in this cluster"
    assert answer.json["ok"] is False
    json.dumps(answer.json)


# ── watching ──


def test_what_moved_is_bright_for_a_moment() -> None:
    columns = (Column("topic"), number("mcco"))
    memory = Memory()

    def style(mcco: int, now: float) -> str:
        view = View("replicas", columns, [("orders", mcco)], keys=1)
        table = memory.table(view, now, ConsoleDimensions(80, 20)).renderables[-1]  # type: ignore[union-attr]
        return str(next(iter(table.columns[1].cells)).style)

    assert style(4, 0.0) == ""
    assert style(9, 0.5) == "bold green"
    assert style(9, 1.5) == "bold green"
    assert style(9, 9.0) == ""


@pytest.mark.parametrize(
    ("width", "shown", "said"),
    [
        (40, ["topic", "log\nend", "size\nbytes"], ""),
        (14, ["topic", "log\nend"], "in a wider terminal: size bytes"),
        (1, ["topic"], "in a wider terminal: log end, size bytes"),
    ],
)
def test_a_narrow_terminal_goes_without_whole_columns_and_says_which(
    width: int, shown: list[str], said: str
) -> None:
    columns = (Column("topic"), number("log_end"), number("size_bytes"))
    view = View("replicas", columns, [("orders", 12345, 9)], 1, least=("size_bytes", "log_end"))
    seen = Memory().table(view, 0.0, ConsoleDimensions(width, 20)).renderables  # type: ignore[union-attr]
    table, *rest = seen[2:]
    headings = [column.header.strip() for column in table.columns]
    assert headings == [name.replace("\n", " ") if width == 40 else name for name in shown]
    assert [part.plain for part in rest] == ([said] if said else [])


def test_watching_needs_a_terminal() -> None:
    with pytest.raises(ConfigError, match="needs a terminal"):
        watch(lambda: View("", (), (), 0), 1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Not as a fixture: pytest puts its own stdout back before the test begins."""
    stdout = Terminal()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stdout


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_is_at_a_terminal_is_not_told_to_find_one(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="nothing moves with NO_COLOR, or with TERM=dumb"):
        watch(lambda: View("", (), (), 0), 1)


NOT_THERE = ConfigError("ordres", "there is no such topic", "see `sexton cluster topics`")


def test_what_is_wrong_from_the_start_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    at_terminal(monkeypatch)
    looks = [NOT_THERE, KeyboardInterrupt()]

    def look() -> View:
        raise looks.pop(0)

    with pytest.raises(ConfigError, match="no such topic"):
        watch(look, 0)


def test_what_is_gone_for_a_while_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster is started again, and meanwhile it is not there."""
    terminal = at_terminal(monkeypatch)
    looks: list[View | BaseException]
    looks = [View("replicas", (Column("topic"),), (), 0), NOT_THERE, KeyboardInterrupt()]

    def look() -> View:
        found = looks.pop(0)
        if isinstance(found, View):
            return found
        raise found

    watch(look, 0)
    assert not looks
    for part in (NOT_THERE.told, NOT_THERE.hint):
        assert part is not None and part in terminal.getvalue()
