"""Sizes, times and durations for people, the same wherever they are shown.

A timestamp is whatever a producer wrote: one that takes microseconds for milliseconds means a year
that no calendar knows. Such a time stays a number; nobody's report ends there.
"""

from __future__ import annotations

from datetime import UTC, datetime


def size(count: int) -> str:
    """`251.9 MB`: decimal units, as disks are sold and `du --si` counts."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.95:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


# ── times ──


def moment(timestamp_ms: int | None) -> str:
    """`2026-11-15 20:19:13 UTC`"""
    if timestamp_ms is None or timestamp_ms < 0:
        return "not known"
    at = _calendar(timestamp_ms)
    return f"{timestamp_ms} ms" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def exact_moment(timestamp_ms: int | None) -> str | None:
    """`2026-11-15 20:19:13.428`, UTC; None if there is none."""
    if timestamp_ms is None or timestamp_ms == -1:
        return None
    at = _calendar(timestamp_ms)
    if at is None:
        return str(timestamp_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"


def iso(timestamp_ms: int | None) -> str | None:
    """`2026-11-16T07:40:00Z`; None if there is none."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    at = _calendar(timestamp_ms)
    return f"{timestamp_ms} ms" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _calendar(timestamp_ms: int) -> datetime | None:
    """The second it is in; None if no calendar knows it."""
    try:
        return datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


# ── durations ──


def duration(milliseconds: int) -> str:
    """`2.5 s`, and from a minute on as `whole_seconds`."""
    seconds = max(milliseconds, 0) / 1000
    return f"{seconds:.1f} s" if seconds < 60 else whole_seconds(round(seconds))


def whole_seconds(seconds: int) -> str:
    """`42 s`, `5 min 3 s`, `3 h 20 min`"""
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
