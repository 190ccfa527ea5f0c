"""Notes of a repair: whole or not at all, one process at a time, and only what we wrote."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sexton.audit.finding import AuditFinding, Verdict
from sexton.audit.summary import key_in_words
from sexton.base.errors import ConfigError
from sexton.base.partitions import TopicPartition
from sexton.guard.repair_choices import Choice, choices_of
from sexton.guard.repair_notes import Held, Notes, NotesFile, default_path, left_behind
from sexton.machines.repair import Emptied, Job

AT = TopicPartition("orders", 3)
JOB = Job(AT, (1, 2, 3), (3,), (1, 2), 2, helper=4, emptied=Emptied(3, 1, 9), fillings=1)
HELD = Held(2, "orders", "min.compaction.lag.ms", None, "9223372036854775807")
NOTES = Notes("cluster", "orders", "00ff", 1_700_000_000_000, (HELD,), (JOB,), rounds=2)


def test_what_is_noted_is_read_again(tmp_path: Path) -> None:
    with NotesFile(tmp_path / "deep" / "notes.json") as file:
        assert file.read() is None
        file.write(NOTES)
        assert file.read() == NOTES
        file.clear()
        assert file.read() is None
        file.clear()  # once more does no harm


def test_two_repairs_of_one_topic_do_not_run_at_once(tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    with NotesFile(path), pytest.raises(ConfigError, match="another repair"), NotesFile(path):
        pass
    with NotesFile(path):
        pass  # the first is over


@pytest.mark.parametrize("text", ["{", "[]", '{"sexton": "audit journal", "version": 1}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.json"
    path.write_text(text, encoding="utf-8")
    with NotesFile(path) as file, pytest.raises(ConfigError):
        file.read()


def test_the_usual_place_is_one_file_for_each_topic_and_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_path("a/b", "orders") == tmp_path / "sexton/repair/a_b-orders.json"


def test_what_others_have_left_behind_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the usual place, of this cluster, and not of a repair that is at work."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert left_behind("cluster", "orders") == []
    for cluster, topic in (
        ("cluster", "orders"), ("cluster", "events.v1"), ("cluster", "busy"), ("cluster-2", "far"),
    ):  # fmt: skip
        with NotesFile(default_path(cluster, topic)) as file:
            file.write(replace(NOTES, cluster_id=cluster, topic=topic))
    default_path("cluster", "broken").write_text("{", encoding="utf-8")
    with NotesFile(default_path("cluster", "busy")):
        assert left_behind("cluster", "orders") == ["events.v1"]
    assert left_behind("cluster", "") == ["busy", "events.v1", "orders"]


# ── choices ──


def finding(key: bytes, values: dict[int, str | None]) -> AuditFinding:
    offsets = {node: 7 if value else None for node, value in values.items()}
    verdict = Verdict(None, "unknown", "gone")
    return AuditFinding(
        "missing-record", "error", AT, (1, 2), "m", key, offsets, values, (), verdict, None, None,
        "r", (),
    )  # fmt: skip


def test_a_key_is_named_by_text_digits_or_digest() -> None:
    found = [finding(b"k", {1: "aa", 2: None})]
    (plain,) = choices_of(found, ["k"], [], None)
    assert plain == Choice(AT, b"k", keep=False)
    digest = plain.in_words(plain_keys=False).rpartition(" ")[2]
    assert choices_of(found, ["0x6b"], [], None) == [plain]
    assert choices_of(found, [digest], [], None) == [plain]
    with pytest.raises(ConfigError, match="do not differ"):
        choices_of(found, ["other"], [], None)


def test_no_other_key_is_taken_for_the_one_that_was_named() -> None:
    found = [finding(key, {1: "aa", 2: None}) for key in (b"k\xff", b"k\xfe", b"k", b"0x6b")]
    (chosen,) = choices_of(found, [os.fsdecode(b"k\xfe")], [], None)
    assert chosen.key == b"k\xfe"
    with pytest.raises(ConfigError, match="do not differ"):
        choices_of(found, ["k\ufffd"], [], None)  # as a terminal shows both of the first two
    with pytest.raises(ConfigError, match="several keys"):
        choices_of(found, ["0x6b"], [], None)
    for each in found:  # what the audit prints to be copied
        (chosen,) = choices_of(found, [key_in_words(each.key, plain=True) or ""], [], None)
        assert chosen.key == each.key


def test_whose_value_it_is_must_be_clear() -> None:
    one = [finding(b"k", {1: "aa", 2: None})]
    assert choices_of(one, [], ["k"], None) == [Choice(AT, b"k", keep=True, broker=1)]
    two = [finding(b"k", {1: "aa", 2: "bb"})]
    with pytest.raises(ConfigError, match="different values"):
        choices_of(two, [], ["k"], None)
    assert choices_of(two, [], ["k"], 2) == [Choice(AT, b"k", keep=True, broker=2)]
    with pytest.raises(ConfigError, match="no value"):
        choices_of(one, [], ["k"], 2)
