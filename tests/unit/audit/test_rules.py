"""Each judgement as a story: what the replicas hold, and what the audit says of it."""

from __future__ import annotations

from pathlib import Path

from sexton.audit.facts import CoordinatorState
from sexton.audit.finding import AuditFinding
from tests.datadriven import Case, datadriven, run_file
from tests.unit.audit.replicas import Audit, TextReplica


class Stage:
    """The replicas of one story; `replica` replaces, `audit` looks at all of them."""

    def __init__(self) -> None:
        self.replicas: dict[int, TextReplica] = {}

    def answer(self, case: Case) -> str:
        match case.command:
            case "replicas":  # a new story: several with the same log
                self.replicas = {}
                return self._add(case)
            case "replica":
                return self._add(case)
            case "audit":
                return self._audit(case)
        raise AssertionError(f"{case.where}: {case.command}?")

    def _add(self, case: Case) -> str:
        end = case.options.get("end")
        for word in case.words:
            self.replicas[int(word)] = TextReplica(
                int(word),
                case.lines,
                log_start=case.number("start", 0),
                end=None if end is None else int(end),
            )
        return "ok"

    def _audit(self, case: Case) -> str:
        coordinator: dict[int, CoordinatorState | None] = {}
        if "coordinator" in case.options:
            producer, _, state = case.option("coordinator").partition(":")
            started = case.number("started", 1000)
            known = CoordinatorState(int(producer), 0, state, started, 60_000, has_partition=True)
            coordinator = {int(producer): known if state else None}
        audit = Audit(
            [self.replicas[node] for node in sorted(self.replicas)],
            compacted=case.option("compacted", "yes") == "yes",
            coordinator=coordinator,
            now_ms=case.number("now", 2000),
            assigned=case.number("of", 0),
        )
        found = audit.findings()
        for each in found:
            assert AuditFinding.from_json(each.to_json()) == each
        return "\n".join(words_of(each) for each in found) or "agreed"


def words_of(finding: AuditFinding) -> str:
    verdict = finding.verdict
    right = ",".join(str(node) for node in verdict.right or ()) or "?"
    wrong = ",".join(str(node) for node in finding.replicas)
    key = f" key {finding.key.decode()}" if finding.key is not None else ""
    return "\n".join(
        (
            f"{finding.code}: {wrong} wrong, {right} right ({verdict.certainty}){key}",
            f"  {finding.message}",
            *(
                f"  on {each.node}: @{each.producer_id} {each.outcome}, marker {each.marker_offset}"
                for each in finding.transactions
            ),
            f"  {verdict.because}",
        )
    )


@datadriven(__file__, "testdata/*.txt")
def test_what_the_audit_says(path: Path) -> None:
    run_file(path, Stage().answer)
