"""The page stands alone, says nothing that it should not, and survives whatever is in a log."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sexton.base.partitions import TopicPartition
from sexton.report.audit_html import MOST_AGREEING, MOST_CARDS, html_page
from sexton.report.audit_page import AuditPage, Unread
from sexton.report.audit_words import MEANINGS
from tests.unit.report.audit_examples import CLEAN, EACH, HOSTILE, MISSING, PAGE, STUCK, TOMBSTONE

VOID = {"meta", "br", "link", "img", "hr"}


class Reader(HTMLParser):
    """Elements in balance, their attributes and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, attribute: str) -> list[str]:
        return [value for name, value in self.attributes if name == attribute]


@pytest.mark.parametrize("page", [PAGE, CLEAN, replace(PAGE, show_keys=True, offline=True)])
def test_a_page_is_well_formed_and_needs_nothing_else(page: AuditPage) -> None:
    text = html_page(page)
    read = Reader(text)
    assert not read.tags.keys() & {"script", "link", "img", "iframe", "object", "base", "form"}
    assert not re.search(r"https?:|//|@import|url\(|javascript:", text)
    assert not any(name.startswith("on") for name, _ in read.attributes)
    assert set(read.named("href")) <= {f"#{name}" for name in read.named("id")}
    assert max(Counter(read.named("id")).values()) == 1
    referred = {each for names in read.named("aria-labelledby") for each in names.split()}
    assert referred <= set(read.named("id"))


def test_pictures_are_well_formed_and_told_in_words() -> None:
    pictures = re.findall(r"<svg.*?</svg>", html_page(PAGE), re.DOTALL)
    assert len(pictures) == sum(1 for each in EACH if each.windows) == 8
    for picture in pictures:
        root = ET.fromstring(picture)
        assert root.find("title") is not None
        told = root.findtext("desc") or ""
        assert "broker 3" in told
    words = ET.fromstring(pictures[0]).findtext("desc") or ""
    assert "18 nothing; 19" in words  # broker 3 lacks the delete
    assert "broker 2 (right): 14" in words


@pytest.mark.parametrize("code", MEANINGS)
def test_every_code_is_explained(code: str) -> None:
    read = Reader(html_page(PAGE))
    assert MEANINGS[code] in read.text
    assert f"docs/runbook/{code}.md" in read.text


def test_a_finding_says_who_is_right_why_since_when_and_what_to_do() -> None:
    text = Reader(html_page(replace(PAGE, findings=(TOMBSTONE,)))).text
    assert "Broker 3 still shows a key that brokers 1 and 2 have deleted." in text
    assert "Brokers 1 and 2 (certain). Broker 2 holds a delete of the key at 18" in text
    assert "between 2026-11-14 06:00:00 UTC and 2026-11-15 12:00:00 UTC" in text
    assert "sexton repair orders:3 -b kafka-1.example:9092 --dry-run" in text


SECRET = b"alice@example.org"


def with_key(key: bytes, *, show_keys: bool) -> AuditPage:
    windows = tuple(
        replace(
            each,
            slots=tuple(replace(slot, key=key) if slot.key else slot for slot in each.slots),
        )
        for each in TOMBSTONE.windows
    )
    finding = replace(TOMBSTONE, key=key, windows=windows)
    many = (finding,) * (MOST_CARDS + 1)  # in cards and in the table
    return replace(PAGE, findings=many, show_keys=show_keys)


def test_keys_are_not_on_the_page_unless_asked_for() -> None:
    hidden = html_page(with_key(SECRET, show_keys=False))
    assert "alice" not in hidden
    assert SECRET.hex() not in hidden
    assert "alice@example.org" in html_page(
        with_key(SECRET, show_keys=True)
    )  # so the test can fail


def test_what_stands_in_a_log_stays_text() -> None:
    text_key = HOSTILE.split(b"\x1b")[0] + b"\" onload='x'&amp;"
    for key in (HOSTILE, text_key):
        page = html_page(with_key(key, show_keys=True))
        assert "<script" not in page
        read = Reader(page)
        assert not any(name.startswith("on") for name, _ in read.attributes)
    assert "&lt;script&gt;" in html_page(with_key(text_key, show_keys=True))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", html_page(PAGE))


def test_so_does_what_brokers_and_users_say() -> None:
    evil = "<b onclick=x>\x1b[2J\u202e"
    page = replace(
        PAGE,
        cluster_id=evil,
        bootstrap=evil,
        version=evil,
        limits=(evil,),
        options={evil: evil},
        places={1: evil},
        incomplete=(Unread(evil, evil, TopicPartition(evil, 0)),),
        findings=(
            replace(
                MISSING,
                message=evil,
                remedy=evil,
                partition=TopicPartition(evil, 0),
                verdict=replace(MISSING.verdict, because=evil),
            ),
        ),
    )
    text = html_page(page)
    assert "<b onclick" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(name == "onclick" for name, _ in Reader(text).attributes)


def test_many_findings_are_grouped_and_only_the_first_have_pictures() -> None:
    many = (*EACH[1:], *([TOMBSTONE] * 70))
    read = Reader(html_page(replace(PAGE, findings=many)))
    assert read.tags["article"] == MOST_CARDS
    assert "28 more findings" in read.text
    assert "tombstone-divergence · 70 findings" in read.text
    # What is to be done for the same key's partition is told once, and then referred to.
    assert read.text.count("Stop the topic's cleaning") < 10
    assert read.text.count("The steps are those of finding 1.") == MOST_CARDS - len(EACH)


def test_of_many_findings_each_kind_and_each_topic_has_a_picture() -> None:
    """A broker that was away is wrong about thousands of keys; one stuck partition is no less."""
    many = [
        replace(TOMBSTONE, partition=TopicPartition(f"table-{topic}", number % 3))
        for topic in range(30)
        for number in range(40)
    ]
    read = Reader(html_page(replace(PAGE, findings=(STUCK, *many))))
    assert read.tags["article"] == MOST_CARDS
    assert f"stuck-partition in {STUCK.partition}" in read.text
    for topic in range(30):
        assert f"tombstone-divergence in table-{topic}-0" in read.text
    assert "1,151 more findings" in read.text


def test_many_topics_that_agree_do_not_bury_the_findings() -> None:
    well = tuple(
        replace(CLEAN.partitions[0], partition=TopicPartition(f"well-{number}", 0))
        for number in range(MOST_AGREEING + 1)
    )
    text = html_page(replace(PAGE, partitions=(*PAGE.partitions, *well)))
    assert '<a href="#findings">' in text
    agreeing = text.index("topics in which replicas agree</summary>")
    assert text.index('id="topics"') < agreeing < text.index(">well-0<") < text.index("</details>")
    assert "topics in which" not in html_page(replace(CLEAN, partitions=well)), "nothing below"


def test_what_was_not_read_is_on_the_page() -> None:
    text = Reader(html_page(PAGE)).text
    assert "Only records since 2026-11-15 06:00:00 UTC were compared." in text
    assert "customers-0 on broker 2: broker 2 does not answer" in text
    assert "2 findings more acknowledged in the baseline" in text
    assert "What was not looked at" not in Reader(html_page(CLEAN)).text


def test_a_reason_that_many_replicas_share_is_told_once() -> None:
    down = "broker 3: is not up"
    unread = [
        Unread(f"orders-{number} on broker 3", down, TopicPartition("orders", number))
        for number in range(1_205)
    ]
    other = Unread("users-0 on broker 2", "broker 2: no answer", TopicPartition("users", 0))
    text = Reader(html_page(replace(CLEAN, incomplete=(*unread, other)))).text
    first = ", ".join(each.what for each in unread[:3])
    assert f"{first} and 1,202 more: broker 3: is not up" in " ".join(text.split())
    assert "orders-3 on broker 3" not in text
    assert "users-0 on broker 2: no answer" in text


def test_a_page_is_small() -> None:
    assert len(html_page(CLEAN)) < 25_000
    assert len(html_page(PAGE)) < 150_000
