"""What the guard shows: the page, the metrics, its health, and what a freeze costs."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.cli.durations import milliseconds
from sexton.client.disk_room import LogDirectory
from sexton.client.roving import RovingClient
from sexton.guard import metrics, page
from sexton.guard.daemon import Daemon
from sexton.guard.disk import Costs
from sexton.guard.status import BrokerStatus, Status, TopicStatus, long, size, status_of
from sexton.guard.web import Web, trouble_of
from sexton.machines.guard_events import GuardConfig
from sexton.machines.guard_notes import Lags
from sexton.report.prometheus import Labels

FROZEN = TopicStatus(
    "<b>orders", "frozen", ("replica 3 is offline (partition 0)",), 1_000_000, Lags("5"), True,
    86_400_000, None, 4_000_000, "a", 0,
)  # fmt: skip
FREE = TopicStatus("carts", "free", (), None, None, False, 1_000, 1_000_000, None, None, 0)
STATUS = Status(
    now_ms=1_060_000, guard="a", cluster_id="c", last_seen_ms=1_059_000, not_seen=None,
    reaction_ms=35_000, hold_ms=60_000, maintenance_until_ms=None, panic=False,
    topics=(FROZEN, FREE), brokers=(BrokerStatus(1, 9_000_000, 1_000.0, 9_000.0),), findings=(),
)  # fmt: skip


def test_the_page_says_what_is_held_and_for_how_long_that_can_go_on() -> None:
    shown = page.html(STATUS)
    for words in ("1 topic held", "replica 3 is offline", "4.0 MB", "1 min", "2 h 30 min"):
        assert words in shown, words
    assert "cannot be protected" in shown
    assert "<title>1 topic held · sexton guard</title>" in shown  # one tab among many
    assert 'aria-label="Held"' in shown  # one region among several
    assert "&lt;b&gt;orders" in shown and "<b>orders" not in shown


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (replace(STATUS, topics=()), "nothing frozen"),
        (replace(STATUS, topics=(FROZEN, replace(FREE, bare=True))), "1 topic with a replica away"),
        (replace(STATUS, not_seen="timed out"), "cannot be seen"),
        (replace(STATUS, findings=(Finding("guard-drift", "error", "t", "m"),)), "needs attention"),
        (replace(STATUS, panic=True), "guard panic --off"),
        (replace(STATUS, maintenance_until_ms=2_000_000), "Maintenance until 1970-01-01T00:33:20Z"),
    ],
)
def test_the_page_opens_with_what_matters(status: Status, words: str) -> None:
    assert words in page.html(status)


def test_every_metric_is_on_the_page_about_the_guard_in_its_own_words() -> None:
    place = Path(__file__).parents[3] / "docs/how-to/run-the-guard.md"
    row = re.compile(r"^\| `(sexton_guard_[a-z_]+)` \| ([a-z]+) \| (.+) \|$", re.MULTILINE)
    listed = {
        name: (kind, meaning) for name, kind, meaning in row.findall(place.read_text("utf-8"))
    }
    assert listed == metrics.METRICS


def test_every_sample_has_its_metric() -> None:
    counters: Counter[tuple[str, Labels]] = Counter()
    counters["sexton_guard_rounds_total", (("outcome", "done"),)] += 3
    text = metrics.text(STATUS, counters, 0.25)
    assert 'sexton_guard_topics{state="frozen"} 1' in text
    assert 'sexton_guard_held_back_bytes{topic="<b>orders"} 4000000' in text
    assert 'sexton_guard_rounds_total{outcome="done"} 3' in text
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}
    assert names <= set(metrics.METRICS)


def test_health_is_about_seeing_and_not_about_findings() -> None:
    assert trouble_of(STATUS, 60_000) is None
    found = replace(STATUS, findings=(Finding("guard-drift", "error", "t", "m"),))
    assert trouble_of(found, 60_000) is None
    assert trouble_of(replace(STATUS, now_ms=1_200_000), 60_000) is not None
    assert trouble_of(replace(STATUS, last_seen_ms=None), 60_000) is not None


def test_what_is_held_back_is_what_it_grew_since_the_freeze() -> None:
    costs = Costs()
    at = TopicPartition("orders", 0)

    def look(now_ms: int, bytes_: int, usable: int | None) -> None:
        costs.add(now_ms, 1, [LogDirectory("d", {at: bytes_}, usable)], {"orders": None})

    look(0, 1_000, 10_000)
    assert costs.held_back("orders") == 0 and costs.seconds_left(1) is None
    look(10_000, 3_000, 8_000)
    assert costs.held_back("orders") == 2_000
    assert costs.seconds_left(1) == 40.0  # 8,000 bytes at 200 a second
    look(20_000, 500, None)  # a retention limit has cut it
    assert costs.held_back("orders") == 0 and costs.seconds_left(1) is None
    look(30_000, 2_000, None)
    costs.start_over("orders", 0)
    assert costs.held_back("orders") == 1_000
    costs.start_over("orders", 35_000)  # it was thawed meanwhile, and is frozen again
    look(40_000, 2_500, None)
    assert costs.held_back("orders") == 0
    costs.keep_only({})
    assert costs.held_back("orders") is None


def test_times_and_sizes_can_be_taken_in() -> None:
    assert [long(s) for s in (None, 5, 65, 3_600, 3_700, 90_000)] == [
        "-", "5 s", "1 min 5 s", "1 h", "1 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert [size(b) for b in (None, 5, 12_500_000)] == ["-", "5 B", "12.5 MB"]
    assert [milliseconds(t, "--x") for t in ("500ms", "1.5s", "2h", "1d")] == [
        500, 1_500, 7_200_000, 86_400_000,
    ]  # fmt: skip
    for wrong in ("", "5", "soon", "-1s", "1y"):
        with pytest.raises(ConfigError):
            milliseconds(wrong, "--x")


def test_the_server_answers_four_pages_and_refuses_the_rest() -> None:
    async def ask(address: str, request: str) -> str:
        host, _, port = address.removeprefix("http://").rstrip("/").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request.encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    async def run() -> dict[str, str]:
        daemon = Daemon(RovingClient("localhost:1"), GuardConfig())
        web = Web(daemon, "127.0.0.1", 0)
        await web.start()
        try:
            return {
                path: await ask(web.address, f"GET {path} HTTP/1.1\r\n\r\n")
                for path in ("/", "/metrics", "/healthz", "/status.json", "/nope")
            } | {"POST": await ask(web.address, "POST / HTTP/1.1\r\n\r\n")}
        finally:
            await web.stop()

    answers = asyncio.run(run())
    codes = {path: answer.split(" ")[1] for path, answer in answers.items()}
    assert codes == {
        "/": "200", "/metrics": "200", "/healthz": "503", "/status.json": "200", "/nope": "404",
        "POST": "405",
    }  # fmt: skip
    told = json.loads(answers["/status.json"].partition("\r\n\r\n")[2])
    assert told["topics"] == [] and told["frozen"] == 0
    assert "sexton_guard_up 0" in answers["/metrics"]


def test_a_guard_that_has_seen_nothing_has_a_status() -> None:
    guard = Daemon(RovingClient("localhost:1"), GuardConfig()).guard
    assert status_of(guard, Costs(), 5).last_seen_ms is None
