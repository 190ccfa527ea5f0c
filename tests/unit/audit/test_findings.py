"""Findings as people and machines get them."""

from __future__ import annotations

import pytest

from sexton.audit.finding import AuditFinding
from sexton.audit.remedies import REMEDIES, remedy, runbook, severity
from sexton.audit.rules import merged
from sexton.audit.summary import finding_of, key_in_words
from tests.unit.audit.replicas import Audit, TextReplica

HEALTHY = ["2 @7/1 j=2", "3 @7/2 commit"]
WRONG = ["0 @7/0 k=1", *HEALTHY]


def findings(*logs: list[str], **options: bool) -> list[AuditFinding]:
    replicas = [TextReplica(node, lines) for node, lines in enumerate(logs, start=1)]
    return Audit(replicas, **options).findings()  # type: ignore[arg-type]


def test_the_same_thing_found_in_three_ways_is_one_finding() -> None:
    (finding,) = findings(HEALTHY, HEALTHY, WRONG)
    assert finding.code == "aborted-as-committed"
    assert merged([finding, finding]) == [finding]


def test_each_replica_that_is_wrong_about_a_key_is_named() -> None:
    """One that lags is compared by itself; whoever is not named may be copied from."""
    (first,) = findings(HEALTHY, WRONG)
    (alone,) = Audit([TextReplica(1, HEALTHY), TextReplica(3, WRONG)]).findings()
    assert first.identity == alone.identity
    assert [each.replicas for each in merged([first, alone, first])] == [(2,), (3,)]


def test_two_keys_of_one_transaction_are_two_findings() -> None:
    healthy = ["3 @7/1 j=2", "4 @7/2 commit"]  # the ABORT was at 2
    found = findings(healthy, healthy, ["0 @7/0 k=1 l=1", *healthy])
    assert {finding.key for finding in found} == {b"k", b"l"}


def test_an_identity_does_not_depend_on_the_run() -> None:
    (first,) = findings(HEALTHY, HEALTHY, WRONG)
    (later,) = findings([*HEALTHY, "9 z=1"], [*HEALTHY, "9 z=1"], [*WRONG, "9 z=1"])
    assert first.identity == later.identity
    assert first.identity.startswith("aborted-as-committed/t-0/key-")
    assert "k" not in first.identity.rpartition("-")[2]  # no key in plain text, it is a digest


def test_keys_are_shown_only_if_asked_for() -> None:
    (found,) = findings(HEALTHY, HEALTHY, [line.replace("k=1", "secret=1") for line in WRONG])
    quiet = finding_of(found)
    assert "secret" not in repr(quiet)
    assert finding_of(found, plain_keys=True).evidence["key"] == "secret"
    assert quiet.evidence["right"] == "1, 2 (certain)"
    assert quiet.where == "t-0 on 3"
    assert quiet.evidence["producer 7 on 3"] == "committed, epoch 0, marker at 3"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (b"a b", "a b"), (b"\x00\xff", "0x00ff"), ("é".encode(), "é"), (b"", ""),
        (b"k\xff", "0x6bff"), (b"k\\xff", "k\\xff"), (b"0x6b", "0x30783662"),
    ],
)  # fmt: skip
def test_a_key_is_text_if_it_can_be(key: bytes, words: str) -> None:
    assert key_in_words(key, plain=True) == words


def test_a_note_does_not_count() -> None:
    (note,) = findings(["0 a=1", "5 b=1"], ["0 a=1", "5 b=1"], compacted=False)
    assert (note.code, note.severity) == ("offset-gap", "note")
    assert not finding_of(note).counts
    (error,) = findings(HEALTHY, HEALTHY, WRONG)
    assert finding_of(error).counts


@pytest.mark.parametrize("code", REMEDIES)
def test_every_code_has_a_remedy_and_a_page(code: str) -> None:
    assert remedy(code).endswith(f"See {runbook(code)}.")
    assert severity(code) in ("error", "warning", "note")
