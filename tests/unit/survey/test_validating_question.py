"""What is refused before anybody is asked, in the words of the command and of Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.survey.validating_question import (
    OfPython,
    OfTheCommand,
    Words,
    check_question,
    local_path,
)

HERE = Path(__file__)
NOTHING: dict[str, Any] = {"table": None, "table_value": None, "checkpoint": None, "until": False}


def refusal(rules: Rules, words: Words, **given: Any) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        check_question(rules, words, **{**NOTHING, **given})
    return raised.value


@pytest.mark.parametrize(
    ("rules", "given", "subject", "why"),
    [
        (Rules(), {}, None, "is not told what must hold"),
        (Rules(id="key", rising="rising"), {}, "rising", "needs "),
        (Rules(value="int", source="s"), {}, "source", "by which records are recognized"),
        (Rules(value="jsn:x"), {}, "value", "is not understood"),
        (Rules(id="key", source_id="jsn:x", source="s"), {}, "source_id", "is not understood"),
        (Rules(id="key", complete=True), {}, "complete", "whose records have to be there"),
        (Rules(id="key", source="s", complete=True), {"until": True}, "complete", "whole topic"),
        (Rules(id="key", source="s", complete=True), {"since": True}, "complete", "whole topic"),
        (Rules(id="key", source="s"), {"settle": True}, "settle", "how long a record may take"),
        (Rules(), {"table": HERE, "table_value": "n"}, "table_value", "needs"),
        (Rules(value="int"), {"table_value": "n"}, "table_value", "needs a table"),
        (
            Rules(value="int", rising="rising"),
            {"table": HERE, "table_value": "n"},
            "rising",
            "is for the table then",
        ),
        (Rules(), {"table": HERE, "since": True}, "table", "needs the whole topic, and does not"),
        (Rules(), {"table": HERE, "partition": True}, "table", "with one partition alone"),
        (Rules(sequence="json:n float"), {}, "sequence", "counts in whole numbers"),
        (Rules(sequence="double"), {}, "sequence", "counts in whole numbers"),
        (Rules(key="key, int"), {"table": HERE}, "key", "of several parts does not go with"),
        (Rules(), {"table": HERE, "checkpoint": HERE}, "table", "needs the whole topic at once"),
        (Rules(value="int"), {"until": True, "checkpoint": HERE}, "until", "step by step"),
        (Rules(compare_isolation=True), {"checkpoint": HERE}, "compare_isolation", "step by step"),
        (Rules(id="key", source="s"), {"checkpoint": HERE}, "source", "step by step"),
    ],
)
def test_what_would_be_left_out_is_refused_by_its_name(
    rules: Rules, given: dict[str, Any], subject: str | None, why: str
) -> None:
    for words in (OfTheCommand(), OfPython()):
        error = refusal(rules, words, **given)
        assert error.subject == (words.asker if subject is None else words.name(subject))
        assert why in error.why


def test_each_is_told_in_his_own_words() -> None:
    rules, given = Rules(), {"table": HERE, "table_value": "balance"}
    assert refusal(rules, OfTheCommand(), **given).hint == (
        "such as --value json:balance, --table-value balance"
    )
    assert refusal(rules, OfPython(), **given).hint == (
        'such as value="json:balance", table_value="balance"'
    )


@pytest.mark.parametrize(
    ("rules", "given"),
    [
        (Rules(value="int", rising="rising"), {"checkpoint": HERE}),
        (Rules(compare_isolation=True), {"until": True}),
        (Rules(value="json:n"), {"table": HERE, "table_value": "n"}),
        (Rules(value="json:n", rising="rising"), {"table": HERE}),
        (Rules(key="json:a"), {"table": HERE}),
        (Rules(id="key, int", source="s"), {}),
    ],
)
def test_what_can_be_answered_is_not_refused(rules: Rules, given: dict[str, Any]) -> None:
    for words in (OfTheCommand(), OfPython()):
        check_question(rules, words, **{**NOTHING, **given})


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = refusal(Rules(), OfPython(), table=tmp_path / "t")
    assert error.subject == str(tmp_path / "t") and "Parquet" in (error.hint or "")


@pytest.mark.parametrize("given", ["s3a://lake/users", "hdfs://host:8020/x", "dbfs:/mnt/x"])
def test_a_place_that_is_not_on_this_machine_is_refused(given: str) -> None:
    """Also if it has been made a `Path` before, which takes a slash from it."""
    for each in (given, Path(given)):
        with pytest.raises(ConfigError) as raised:
            local_path(each)
        scheme, _, rest = given.partition(":")
        assert raised.value.subject == f"{scheme}://{rest.lstrip('/')}"
        assert "mount it or copy it" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("/lake/users", "/lake/users"),
        ("lake/users", "lake/users"),
        ("C:/lake", "C:/lake"),  # one letter is no scheme
        ("file:///lake/users", "/lake/users"),
        ("file:/lake/users", "/lake/users"),
    ],
)
def test_a_path_stays_what_it_is(given: str, meant: str) -> None:
    assert local_path(given) == local_path(Path(given)) == Path(meant)


def test_a_directory_with_a_strange_name_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a1:" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert local_path("a1:/b") == Path("a1:/b")
