from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from sexton.broker import logs

log = logging.getLogger("sexton.broker.somewhere")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    before = logging.getLogger("sexton")
    kept = before.handlers[:], before.level, before.propagate
    yield io.StringIO()
    before.handlers[:], before.level, before.propagate = kept


def test_a_line_says_what_happened_and_its_facts(stream: io.StringIO) -> None:
    logs.configure("info", as_json=False, stream=stream)
    log.info("broker is up", extra={"broker": 2, "why": "it was killed", "isr": [1, 3], "of": {}})
    line = stream.getvalue()
    assert line.endswith(' info     broker is up  broker=2 why="it was killed" isr=1,3 of=""\n')
    assert line[2] == line[5] == ":"


def test_json_has_the_same_facts_as_values(stream: io.StringIO) -> None:
    logs.configure("info", as_json=True, stream=stream)
    log.warning("%s is away", "broker", extra={"isr": [1, 3]})
    line = json.loads(stream.getvalue())
    assert line["level"] == "warning"
    assert line["logger"] == "sexton.broker.somewhere"
    assert line["message"] == "broker is away"
    assert line["isr"] == [1, 3]
    assert line["time"].endswith("Z")


def test_the_level_decides(stream: io.StringIO) -> None:
    logs.configure("warning", as_json=False, stream=stream)
    log.info("nobody wants to know")
    assert stream.getvalue() == ""


def test_a_traceback_is_part_of_the_line_in_json(stream: io.StringIO) -> None:
    logs.configure("info", as_json=True, stream=stream)
    try:
        raise OSError("no space")
    except OSError:
        log.exception("broker halts")
    assert "OSError: no space" in json.loads(stream.getvalue())["traceback"]


@pytest.mark.parametrize("hostile", ["a\nforged line", "\x1b[2J", "half \ud800"])
def test_nobody_forges_a_line_or_steers_the_terminal(stream: io.StringIO, hostile: str) -> None:
    logs.configure("info", as_json=False, stream=stream)
    log.info("client says %s", hostile, extra={"client": hostile})
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert line[:-1].isprintable()


def test_a_flood_is_counted_and_not_repeated(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("sexton.broker.logs.time.monotonic", lambda: now[0])
    logs.configure("info", as_json=True, stream=stream)

    def shout() -> None:
        log.warning("bad bytes")

    for _ in range(500):
        shout()
    log.warning("something else")
    now[0] += logs.PERIOD_S
    shout()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == logs.MOST_LINES + 2
    assert lines[-2]["message"] == "something else"
    assert lines[-1]["dropped_before"] == 500 - logs.MOST_LINES
