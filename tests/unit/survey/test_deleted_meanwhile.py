"""A key is deleted while replicas are read, and one has forgotten even its tombstone by its turn.

With a short `delete.retention.ms` that takes a moment, and the replica that was read before it is
not accused of showing a deleted key: it has the tombstone, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sexton.survey.runner import LocalRunner
from sexton.survey.survey import PartitionSurvey, run_files_survey
from sexton.survey.tasks import FoldTask, Result
from tests.unit.audit.replicas import batch_of

FAR = 6_000  # offsets: a look at offset 0 does not come as far


class Meanwhile:
    """After the second round something is written to a log."""

    slots = 1

    def __init__(self, log: Path, lines: Sequence[str]) -> None:
        self._log, self._lines = log, lines

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        yield from LocalRunner(1).run(tasks)
        if any(task.buckets is not None for task in tasks):
            with self._log.open("ab") as file:
                file.write(b"".join(map(batch_of, self._lines)))


def survey(tmp_path: Path, then: Sequence[str]) -> PartitionSurvey:
    cleaned = ["1 j=1", f"{FAR - 1} y=1", f"{FAR + 1} z=1"]  # it has seen what comes `then`
    early = ["0 k=1", "1 j=1", f"{FAR - 1} y=1"]
    logs = []
    for number, lines in enumerate((cleaned, early), 1):
        directory = tmp_path / str(number) / "orders-0"
        directory.mkdir(parents=True)
        logs.append(directory / f"{0:020}.log")
        logs[-1].write_bytes(b"".join(map(batch_of, lines)))
    paths = [log.parent.parent for log in logs]
    (found,) = run_files_survey(paths, Meanwhile(logs[1], then)).partitions
    return found


def test_whoever_was_read_before_the_key_was_deleted_is_not_accused(tmp_path: Path) -> None:
    found = survey(tmp_path, [f"{FAR} -k", f"{FAR + 1} z=1"])
    assert found.findings == () and found.not_judged == 0


def test_whoever_has_not_seen_a_tombstone_since_is_accused(tmp_path: Path) -> None:
    """The control: another key was deleted."""
    found = survey(tmp_path, [f"{FAR} -x", f"{FAR + 1} z=1"])
    assert [(each.code, each.key) for each in found.findings] == [("tombstone-divergence", b"k")]
