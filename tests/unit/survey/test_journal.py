"""Does an interrupted audit go on where it was, and only its own?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sexton.audit.facts import BUCKETS, ReplicaFacts, Scope
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.survey.journal import Journal
from sexton.survey.plan import Group, Wanted

SCOPE = Scope(TopicPartition("orders", 0), 0, 90, True, 7)
WANTED = Wanted("localhost:9092", topics=("orders",))


def facts(node: int) -> ReplicaFacts:
    return ReplicaFacts(
        node, SCOPE, 0, 90, 90, 90, 90, records=5, batches=5, bytes=500, keys=3, tombstones=1,
        markers=0, aborted_records=0, first_timestamp=1, last_timestamp=2,
        digests=bytes(8 * BUCKETS), first_repeat=None, aborted=(), open=(), misfits=(), damage=(),
    )  # fmt: skip


def begun(path: Path) -> Journal:
    journal = Journal(path, WANTED)
    journal.begin(7, {SCOPE.partition: (Group(SCOPE, (1, 2)),)})
    journal.note(facts(1))
    return journal


def test_what_was_read_is_known_again(tmp_path: Path) -> None:
    begun(tmp_path / "journal")
    again = Journal(tmp_path / "journal", WANTED)
    assert again.seed == 7
    assert again.groups == {SCOPE.partition: (Group(SCOPE, (1, 2)),)}
    assert again.known(SCOPE, 1) == facts(1)
    assert again.known(SCOPE, 2) is None
    assert again.known(replace(SCOPE, start=5), 1) is None, "beside one whose log begins later"


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    begun(path).note(facts(2))
    path.write_bytes(path.read_bytes()[:-40])
    again = Journal(path, WANTED)
    assert again.known(SCOPE, 1) == facts(1)
    assert again.known(SCOPE, 2) is None


def test_what_is_added_after_a_cut_line_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    begun(path).note(facts(2))
    path.write_bytes(path.read_bytes()[:-40])
    Journal(path, WANTED).note(facts(2))
    assert Journal(path, WANTED).known(SCOPE, 2) == facts(2)


def test_an_audit_of_other_things_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "journal")
    with pytest.raises(ConfigError, match="other things"):
        Journal(tmp_path / "journal", Wanted("localhost:9092", topics=("payments",)))


def test_another_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("my notes\n")
    with pytest.raises(ConfigError, match="not the journal"):
        Journal(path, WANTED)
    assert path.read_text() == "my notes\n"


def test_the_end_of_an_audit_removes_it(tmp_path: Path) -> None:
    begun(tmp_path / "journal").done()
    assert not (tmp_path / "journal").exists()


def test_so_is_one_of_another_time(tmp_path: Path) -> None:
    """Else what was compared since yesterday would be told as if it were all."""
    begun(tmp_path / "journal")
    with pytest.raises(ConfigError, match="other things"):
        Journal(tmp_path / "journal", replace(WANTED, since_ms=5, since_told="6h"))
