"""Time as people write it: spans such as `500ms`, `90s`, `5m`, `2h`, `1d`, `1w`, and moments.

A moment is an age before now (`6h`), a date with or without a time (`2026-11-01T00:00Z`; in UTC if
it does not say), or Kafka's milliseconds since 1970.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from sexton.base.errors import ConfigError

_UNITS = {
    "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
    "w": 604_800_000,
}  # fmt: skip
_NO_AGE = 10**11  # in 1973: whoever writes less has forgotten a unit
_MOST_MS = 100 * 365 * 86_400_000
_FOR_EVER_MS = 1 << 62  # also for more digits than a float has room for
_NUMBER = re.compile(r"-?\d{1,18}")
_SPAN = re.compile(rf"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>{'|'.join(_UNITS)})")


def milliseconds(text: str, option: str) -> int:
    """`option` is where it was given, for whoever has to write it again."""
    found = span_ms(text)
    if found is None:
        hint = "as in 500ms, 90s, 15m, 6h, 2d or 1w"
        raise ConfigError(f"{option} {text}", "is not a time span", hint)
    if found > _MOST_MS:
        raise ConfigError(f"{option} {text[:20]}", "is longer than a hundred years")
    return found


def span_ms(text: str) -> int | None:
    """None: it is something else."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        return None
    return int(min(float(match["count"]) * _UNITS[match["unit"]], _FOR_EVER_MS))


def moment_ms(text: str, option: str, now_ms: int | None = None) -> int:
    """In milliseconds since 1970, at the earliest then; an age is one before `now_ms`."""
    age_ms = span_ms(text)
    if age_ms is not None:
        return max(0, (int(time.time() * 1000) if now_ms is None else now_ms) - age_ms)
    if _NUMBER.fullmatch(text):
        if int(text) < _NO_AGE:
            hint = f"an age has a unit, as in {text.lstrip('-')}h; a time is 2026-11-01T00:00Z"
            raise ConfigError(option, f"{text} is a time long before Kafka existed", hint)
        return int(text)
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        hint = "an age such as 6h or 2d, a time such as 2026-11-01T00:00Z, or milliseconds"
        raise ConfigError(option, f"{text[:40]!r} is not a time", hint) from None
    return max(0, round((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000))
