"""What the last look did not come to is neither held against a replica nor said to agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from sexton.audit import settling
from sexton.audit.finding import AuditFinding
from sexton.records import Spans, encode, rows
from sexton.records.columns import write_headers
from sexton.records.layout import BatchHeader
from sexton.survey import evidence
from sexton.survey.plan import Wanted
from sexton.survey.plan_files import plan_files
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import Nobody, PartitionSurvey, _Audit, finish, run_files_survey
from sexton.survey.tasks import FoldTask, Result
from tests.unit.audit.replicas import batch_of

LARGE = range(1, 18)  # offsets of records of a megabyte each; a last look reads eight
AFTER = LARGE.stop


def large(offset: int) -> bytes:
    return batch_of(f"{offset} large-{offset}={'x' * 1_000_000}")


def told(lines: Sequence[str]) -> list[bytes]:
    return [batch_of(line) for line in lines]


def copies(tmp_path: Path, replicas: Sequence[Sequence[bytes]]) -> list[Path]:
    paths = []
    for number, batches in enumerate(replicas, 1):
        directory = tmp_path / str(number) / "orders-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
        paths.append(directory.parent)
    return paths


def survey(tmp_path: Path, *replicas: Sequence[bytes]) -> PartitionSurvey:
    (found,) = run_files_survey(copies(tmp_path, replicas), LocalRunner(1)).partitions
    return found


def who(findings: Sequence[AuditFinding]) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.code, each.replicas) for each in findings]


def test_a_replica_is_not_accused_of_lacking_what_was_not_read_of_it(tmp_path: Path) -> None:
    """The first was cleaned, the second not yet; the third has lost the latest record of k."""
    again = told([f"{AFTER + at} large-{at}=small" for at in LARGE])
    latest = told([f"{AFTER} k=new"])
    before = [*told(["0 k=old"]), *map(large, LARGE)]
    found = survey(tmp_path, [*latest, *again], [*before, *latest, *again], [*before, *again])
    assert who(found.findings) == [("missing-record", (3,))]
    assert found.findings[0].verdict.right == (1, 2)


def test_a_key_is_judged_however_far_its_older_record_is(tmp_path: Path) -> None:
    before = [*told(["0 k=old"]), *map(large, LARGE)]
    latest, after = told([f"{AFTER} k=new"]), told([f"{AFTER + 1} z=1"])
    found = survey(tmp_path, [*before, *latest, *after], [*before, *after])
    assert who(found.findings) == [("missing-record", (2,))]


def transactions(tmp_path: Path, *later: str) -> PartitionSurvey:
    """The second has never seen the ABORT, and takes the producer's next marker for it."""
    before = [*told(["0 @7 k=1"]), *map(large, LARGE)]
    abort = told([f"{AFTER} @7 abort"])
    after = told([f"{AFTER + 1} @7/1 j=1", f"{AFTER + 2} @7/2 commit", *later])
    return survey(tmp_path, [*before, *abort, *after], [*before, *after])


def test_whoever_hides_a_record_for_a_marker_far_away_is_not_accused(tmp_path: Path) -> None:
    found = transactions(tmp_path)
    assert who(found.findings) == [("aborted-as-committed", (2,))]
    assert found.findings[0].verdict.right == (1,)


def test_a_marker_is_looked_for_behind_the_records_of_others(tmp_path: Path) -> None:
    """Nobody would find it by its key, which was written again."""
    found = transactions(tmp_path, f"{AFTER + 3} k=2")
    assert ("aborted-as-committed", (2,)) in who(found.findings)
    assert not found.not_judged


def test_a_transaction_too_long_to_be_looked_at_makes_it_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a key and as a transaction; who is right is not guessed."""
    monkeypatch.setattr(evidence, "MOST_TO_A_MARKER", 4 << 20)
    found = transactions(tmp_path)
    assert {each.code for each in found.findings} <= {"marker-mismatch"}
    assert found.not_judged == 2


@pytest.mark.parametrize(("most", "left_out"), [(2, 1), (3, 0)])
def test_aborted_transactions_that_are_too_many_to_compare_make_it_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, left_out: int
) -> None:
    """The second has missed the first ABORT; the key was written again, which hides that."""
    monkeypatch.setattr(settling, "MOST_SPANS", most)
    later = ["2 @7 j=1", "3 @7 commit", "4 @8 b=1", "5 @8 abort", "6 @9 c=1", "7 @9 abort"]
    after = told([*later, "8 k=2"])
    first, abort = told(["0 @7 k=1"]), told(["1 @7 abort"])
    found = survey(tmp_path, [*first, *abort, *after], [*first, *after])
    assert found.not_judged == left_out
    assert who(found.findings) == [("aborted-as-committed", (2,))] * (1 - left_out)


def plain(offset: int, values: list[bytes], headers: bytes = write_headers(())) -> bytes:
    times = np.full(len(values), 1_700_000_000_000)
    keys = Spans.from_list([None] * len(values))
    told = Spans.from_list([headers] * len(values))
    return encode(rows(times, keys, Spans.from_list(values), told, base_offset=offset))


STEP = 5  # offsets of one of the 4096 stretches
FIRST = 3_000 * STEP  # of the one whose records are large


def long_stretch() -> list[bytes]:
    """All before it, the records of the stretch one by one, and all after it."""
    length = 1_200_000 * 4  # bytes of a record
    return [
        plain(0, [b"x"] * FIRST),
        *(plain(FIRST + at, [bytes(length)]) for at in range(STEP)),
        plain(FIRST + STEP, [b"x"] * (4096 * STEP - FIRST - STEP)),
    ]


def test_a_long_stretch_is_looked_at_piece_by_piece(tmp_path: Path) -> None:
    """Not compacted: of 4096 stretches one differs, in the last of its records."""
    whole = long_stretch()
    found = survey(tmp_path, whole, [*whole[:STEP], *whole[STEP + 1 :]])
    assert who(found.findings) == [("missing-record", (2,))]
    assert found.findings[0].offsets == {1: FIRST + STEP - 1, 2: None}


def test_what_differs_in_more_than_a_look_compares_is_not_said_to_agree(tmp_path: Path) -> None:
    """The headers of a record, say: bytes and checksums differ, keys and values do not."""
    one = [plain(0, [b"x"]), plain(1, [b"y"])]
    other = [plain(0, [b"x"]), plain(1, [b"y"], write_headers([("trace", b"2")]))]
    found = survey(tmp_path, one, other)
    assert (who(found.findings), found.not_judged) == ([], 1)


class Retention:
    """When all has been read, the first segment of every copy is deleted for its age."""

    slots = 1

    def __init__(self, logs: Sequence[Path]) -> None:
        self._logs = logs

    def run(self, tasks: Sequence[FoldTask]) -> Iterator[tuple[int, Result]]:
        yield from LocalRunner(1).run(tasks)
        if not any(task.scope.compacted for task in tasks):
            for log in self._logs:
                log.unlink()


def survey_under_retention(tmp_path: Path, *replicas: Sequence[bytes]) -> PartitionSurvey:
    """The first two batches are in the segment that goes."""
    logs = []
    for number, batches in enumerate(replicas, 1):
        directory = tmp_path / str(number) / "orders-0"
        directory.mkdir(parents=True)
        logs.append(directory / f"{0:020}.log")
        logs[-1].write_bytes(b"".join(batches[:2]))
        start = BatchHeader.unpack(batches[2]).base_offset
        (directory / f"{start:020}.log").write_bytes(b"".join(batches[2:]))
    paths = [log.parent.parent for log in logs]
    (found,) = run_files_survey(paths, Retention(logs)).partitions
    return found


def test_what_retention_leaves_of_a_stretch_is_looked_at_to_its_end(tmp_path: Path) -> None:
    whole = long_stretch()
    found = survey_under_retention(tmp_path, whole, [*whole[:STEP], *whole[STEP + 1 :]])
    assert who(found.findings) == [("missing-record", (2,))]
    assert found.findings[0].offsets == {1: FIRST + STEP - 1, 2: None}


def test_what_differed_only_in_what_retention_deleted_is_neither_found_nor_left_open(
    tmp_path: Path,
) -> None:
    whole = long_stretch()
    found = survey_under_retention(tmp_path, whole, [whole[0], plain(FIRST, [b"y"]), *whole[2:]])
    assert (who(found.findings), found.not_judged) == ([], 0)


def survey_not_compacted(tmp_path: Path, *replicas: Sequence[bytes]) -> PartitionSurvey:
    """As of a cluster that says so."""
    plan = finish(plan_files(copies(tmp_path, replicas), compacted=False))
    audit = _Audit(Wanted("nowhere:1"), LocalRunner(1), Nobody(), None)
    (found,) = audit.run(plan).partitions
    return found


def test_holes_in_every_replica_are_not_said_to_agree_where_no_record_has_a_key(
    tmp_path: Path,
) -> None:
    """As after a compaction long ago, which takes what has no key; or each has lost something."""
    whole = [plain(offset, [b"x"]) for offset in range(6)]
    found = survey_not_compacted(tmp_path, [*whole[:1], *whole[2:]], [*whole[:3], *whole[4:]])
    assert (who(found.findings), found.not_judged) == ([], 2)


def test_the_same_holes_in_every_replica_are_no_difference(tmp_path: Path) -> None:
    thin = [plain(offset, [b"x"]) for offset in (0, 2, 3)]
    found = survey_not_compacted(tmp_path, thin, thin)
    assert (who(found.findings), found.not_judged) == ([], 0)
