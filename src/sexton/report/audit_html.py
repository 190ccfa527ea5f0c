"""The audit as one HTML file that a person reads, prints and sends on.

    verdict in one sentence ─▶ what was read, and what was not ─▶ topics ─▶ findings, with pictures

The page is put together from strings; a template engine would be one more dependency for a page
that has no loops worth its language. In exchange there is one rule: text becomes HTML by `_e` only,
whether it is ours or was written into a log by someone who hoped that it would be shown. There is
no script, and a content security policy that would not let one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from sexton.audit.finding import AuditFinding
from sexton.audit.remedies import runbook
from sexton.report.audit_order import in_reading_order, to_draw
from sexton.report.audit_page import AuditPage, PartitionRead, TopicRead, topics
from sexton.report.audit_picture import Picture, picture_of
from sexton.report.audit_steps import Advice, Step
from sexton.report.audit_svg import svg
from sexton.report.audit_words import (
    STANDINGS,
    began,
    key_text,
    many,
    meaning,
    node_name,
    sentence,
    verdict_sentence,
    who_is_right,
)
from sexton.report.audit_words import escaped as _e
from sexton.report.findings import describe_counts
from sexton.report.html_parts import head, scrolled, table, with_commands
from sexton.report.incomplete import by_reason
from sexton.report.quantities import duration, moment, size

MOST_CARDS = 50  # findings with a picture; the rest is a table
MOST_ROWS = 2_000  # of that table; nobody reads more, and Parquet has them all
MOST_PARTITIONS = 500  # shown replica by replica
MOST_AGREEING = 20  # topics above the findings: more of them are folded away
PICTURE_COLUMNS = 10


def html_page(page: AuditPage) -> str:
    """The whole file."""
    return "".join(_document(page))


def _document(page: AuditPage) -> Iterator[str]:
    yield head(f"sexton audit: {STANDINGS[page.standing]}")
    yield from _top(page)
    yield "<main>\n"
    yield from _not_read(page)
    yield from _topics(page)
    yield from _findings(page)
    yield from _options(page)
    yield f"</main>\n<footer>Made by sexton {_e(page.version)}. {_redacted(page)}</footer>\n"
    yield "</body>\n</html>\n"


# ── the beginning: verdict, and what it rests on ──


def _top(page: AuditPage) -> Iterator[str]:
    where = "Copies of data directories" if page.offline else f"Cluster {page.cluster_id or ''}"
    reached = f" at {page.bootstrap}" if page.bootstrap else ""
    yield '<header class="top">\n'
    yield f'<p class="eyebrow">sexton audit · {_e(where.strip() + reached)}</p>\n'
    yield f"<h1>{_e(verdict_sentence(page))}</h1>\n"
    yield f'<p><span class="badge {page.standing}">{_e(STANDINGS[page.standing])}</span> '
    found = _e(describe_counts(page.counts))
    yield f'<a href="#findings">{found}</a>. ' if page.findings else f"{found}. "
    if page.acknowledged:
        noun = many(page.acknowledged, "finding")
        yield f"{_e(noun)} more acknowledged in the baseline, and not shown. "
    yield f'<span class="soft">{_e(moment(page.started_ms))}, in '
    yield f"{_e(duration(page.finished_ms - page.started_ms))}.</span></p>\n"
    replicas = list(page.replicas)
    yield _tiles(
        ("topics", f"{len({each.partition.topic for each in page.partitions}):,}"),
        ("partitions", f"{len(page.partitions):,}"),
        ("replicas read", f"{len(replicas):,}"),
        ("copies" if page.offline else "brokers", f"{len(page.nodes):,}"),
        ("records read", f"{sum(each.records for each in replicas):,}"),
        ("bytes read", size(sum(each.bytes for each in replicas))),
    )
    yield "</header>\n"


def _tiles(*facts: tuple[str, str]) -> str:
    inner = "".join(f"<div><dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>" for name, value in facts)
    return f'<dl class="tiles">{inner}</dl>\n'


def _not_read(page: AuditPage) -> Iterator[str]:
    if not page.incomplete and not page.limits:
        return
    yield '<section class="callout"><h3>What was not looked at</h3><ul>'
    yield from (f"<li>{_e(limit)}</li>" for limit in page.limits)
    parts = by_reason((each.what, each.why) for each in page.incomplete)
    yield from (f"<li><b>{_e(what)}</b>: {_e(why)}</li>" for what, why in parts)
    yield "</ul></section>\n"


def _redacted(page: AuditPage) -> str:
    if page.show_keys:
        return _e("Keys are shown as they are; values as digests.")
    return _e("Keys and values are shown as digests only.")


def _options(page: AuditPage) -> Iterator[str]:
    rows = [(node_name(node, page), place) for node, place in page.places.items()]
    rows += page.options.items()
    if rows:
        yield "<h2>How it was run</h2>\n"
        yield table((("what", "name"), ("value", "")), rows)


# ── topics ──


def _topics(page: AuditPage) -> Iterator[str]:
    found = topics(page)
    if not found:
        return
    yield '<h2 id="topics">Topics</h2>\n'
    columns = (
        ("topic", "name"), ("verdict", ""), ("partitions", "n"), ("replicas", "n"),
        ("records", "n"), ("keys", "n"), ("tombstones", "n"), ("markers", "n"), ("bytes", "n"),
    )  # fmt: skip
    well = [each for each in found if each.standing == "agree"]
    folded = well if page.findings and len(well) > MOST_AGREEING else []
    shown = [each for each in found if not folded or each.standing != "agree"]
    if shown:
        yield table(columns, map(_topic_row, shown), raw=1)
    if folded:
        count = many(len(folded), "topic")
        yield f"<details><summary>{_e(count)} in which replicas agree</summary>\n"
        yield table(columns, map(_topic_row, folded), raw=1)
        yield "</details>\n"
    if len(page.partitions) <= MOST_PARTITIONS:
        yield "<details><summary>Every replica of every partition</summary>\n"
        yield from _partitions(found, page)
        yield "</details>\n"


def _topic_row(topic: TopicRead) -> Sequence[str]:
    replicas = topic.replicas
    codes = sorted({finding.code for finding in topic.findings})
    badge = f'<span class="badge {topic.standing}">{_e(STANDINGS[topic.standing])}</span>'
    badge += "".join(f" <code>{_e(code)}</code>" for code in codes)
    # Keys are counted on each replica; the largest number is the nearest to how many there are.
    keys = sum(max((r.keys for r in each.replicas), default=0) for each in topic.partitions)
    return (
        topic.topic,
        badge,
        f"{len(topic.partitions):,}",
        f"{len(replicas):,}",
        f"{sum(each.records for each in replicas):,}",
        f"{keys:,}",
        f"{sum(each.tombstones for each in replicas):,}",
        f"{sum(each.markers for each in replicas):,}",
        size(sum(each.bytes for each in replicas)),
    )


def _partitions(found: Sequence[TopicRead], page: AuditPage) -> Iterator[str]:
    columns = (
        ("partition", "name"), ("replica", ""), ("compared", ""), ("log start", "n"),
        ("last stable", "n"), ("high watermark", "n"), ("read to", "n"), ("records", "n"),
        ("keys", "n"), ("tombstones", "n"), ("markers", "n"), ("aborted", "n"), ("bytes", "n"),
    )  # fmt: skip
    rows = (row for topic in found for each in topic.partitions for row in _replicas(each, page))
    yield table(columns, rows)


def _replicas(read: PartitionRead, page: AuditPage) -> Iterator[Sequence[str]]:
    for each in read.replicas:
        said = ["leader"] if each.leader else []
        said += [] if each.in_sync else ["not in sync"]
        name = node_name(each.node, page) + (f" ({', '.join(said)})" if said else "")
        numbers = (
            each.log_start, each.last_stable, each.high_watermark, each.read_to, each.records,
            each.keys, each.tombstones, each.markers, each.aborted_records,
        )  # fmt: skip
        compared = f"{read.start} to {read.end - 1}" if read.end > read.start else "nothing"
        yield (str(read.partition), name, compared, *map("{:,}".format, numbers), size(each.bytes))


# ── findings ──


def _findings(page: AuditPage) -> Iterator[str]:
    ordered = in_reading_order(page.findings)
    if not ordered:
        return
    yield '<h2 id="findings">Findings</h2>\n'
    numbered = list(enumerate(ordered, 1))
    told = _Told(Advice(page))
    drawn = to_draw(ordered, MOST_CARDS)
    cards = [each for each in numbered if each[0] - 1 in drawn]
    for code, group in groupby(cards, key=lambda each: each[1].code):
        total = sum(1 for each in ordered if each.code == code)
        yield f"<h3>{_e(code)} <span class='soft'>· {_e(many(total, 'finding'))}</span></h3>\n"
        yield f"<p>{_e(meaning(code))}</p>\n"
        for number, finding in group:
            yield from _card(number, finding, page, told)
    yield from _others([each for each in numbered if each[0] - 1 not in drawn], page)


class _Told:
    """What to do about findings, and with which of them it stands on the page."""

    def __init__(self, advice: Advice) -> None:
        self.advice = advice
        self.at: dict[tuple[Step, ...], int] = {}


def _card(number: int, finding: AuditFinding, page: AuditPage, told: _Told) -> Iterator[str]:
    yield f'<article class="finding" id="finding-{number}">\n<header>'
    yield f'<span class="badge {finding.severity}">{_e(finding.severity)}</span>'
    yield f"<h4><code>{_e(finding.code)}</code> in {_e(finding.partition)}</h4>"
    yield f'<a href="#finding-{number}">{number}</a></header>\n'
    yield f'<p class="message">{_e(sentence(finding.message))}</p>\n'
    picture = picture_of(finding, PICTURE_COLUMNS)
    if picture is not None:
        drawn = svg(picture, finding, page, f"picture-{number}")
        yield f"<figure>{scrolled(drawn, 'picture of the logs')}"
        yield f"<figcaption>{_legend(picture, finding)}</figcaption></figure>\n"
    yield f'<dl class="facts">{"".join(_facts(finding, page))}</dl>\n'
    yield _held(finding, page)
    yield from _what_to_do(number, finding, told)
    yield "</article>\n"


def _facts(finding: AuditFinding, page: AuditPage) -> Iterator[str]:
    why = f"{_e(sentence(who_is_right(finding, page)))}</b> {_e(sentence(finding.verdict.because))}"
    yield f"<dt>Who is right</dt><dd><b>{why}</dd>"
    key = key_text(finding.key, page)
    if key is not None:
        yield f"<dt>Key</dt><dd><code>{_e(key)}</code></dd>"
    yield _fact("Began", began(finding))


def _held(finding: AuditFinding, page: AuditPage) -> str:
    """What each replica has of the key, and how it took the transaction."""
    nodes = sorted({*finding.offsets, *(each.node for each in finding.transactions)})
    by_node = {each.node: each for each in finding.transactions}
    columns: dict[str, list[str]] = {"replica": [node_name(node, page) for node in nodes]}
    if len(nodes) < 2 and finding.key is None and not by_node:
        return ""  # the sentence has said it
    if finding.offsets:
        columns[_offset_of(finding)] = [_number(finding.offsets.get(node)) for node in nodes]
    if finding.key is not None:
        columns["value"] = [_value(node, finding) for node in nodes]
    if by_node:
        every = [by_node.get(node) for node in nodes]
        columns["producer, epoch"] = [
            "–" if each is None else f"{each.producer_id}, {_number(each.epoch)}" for each in every
        ]
        columns["taken as"] = ["–" if each is None else each.outcome for each in every]
        columns["first data"] = [_number(each.first_data if each else None) for each in every]
        columns["marker"] = [_number(each.marker_offset if each else None) for each in every]
    rows = zip(*columns.values(), strict=True)
    return table([(name, "") for name in columns], rows, kind="held") if nodes else ""


def _offset_of(finding: AuditFinding) -> str:
    if finding.code in ("stuck-partition", "hanging-transaction"):
        return "last stable offset"
    return "record at" if finding.key is not None else "offset"


def _value(node: int, finding: AuditFinding) -> str:
    if finding.offsets.get(node) is None:
        return "none"
    value = finding.values.get(node)
    return "a delete" if value is None else f"#{value[:16]}"  # JSON has all of it


def _number(number: int | None) -> str:
    return "–" if number is None else str(number)


def _fact(name: str, text: str) -> str:
    return f"<dt>{_e(name)}</dt><dd>{_e(text)}</dd>"


def _what_to_do(number: int, finding: AuditFinding, told: _Told) -> Iterator[str]:
    steps = told.advice.steps(finding)
    yield f"<h4>What to do</h4>\n<p>{with_commands(sentence(finding.remedy))}"
    if (first := told.at.setdefault(steps, number)) != number:
        yield f' The steps are those of <a href="#finding-{first}">finding {first}</a>.</p>\n'
        return
    yield "</p>\n<ol class='steps'>"
    for step in steps:
        lines = "".join(f"<code>{_e(command)}</code>" for command in step.commands)
        yield f"<li>{_e(step.text)}{f'<pre>{lines}</pre>' if lines else ''}</li>"
    yield "</ol>\n"
    if (page := runbook(finding.code)) not in finding.remedy:
        yield f"<p class='soft'>Why, and more: <code>{_e(page)}</code></p>\n"


def _legend(picture: Picture, finding: AuditFinding) -> str:
    """Only what is in this picture."""
    cells = [cell for row in picture.rows for cell in row.cells]
    slots = [cell.slot for cell in cells if cell.slot is not None]
    roles = {cell.role for cell in cells}
    told = {
        "k: the key in question": any(cell.marked for cell in cells) and finding.key is not None,
        "#: digest of a value": any(slot.kind == "value" for slot in slots),
        "∅: a delete": any(slot.kind == "tombstone" for slot in slots),
        "@: a producer": any(slot.control for slot in slots) or bool(picture.producers),
        "struck through: hidden from read_committed": any(slot.shown is False for slot in slots),
        "dashed box: not decided yet": any(
            slot.shown is None and slot.kind in ("value", "tombstone") for slot in slots
        ),
        "dashed line: no record": "gap" in roles,
        "⋯: not drawn": "folded" in roles,
        "LSO: last stable offset": any(row.stable_at is not None for row in picture.rows),
        "HW: high watermark": any(row.high_at is not None for row in picture.rows),
    }
    return "".join(f"<span>{_e(text)}</span> " for text, there in told.items() if there)


def _others(rest: Sequence[tuple[int, AuditFinding]], page: AuditPage) -> Iterator[str]:
    if not rest:
        return
    yield f"<h3>{_e(many(len(rest), 'more finding'))}</h3>\n"
    if len(rest) > MOST_ROWS:
        yield f"<p>The first {MOST_ROWS:,} of them. --parquet writes all.</p>\n"
    columns = (
        ("", "n"), ("code", ""), ("partition", "name"), ("what", ""), ("key", "mono"),
        ("who is right", ""),
    )  # fmt: skip
    yield table(
        columns,
        (
            (
                str(number), each.code, str(each.partition), each.message,
                key_text(each.key, page) or "–", who_is_right(each, page),
            )
            for number, each in rest[:MOST_ROWS]
        ),
    )  # fmt: skip
