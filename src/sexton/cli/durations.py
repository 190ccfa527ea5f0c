"""Spans of time as people write them: `500ms`, `90s`, `5m`, `2h`, `1d`, `1w`."""

from __future__ import annotations

import re

from sexton.base.errors import ConfigError

_UNITS = {
    "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
    "w": 604_800_000,
}  # fmt: skip
_SPAN = re.compile(rf"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>{'|'.join(_UNITS)})")


def milliseconds(text: str, option: str) -> int:
    """`option` is where it was given, for whoever has to write it again."""
    found = span_ms(text)
    if found is None:
        hint = "as in 500ms, 90s, 15m, 6h, 2d or 1w"
        raise ConfigError(f"{option} {text}", "is not a span of time", hint)
    return found


def span_ms(text: str) -> int | None:
    """None: it is something else."""
    match = _SPAN.fullmatch(text.strip())
    return None if match is None else int(float(match["count"]) * _UNITS[match["unit"]])
