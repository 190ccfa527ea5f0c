"""The guard's page: is somebody to be woken, what is frozen and why, how long can it go on?

One file without scripts, images or anything from elsewhere; it loads itself again every few
seconds. Colour never says anything alone: each state stands there in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from sexton.guard.status import (
    FREE,
    BrokerStatus,
    Status,
    TopicStatus,
    long,
    size,
    why_held,
)
from sexton.report.html_parts import scrolled, with_commands
from sexton.report.quantities import iso

AGAIN_S = 5
MOST_FREE = 200  # topics with nothing to say; a page of thousands helps nobody

STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #666; --bad: #b3261e; --warn: #8a5a00;
  --ice: #0b5cad; --good: #1b6e3c; }
@media (prefers-color-scheme: dark) {
  :root { --dim: #9a9a9a; --bad: #ff8a80; --warn: #ffca6a; --ice: #82b7ff; --good: #7fd6a0; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem;
  padding: 0 1.2rem; }
h1 { font-size: 1.35rem; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p { margin: .2rem 0; }
.dim { color: var(--dim); }
.bad { color: var(--bad); }
.warn { color: var(--warn); }
.ice { color: var(--ice); }
.good { color: var(--good); }
.state { font-weight: 600; white-space: nowrap; }
.when { white-space: nowrap; }
.scroll { overflow-x: auto; }
:focus-visible { outline: 2px solid var(--ice); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); font-size: .85rem; white-space: nowrap; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font-size: .92em; }
ul { margin: .2rem 0; padding-left: 1.1rem; }
""".strip()

_COLOUR = {
    "free": "good", "frozen": "ice", "freezing": "warn", "thawing": "ice", "set back": "good",
    "unfrozen": "bad", "frozen by others": "warn", "unknown": "warn",
}  # fmt: skip


def html(status: Status) -> str:
    frozen = [topic for topic in status.topics if topic.state not in FREE]
    free = [topic for topic in status.topics if topic.state in FREE]
    parts = [
        _heading(status),
        _findings(status),
        _frozen_topics(status, frozen),
        _disks(status.brokers) if frozen else "",
        _lately(status),
        _free_topics(free),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{AGAIN_S}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(_verdict(status)[1])} · sexton guard</title>"
        f"<style>{STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(status: Status) -> tuple[str, str]:
    """A colour and a sentence."""
    if status.not_seen is not None or status.last_seen_ms is None:
        return "bad", "The cluster cannot be seen"
    errors = sum(1 for finding in status.findings if finding.severity == "error")
    if errors:
        return "bad", f"{errors} thing{'s need' if errors > 1 else ' needs'} attention"
    bare = sum(1 for topic in status.topics if topic.bare)
    if bare:
        return "warn", f"{bare} topic{'s' if bare > 1 else ''} with a replica away, not held yet"
    if status.frozen:
        return "ice", f"{status.frozen} topic{'s' if status.frozen > 1 else ''} held"
    return "good", "All replicas in sync, nothing frozen"


def _heading(status: Status) -> str:
    colour, sentence = _verdict(status)
    seen = "never"
    if status.last_seen_ms is not None:
        seen = f"{long(max(status.now_ms - status.last_seen_ms, 0) / 1000)} ago"
    lines = [
        '<p class="dim">sexton guard</p>',
        f'<h1 class="{colour}">{escape(sentence)}</h1>',
        (
            f'<p class="dim">cluster <code>{escape(status.cluster_id or "?")}</code>, guard '
            f"<code>{escape(status.guard)}</code>, last seen {seen}. It reacts within "
            f"{long(status.reaction_ms / 1000)} when a replica leaves; topics are released after "
            f"{long(status.hold_ms / 1000)} with all replicas in sync.</p>"
        ),
    ]
    if status.not_seen is not None:
        lines.append(f'<p class="bad">{escape(status.not_seen)}</p>')
    if status.maintenance_until_ms is not None:
        lines.append(f'<p class="warn">Maintenance until {iso(status.maintenance_until_ms)}</p>')
    if status.panic:
        lines.append(
            '<p class="warn">Panic: the default of all brokers is frozen. '
            "<code>sexton guard panic --off</code> ends it.</p>"
        )
    return "".join(lines)


def _findings(status: Status) -> str:
    loud = [each for each in status.findings if each.severity != "note"]
    if not loud:
        return ""
    rows = [
        (
            (
                f'<span class="state {"bad" if each.severity == "error" else "warn"}">'
                f"{each.severity}</span>"
            ),
            f"<code>{escape(each.where)}</code>",
            escape(each.message),
            with_commands(each.remedy or ""),
        )
        for each in loud
    ]
    return _table("Needs attention", ("severity", "where", "what", "what to do"), rows)


def _when(time_ms: int | None) -> str:
    return f'<span class="when">{escape(iso(time_ms) or "-")}</span>'


def _frozen_topics(status: Status, topics: Sequence[TopicStatus]) -> str:
    if not topics:
        return ""
    rows = [
        (
            f"<code>{escape(topic.topic)}</code>",
            f'<span class="state {_COLOUR.get(topic.state, "")}">{escape(topic.state)}</span>',
            "<br>".join(map(escape, why_held(status, topic))),
            _when(topic.since_ms),
            _since(status, topic),
            size(topic.held_back_bytes),
        )
        for topic in topics
    ]
    head = ("topic", "state", "why", "since", "for", "held back")
    return _table("Held", head, rows, numbers=(4, 5))


def _since(status: Status, topic: TopicStatus) -> str:
    return "-" if topic.since_ms is None else long((status.now_ms - topic.since_ms) / 1000)


def _disks(brokers: Iterable[BrokerStatus]) -> str:
    rows = [
        (
            str(each.broker),
            size(each.usable_bytes),
            f"{size(int(each.bytes_per_s))}/s",
            _full_in(each),
        )
        for each in brokers
    ]
    head = ("broker", "room on its fullest disk", "growth of held topics", "full in")
    return _table("Disks", head, rows, numbers=(1, 2, 3))


def _full_in(broker: BrokerStatus) -> str:
    if broker.usable_bytes is None:
        return "-"
    return "does not fill" if broker.seconds_left is None else long(broker.seconds_left)


def _lately(status: Status) -> str:
    """What this guard has done, the newest first."""
    if not status.lately:
        return ""
    rows = [
        (
            _when(deed.at_ms),
            escape(deed.what),
            f"<code>{escape(deed.topic)}</code>",
            "<br>".join(map(escape, deed.why)),
        )
        for deed in reversed(status.lately)
    ]
    return _table("Recent actions", ("when", "what", "topic", "why"), rows)


def _free_topics(topics: Sequence[TopicStatus]) -> str:
    if not topics:
        return '<p class="dim">No other compacted topic.</p>'
    rows = [
        (
            f"<code>{escape(topic.topic)}</code>",
            '<span class="good">can be protected</span>'
            if topic.protected
            else '<span class="warn">cannot be protected</span>',
            long((topic.delete_retention_ms or 0) / 1000),
        )
        for topic in topics[:MOST_FREE]
    ]
    left = len(topics) - len(rows)
    more = f'<p class="dim">and {left} more</p>' if left else ""
    head = ("topic", "promise", "delete.retention.ms")
    return _table(f"Free ({len(topics)})", head, rows, numbers=(2,)) + more


def _table(
    title: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
) -> str:
    def cells(tag: str, texts: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if at in numbers else ''}>{text}</{tag}>"
            for at, text in enumerate(texts)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    table = f"<table><tr>{cells('th', head)}</tr>{body}</table>"
    return f"<h2>{title}</h2>{scrolled(table, title)}"
