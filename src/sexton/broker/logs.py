"""What happened, one line each: for people, or as JSON for programs.

    03:41:12.123 info     broker is up  broker=1 port=9092
    {"time": "2026-11-16T03:41:12.123Z", "level": "info", "logger": "sexton.broker",
     "message": "broker is up", "broker": 1, "port": 9092}

Whoever logs passes facts as `extra={"broker": 1}`. A line never holds a line break or a control
character, whatever a client sent. And nobody fills a disk from outside: when one place in the code
speaks more than `MOST_LINES` times within `PERIOD_S`, the rest is counted and said in one line.
A program that nobody outside can make speak, and whose lines are a record of what it did, is heard
in full: `throttled=False`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import TextIO

from sexton.report.tables import one_line

MOST_LINES = 20
PERIOD_S = 10.0
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(
    level: str, *, as_json: bool, throttled: bool = True, stream: TextIO | None = None
) -> None:
    """Everything that `sexton` logs goes to `stream` (stderr), and nowhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    if throttled:
        handler.addFilter(Throttle())
    logger = logging.getLogger("sexton")
    for old in list(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def facts(record: logging.LogRecord) -> dict[str, object]:
    """What was passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone()
        stamp = f"{at:%H:%M:%S}.{int(record.msecs):03}"
        said = "".join(f" {name}={_word(value)}" for name, value in facts(record).items())
        gap = " " if said else ""
        message = one_line(record.getMessage())
        line = f"{stamp} {record.levelname.lower():<8} {message}{gap}{said}"
        if record.exc_info and record.exc_info[0] is not None:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": f"{at:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **facts(record),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class Throttle(logging.Filter):
    """Counts instead of repeating."""

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[tuple[str, int], float] = {}
        self._counts: dict[tuple[str, int], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), time.monotonic()
        if now - self._since.get(place, -PERIOD_S) >= PERIOD_S:
            dropped = self._counts.get(place, 0) - MOST_LINES
            self._since[place], self._counts[place] = now, 1
            if dropped > 0:
                record.dropped_before = dropped
            return True
        self._counts[place] += 1
        return self._counts[place] <= MOST_LINES


def _word(value: object) -> str:
    match value:
        case list() | tuple():
            text = ",".join(map(str, value))
        case dict():
            text = ",".join(f"{key}={each}" for key, each in value.items())
        case _:
            text = str(value)
    text = one_line(text)
    return json.dumps(text) if not text or " " in text or '"' in text or "=" in text else text
