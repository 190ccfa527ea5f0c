"""The sentences of an audit, the same on a terminal and on paper.

Every finding answers the same questions: what is wrong, who is right and how sure is that, since
when. A key is shown as a digest unless the page says otherwise; it is the digest that
`sexton log dump --keys digest` prints, so that whoever may see the data can find the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sexton.audit.finding import AuditFinding, Certainty
from sexton.base.digests import digest
from sexton.log.inspect.rendering import auto_text
from sexton.report.audit_page import AuditPage, Standing, topics
from sexton.report.quantities import moment
from sexton.report.tables import one_line

# What a code means for the data, for someone who has never met it. The runbook has a page on each.
MEANINGS = {
    "tombstone-divergence": (
        "A key that was deleted is still alive on some replica. If that replica becomes leader,"
        " every reader sees the deleted value again."
    ),
    "aborted-as-committed": (
        "A replica shows records of an aborted transaction as if they had been committed. Whoever"
        " reads from it acts on something that never happened."
    ),
    "committed-as-aborted": (
        "A replica hides records of a committed transaction as if they had been aborted. Whoever"
        " reads from it misses data that was acknowledged."
    ),
    "stuck-partition": (
        "A replica waits for the end of a transaction that has ended elsewhere. If it becomes"
        " leader, read_committed readers stop there for good, and its log is no longer cleaned."
    ),
    "missing-record": (
        "Some replica lacks a committed record, and compaction does not explain it. If that replica"
        " becomes leader, the record is lost."
    ),
    "marker-mismatch": (
        "On one replica, records are closed by a marker that cannot be theirs: their own marker was"
        " removed too early. This replica may take them wrongly."
    ),
    "hanging-transaction": (
        "A transaction is open on every replica and nobody is going to end it. read_committed"
        " readers stop before it, and nothing behind it is cleaned."
    ),
    "corrupt-batch": (
        "A batch cannot be read, or its bytes changed after they were written. Readers of this"
        " replica fail there, or get something other than was written."
    ),
    "offset-gap": (
        "Offsets are missing on a topic that is not compacted, and nothing in the log says why."
    ),
}

STANDINGS: dict[Standing, str] = {
    "differ": "replicas differ",
    "unsound": "not sound",
    "incomplete": "incomplete",
    "agree": "replicas agree",
    "alone": "one replica",
    "unread": "not read",
}

_SURE: dict[Certainty, str] = {"certain": "certain", "likely": "likely", "unknown": "not known"}


def meaning(code: str) -> str:
    return MEANINGS.get(code, "")


def verdict_sentence(page: AuditPage) -> str:
    """What to take away if one reads a single sentence."""
    all_topics = topics(page)
    match page.standing:
        case "differ" | "unsound":
            wrong = [each for each in all_topics if each.standing in ("differ", "unsound")]
            verdict = "The replicas do not agree"
            if page.standing == "unsound":
                verdict = "The replicas agree, but something is wrong"
            what = _subjects([each for each in page.findings if each.severity != "note"])
            where = wrong[0].topic
            if len(all_topics) > 1:
                where = f"{len(wrong)} of {many(len(all_topics), 'topic')}"
            whole = " Not everything could be read." if page.incomplete else ""
            return f"{verdict}: {what} in {where}.{whole}"
        case "incomplete":
            return (
                "Nothing was found, but not everything could be read:"
                f" {many(len(page.incomplete), 'part')} missing."
            )
        case "unread":
            return "Nothing was read: no partition was asked for, or there is none."
        case "alone":
            return "There is nothing to compare: every partition has only one replica."
        case "agree":
            kept = ""
            if page.acknowledged:
                kept = f", apart from {many(page.acknowledged, 'acknowledged finding')}"
            how = " in all that was compared" if page.limits else ""
            return f"The replicas agree{how}{kept}.{_alone(page)}"


def _alone(page: AuditPage) -> str:
    """What was read and could not be compared."""
    count = sum(each.is_alone for each in page.partitions)
    if not count:
        return ""
    has = "has" if count == 1 else "have"
    return f" {many(count, 'partition').capitalize()} {has} one replica: nothing to compare."


def _subjects(findings: list[AuditFinding]) -> str:
    keys = len({(each.partition, each.key) for each in findings if each.key is not None})
    transactions = sum(1 for each in findings if each.key is None and each.transactions)
    others = sum(1 for each in findings if each.key is None and not each.transactions)
    parts = [(keys, "key"), (transactions, "transaction"), (others, "other place")]
    return listed(many(count, what) for count, what in parts if count)


# ── a finding ──


def who_is_right(finding: AuditFinding, page: AuditPage) -> str:
    """`broker 1 and broker 2 (certain)`, or that it cannot be known."""
    verdict = finding.verdict
    if verdict.right is None:
        return "cannot be known"
    if not verdict.right:
        return f"no replica ({_SURE[verdict.certainty]})"
    return f"{nodes_named(verdict.right, page)} ({_SURE[verdict.certainty]})"


def began(finding: AuditFinding) -> str:
    after, before = finding.began_after_ms, finding.began_before_ms
    match after is not None, before is not None:
        case True, True:
            return f"between {moment(after)} and {moment(before)}"
        case True, False:
            return f"after {moment(after)}"
        case False, True:
            return f"before {moment(before)}"
        case _:
            return "not known"


def node_name(node: int, page: AuditPage) -> str:
    return f"{'copy' if page.offline else 'broker'} {node}"


def nodes_named(nodes: Iterable[int], page: AuditPage) -> str:
    """`broker 1`, `brokers 1 and 2`."""
    every = sorted(nodes)
    noun = "copies" if page.offline else "brokers"
    return node_name(every[0], page) if len(every) == 1 else f"{noun} {listed(map(str, every))}"


def key_text(key: bytes | None, page: AuditPage) -> str | None:
    """The key as this page may show it, on one line."""
    if key is None:
        return None
    return one_line(auto_text(key)) if page.show_keys else digest(key)


def key_label(key: bytes | None, finding: AuditFinding, page: AuditPage, most: int) -> str:
    """The key in a few characters, for a picture; `k` is the one in question."""
    if key is None:
        return "–"
    if page.show_keys:
        return shortened(one_line(auto_text(key)) or '""', most)
    if key == finding.key:
        return "k"
    return digest(key).removeprefix("sha256:")[: min(most, 6)]


def value_label(value_digest: str | None) -> str:
    return "∅" if value_digest is None else f"#{value_digest[:6]}"


# ── words ──


def sentence(text: str) -> str:
    """With a capital at its beginning and a stop at its end."""
    text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def escaped(text: object) -> str:
    """The only way from text to HTML: no markup, no characters that steer a terminal or a line."""
    return escape(one_line(str(text)))


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    every = list(words)
    if len(every) < 2:
        return "".join(every)
    return f"{', '.join(every[:-1])} and {every[-1]}"


def many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
