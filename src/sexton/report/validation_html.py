"""A validation as one HTML file that a person reads, prints and sends on.

    verdict in one sentence ─▶ promises, kept or not ─▶ findings with both records ─▶ partitions

It looks as the audit's page does, and keeps its rule: text becomes HTML by `escaped` only. There is
no script, and a content security policy that would not let one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, groupby

from sexton.audit.remedies import runbook
from sexton.audit.validation import Sighting
from sexton.audit.validation_words import MEANINGS
from sexton.report.audit_words import escaped as _e
from sexton.report.audit_words import many, sentence
from sexton.report.html_parts import head, table, with_commands
from sexton.report.incomplete import by_reason
from sexton.report.quantities import duration, moment, size
from sexton.report.validation_page import (
    STANDINGS,
    ValidationPage,
    finding_of,
    in_reading_order,
    promises,
    verdict_sentence,
)
from sexton.report.validation_text import record_rows

MOST_CARDS = 100
MOST_ROWS = 2_000
LONGEST_TILE = 24  # letters: a longer name would make all tiles of its row as tall as it is
_BADGES = {"broken": "differ", "incomplete": "incomplete", "unread": "unread", "kept": "agree"}


def html_page(page: ValidationPage) -> str:
    """The whole file."""
    return "".join(_document(page))


def _document(page: ValidationPage) -> Iterator[str]:
    yield head(f"sexton validate: {page.topic}, {STANDINGS[page.standing]}")
    yield from _top(page)
    yield "<main>\n"
    yield from _not_read(page)
    yield from _promises(page)
    yield from _findings(page)
    yield from _partitions(page)
    yield from _options(page)
    shown = (
        "Keys and ids are shown as they are."
        if page.show_keys
        else ("Keys and ids are shown as digests only.")
    )
    yield f"</main>\n<footer>Made by sexton {_e(page.version)}. {_e(shown)}</footer>\n"
    yield "</body>\n</html>\n"


def _top(page: ValidationPage) -> Iterator[str]:
    where = f"Cluster {page.cluster_id or ''} at {page.bootstrap}"
    yield '<header class="top">\n'
    yield f'<p class="eyebrow">sexton validate · {_e(where)}</p>\n'
    yield f"<h1>{_e(verdict_sentence(page))}</h1>\n"
    badge = _BADGES[page.standing]
    yield f'<p><span class="badge {badge}">{_e(STANDINGS[page.standing])}</span> '
    yield f"{_e(many(sum(page.counts.values()), 'finding'))}. "
    if page.acknowledged:
        yield f"{_e(many(page.acknowledged, 'finding'))} more acknowledged in the baseline. "
    yield f'<span class="soft">{_e(moment(page.started_ms))}, in '
    yield f"{_e(duration(page.finished_ms - page.started_ms))}.</span></p>\n"
    facts = (
        ("topic", page.topic),
        ("partitions", f"{len(page.partitions):,}"),
        ("records", f"{page.records:,}"),
        ("keys", f"{sum(each.keys for each in page.partitions):,}"),
        ("ids", f"{sum(each.ids for each in page.partitions):,}"),
        ("bytes read", size(sum(each.bytes for each in page.partitions))),
    )
    inner = "".join(_tile(name, value) for name, value in facts)
    yield f'<dl class="tiles">{inner}</dl>\n</header>\n'


def _tile(name: str, value: str) -> str:
    opening = '<div class="wide">' if len(value) > LONGEST_TILE else "<div>"
    return f"{opening}<dt>{_e(name)}</dt><dd>{_e(value)}</dd></div>"


def _not_read(page: ValidationPage) -> Iterator[str]:
    if not page.incomplete and not page.limits:
        return
    yield '<section class="callout"><h3>What was not looked at</h3><ul>'
    yield from (f"<li>{_e(limit)}</li>" for limit in page.limits)
    parts = by_reason(page.incomplete)
    yield from (f"<li><b>{_e(what)}</b>: {_e(why)}</li>" for what, why in parts)
    yield "</ul></section>\n"


_KEPT = {True: ("agree", "kept"), False: ("differ", "broken"), None: ("unread", "not known")}


def _promises(page: ValidationPage) -> Iterator[str]:
    yield '<h2 id="promises">Promises</h2>\n'
    rows = []
    for each in promises(page):
        badge, word = _KEPT[each.kept]
        rows.append(
            (
                each.what, each.expression, f'<span class="badge {badge}">{word}</span>',
                f"{each.findings:,}",
            )
        )  # fmt: skip
    columns = (("promise", "name"), ("of", "mono"), ("kept", ""), ("findings", "n"))
    yield table(columns, rows, raw=2)


def _findings(page: ValidationPage) -> Iterator[str]:
    ordered = in_reading_order(page)
    if not ordered:
        return
    yield '<h2 id="findings">Findings</h2>\n'
    numbered = list(enumerate(ordered, 1))
    for code, group in groupby(numbered[:MOST_CARDS], key=lambda each: each[1].code):
        total = page.counts.get(code, 0)
        yield f"<h3>{_e(code)} <span class='soft'>· {_e(many(total, 'finding'))}</span></h3>\n"
        yield f"<p>{_e(MEANINGS[code])} Why, and more: <code>{_e(runbook(code))}</code></p>\n"
        for number, sighting in group:
            yield from _card(number, sighting, page)
    rest = numbered[MOST_CARDS:]
    if rest:
        yield f"<h3>{_e(many(len(rest), 'more finding'))}</h3>\n"
        columns = (("", "n"), ("code", ""), ("where", "name"), ("what", ""))
        told = ((number, finding_of(each, page)) for number, each in rest[:MOST_ROWS])
        yield table(columns, ((str(n), f.code, f.where, f.message) for n, f in told))


_RECORD = (("record", "name"), ("value", "mono"), ("written", ""), ("by", ""), ("", ""))


def _card(number: int, sighting: Sighting, page: ValidationPage) -> Iterator[str]:
    finding = finding_of(sighting, page)
    yield f'<article class="finding" id="finding-{number}">\n<header>'
    yield f'<span class="badge {finding.severity}">{_e(finding.severity)}</span>'
    yield f"<h4><code>{_e(finding.code)}</code> in {_e(finding.where)}</h4>"
    yield f'<a href="#finding-{number}">{number}</a></header>\n'
    yield f'<p class="message">{_e(sentence(finding.message))}</p>\n'
    records = record_rows(sighting)
    if records:
        told = [any(column) for column in zip(*records, strict=True)]  # others say nothing
        rows = [tuple(compress(row, told)) for row in records]
        yield table(tuple(compress(_RECORD, told)), rows, kind="held")
    if sighting.id is not None:
        yield f"<p>Id <code>{_e(page.shown(sighting.id))}</code></p>\n"
    remedy = with_commands(finding.remedy or "")
    yield f"<h4>What to do</h4>\n<p>{remedy}</p>\n</article>\n"


def _partitions(page: ValidationPage) -> Iterator[str]:
    yield "<details><summary>Every partition</summary>\n"
    columns = (
        ("partition", "name"), ("offsets", ""), ("records", "n"), ("keys", "n"), ("ids", "n"),
        ("aborted", "n"), ("without key", "n"), ("unreadable", "n"), ("findings", "n"),
    )  # fmt: skip
    rows = (
        (
            str(each.partition), f"{each.start} to {each.end}", f"{each.records:,}",
            f"{each.keys:,}", f"{each.ids:,}", f"{each.hidden:,}", f"{each.without_key:,}",
            f"{each.unreadable:,}", f"{sum(each.counts.values()):,}",
        )
        for each in page.partitions
    )  # fmt: skip
    yield table(columns, rows)
    yield "</details>\n"


def _options(page: ValidationPage) -> Iterator[str]:
    yield "<h2>How it was run</h2>\n"
    yield table((("what", "name"), ("value", "")), page.options.items())
