"""What people are told to do: in the right order, and with commands that there are."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.audit.finding import AuditFinding, Verdict
from sexton.audit.remedies import runbook
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
SEXTON = re.compile(r"^\$? ?(sexton .+)$", re.MULTILINE)


def steps(finding: AuditFinding, page: AuditPage | None = None) -> tuple[Step, ...]:
    return Advice(page or replace(PAGE, findings=(finding,))).steps(finding)


def commands(finding: AuditFinding, page: AuditPage | None = None) -> list[str]:
    return [command for step in steps(finding, page) for command in step.commands]


def test_the_wrong_replica_is_rebuilt_from_a_right_one_while_cleaning_stands_still() -> None:
    configs = (
        "kafka-configs.sh --bootstrap-server kafka-1.example:9092"
        " --entity-type topics --entity-name orders"
    )
    assert commands(TOMBSTONE) == [
        f"{configs} --describe",
        f"{configs} --alter --add-config min.compaction.lag.ms=9223372036854775807",
        "sexton cluster elect orders-3 --leader 1 -b kafka-1.example:9092",
        "sexton cluster reassign orders-3=1,2 -b kafka-1.example:9092",
        "sexton cluster reassign orders-3=1,2,3 -b kafka-1.example:9092",
        "sexton audit -b kafka-1.example:9092 --topic orders",
        f"{configs} --alter --delete-config min.compaction.lag.ms",
    ]


def test_a_right_replica_leads_even_if_the_first_is_wrong() -> None:
    first = replace(
        MISSING, replicas=(1,), verdict=replace(MISSING.verdict, right=(2, 3))
    )  # fmt: skip
    found = commands(first)
    assert "sexton cluster elect orders-3 --leader 2 -b kafka-1.example:9092" in found
    assert "sexton cluster reassign orders-3=2,3,1 -b kafka-1.example:9092" in found


def test_two_wrong_replicas_are_rebuilt_one_after_the_other() -> None:
    both = replace(MISSING, replicas=(1, 2), verdict=replace(MISSING.verdict, right=(3,)))
    moves = [each.split()[3] for each in commands(both) if "reassign" in each]
    assert moves == ["orders-3=3,2", "orders-3=3,2,1", "orders-3=3,1", "orders-3=3,1,2"]


def test_no_replica_is_copied_that_is_wrong_about_something_else() -> None:
    other = replace(TOMBSTONE, key=b"other", replicas=(1,), verdict=Verdict((2, 3), "certain", ""))
    page = replace(PAGE, findings=(TOMBSTONE, other))
    found = commands(TOMBSTONE, page)
    assert "sexton cluster elect orders-3 --leader 2 -b kafka-1.example:9092" in found
    third = replace(other, key=b"third", replicas=(2,), verdict=Verdict((1, 3), "certain", ""))
    page = replace(page, findings=(TOMBSTONE, other, third))
    assert not any("reassign" in command for command in commands(TOMBSTONE, page))
    assert any("Every replica" in step.text for step in steps(TOMBSTONE, page))


def test_nothing_is_rebuilt_before_every_replica_was_read() -> None:
    for where in (TOMBSTONE.partition, None):
        page = replace(
            PAGE, findings=(TOMBSTONE,), incomplete=(Unread("broker 4", "is down", where),)
        )
        assert not any("reassign" in command for command in commands(TOMBSTONE, page))
        assert any("Not every replica could be read" in s.text for s in steps(TOMBSTONE, page))


def test_a_replica_that_was_not_asked_for_stays_assigned() -> None:
    [read, *rest] = PAGE.partitions
    page = replace(PAGE, partitions=(replace(read, assigned=(3, 1, 2, 9)), *rest))
    moves = [each.split()[3] for each in commands(TOMBSTONE, page) if "reassign" in each]
    assert moves == ["orders-3=1,9,2", "orders-3=1,9,2,3"]  # 2 is wrong about another key


@pytest.mark.parametrize("finding", [MISMATCH, replace(MISSING, replicas=(1, 2, 3))])
def test_nothing_is_thrown_away_while_nobody_knows_who_is_right(finding: AuditFinding) -> None:
    unknown = replace(finding, verdict=replace(finding.verdict, right=None, certainty="unknown"))
    assert not any("reassign" in command for command in commands(unknown))
    assert any("Rebuild no replica" in step.text for step in steps(unknown))


def test_what_is_only_likely_is_kept_aside_first() -> None:
    assert any("Keep a copy" in step.text for step in steps(MISSING))
    assert not any("Keep a copy" in step.text for step in steps(TOMBSTONE))


def test_a_transaction_that_ended_elsewhere_is_never_aborted_by_hand() -> None:
    assert not any(" abort " in command for command in commands(STUCK))
    assert any("Do not end the transaction" in step.text for step in steps(STUCK))
    assert (
        "kafka-transactions.sh --bootstrap-server kafka-1.example:9092 abort"
        " --topic events --partition 1 --start-offset 500"
    ) in commands(HANGING)  # nobody committed that one


def test_a_topic_that_is_not_compacted_needs_no_freeze() -> None:
    assert not any("min.compaction.lag" in command for command in commands(CORRUPT))
    assert any("Do not restart" in step.text for step in steps(CORRUPT))


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
    assert pages == set(MEANINGS) == {each.code for each in EACH}
    assert all((ROOT / runbook(each.code)).is_file() for each in EACH)
    index = (RUNBOOK / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(([a-z-]+)\.md\)", index)) >= pages


@pytest.mark.parametrize(
    "page",
    [*sorted(RUNBOOK.glob("*.md")), ROOT / "docs/how-to/audit-a-cluster.md"],
    ids=lambda page: page.stem,
)
def test_the_pages_name_commands_that_are_there(page: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    joined = "".join(blocks).replace("\\\n", " ")
    for line in SEXTON.findall(joined):
        known(line)
