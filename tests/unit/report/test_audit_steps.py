"""What people are told to do: in the right order, and with commands that there are."""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.audit import validation
from sexton.audit.finding import AuditFinding, Verdict
from sexton.audit.remedies import GUIDE, runbook
from sexton.cli import registry
from sexton.cli.main import build_command
from sexton.report.audit_page import AuditPage, Unread
from sexton.report.audit_steps import Advice, Step
from sexton.report.audit_words import MEANINGS
from tests.unit.report.audit_examples import (
    CORRUPT,
    EACH,
    GAP,
    HANGING,
    MISMATCH,
    MISSING,
    PAGE,
    STUCK,
    TOMBSTONE,
)

ROOT = Path(__file__).parents[3]
RUNBOOK = ROOT / "docs/runbook"
HOW_TO = (
    "audit-a-cluster",
    "repair-a-replica",
    "untangle-transactions",
    "when-the-audit-finds-something",
)
SEXTON = re.compile(r"^\$? ?(sexton .+)$", re.MULTILINE)


def steps(finding: AuditFinding, page: AuditPage | None = None) -> tuple[Step, ...]:
    return Advice(page or replace(PAGE, findings=(finding,))).steps(finding)


def commands(finding: AuditFinding, page: AuditPage | None = None) -> list[str]:
    return [command for step in steps(finding, page) for command in step.commands]


SERVERS = "-b kafka-1.example:9092"
ORDERS = f"sexton repair orders:3 {SERVERS}"


def test_a_repair_is_looked_at_and_then_made() -> None:
    assert commands(TOMBSTONE) == [f"{ORDERS} --dry-run", ORDERS]
    assert Advice(replace(PAGE, findings=(TOMBSTONE,))).first_command(TOMBSTONE) == (
        f"{ORDERS} --dry-run"
    )


def test_commands_reach_a_cluster_that_asks_who_one_is_as_the_audit_did() -> None:
    page = replace(PAGE, findings=(TOMBSTONE,), command_config="my client.properties")
    secured = f"{ORDERS} --command-config 'my client.properties'"
    assert commands(TOMBSTONE, page) == [f"{secured} --dry-run", secured]


def told(finding: AuditFinding, page: AuditPage | None = None) -> str:
    return " ".join(step.text for step in steps(finding, page))


def test_a_right_replica_leads_even_if_the_first_is_wrong() -> None:
    first = replace(
        MISSING, replicas=(1,), verdict=replace(MISSING.verdict, right=(2, 3))
    )  # fmt: skip
    assert "broker 2 leads, broker 1 copies everything again" in told(first)


def test_no_replica_is_copied_that_is_wrong_about_something_else() -> None:
    other = replace(TOMBSTONE, key=b"other", replicas=(1,), verdict=Verdict((2, 3), "certain", ""))
    page = replace(PAGE, findings=(TOMBSTONE, other))
    assert "broker 2 leads" in told(TOMBSTONE, page)
    third = replace(other, key=b"third", replicas=(2,), verdict=Verdict((1, 3), "certain", ""))
    page = replace(page, findings=(TOMBSTONE, other, third))
    assert ORDERS not in commands(TOMBSTONE, page)
    assert "Every replica" in told(TOMBSTONE, page)


def test_nothing_is_rebuilt_before_every_replica_was_read() -> None:
    for where in (TOMBSTONE.partition, None):
        page = replace(
            PAGE, findings=(TOMBSTONE,), incomplete=(Unread("broker 4", "is down", where),)
        )
        assert not any("sexton repair" in command for command in commands(TOMBSTONE, page))
        assert "Not every replica could be read" in told(TOMBSTONE, page)


def test_keys_that_nobody_looked_at_are_no_reason_to_wait_for_a_replica() -> None:
    more = Unread("orders-3", "5 more keys may differ", TOMBSTONE.partition, keys_only=True)
    page = replace(PAGE, findings=(TOMBSTONE,), incomplete=())
    assert commands(TOMBSTONE, replace(page, incomplete=(more,))) == commands(TOMBSTONE, page)


@pytest.mark.parametrize("finding", [MISMATCH, replace(MISSING, replicas=(1, 2, 3))])
def test_nothing_is_thrown_away_while_nobody_knows_who_is_right(finding: AuditFinding) -> None:
    unknown = replace(finding, verdict=replace(finding.verdict, right=None, certainty="unknown"))
    repairs = [command for command in commands(unknown) if "sexton repair" in command]
    decided = ("--publish-tombstone", "--keep-value", "--trust")
    assert repairs and all(any(word in each for word in decided) for each in repairs)
    assert "Rebuild no replica" in told(unknown)


def test_while_people_are_asked_nothing_more_is_forgotten() -> None:
    unknown = replace(
        TOMBSTONE, verdict=replace(TOMBSTONE.verdict, right=None, certainty="unknown")
    )  # fmt: skip
    key = "sha256:" + hashlib.sha256(TOMBSTONE.key or b"").hexdigest()[:32]
    key += f"/{len(TOMBSTONE.key or b'')}"
    assert commands(unknown) == [
        "sexton guard freeze orders -b kafka-1.example:9092",
        f"{ORDERS} --publish-tombstone {key}",
        f"{ORDERS} --keep-value {key} --as-on BROKER",
        f"{ORDERS} --trust BROKER --keep-copy wrong/",
        "sexton guard thaw orders -b kafka-1.example:9092",
    ]


def test_what_is_only_likely_is_kept_aside_first() -> None:
    assert any("--keep-copy" in command for command in commands(MISSING))
    assert not any("--keep-copy" in command for command in commands(TOMBSTONE))


def test_a_transaction_that_ended_elsewhere_is_never_aborted_by_hand() -> None:
    assert not any(" abort " in command for command in commands(STUCK))
    assert commands(STUCK)[0].startswith("sexton txn explain ")
    assert "Do not end it" in told(STUCK)
    assert commands(HANGING) == [
        "sexton txn explain events:1 -b kafka-1.example:9092",
        f"sexton txn abort events:1 --start-offset 500 {SERVERS}",
        "sexton audit events:1 -b kafka-1.example:9092",
    ]  # nobody committed that one


def test_a_topic_that_is_not_compacted_needs_no_freeze() -> None:
    unknown = replace(CORRUPT, verdict=replace(CORRUPT.verdict, right=None, certainty="unknown"))
    assert not any("freeze" in command for command in commands(unknown))
    assert "Do not restart" in told(CORRUPT)


def test_copies_are_not_repaired() -> None:
    assert commands(TOMBSTONE, replace(PAGE, offline=True)) == []


def known(line: str) -> None:
    """The command is one that there is, and so are its options."""
    words = shlex.split(line.split("|")[0])
    entry = next(
        each
        for each in sorted(registry.COMMANDS, key=lambda each: -len(each.path))
        if words[1:][: len(each.path.split())] == each.path.split()
    )
    options = {name for param in build_command(entry).params for name in param.opts}
    used = {word.split("=")[0] for word in words if re.match("--?[a-zA-Z]", word)}
    assert used <= options, line


def test_the_commands_are_there() -> None:
    lines = [line for each in EACH for line in commands(each) if line.startswith("sexton ")]
    assert any("log verify" in line for line in commands(GAP))
    for line in lines:
        known(line)


def test_every_code_has_its_page_in_the_runbook_and_every_page_its_code() -> None:
    pages = {path.stem for path in RUNBOOK.glob("*.md")} - {"index"}
    assert set(MEANINGS) == {each.code for each in EACH}
    assert pages == {*MEANINGS, *validation.CODES}
    assert all((ROOT / runbook(each.code)).is_file() for each in EACH)
    assert (ROOT / GUIDE).is_file()
    index = (RUNBOOK / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(([a-z-]+)\.md\)", index)) >= pages


@pytest.mark.parametrize(
    "page",
    [
        *sorted(RUNBOOK.glob("*.md")),
        *(ROOT / "docs/how-to" / f"{name}.md" for name in HOW_TO),
    ],
    ids=lambda page: page.stem,
)
def test_the_pages_name_commands_that_are_there(page: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    joined = "".join(blocks).replace("\\\n", " ")
    for line in SEXTON.findall(joined):
        known(line)
