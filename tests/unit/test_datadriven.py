from __future__ import annotations

from pathlib import Path

import pytest

from tests.datadriven import Case, datadriven, parse, run_file

STORY = """\
# A comment stays.

add a=1
----
1

add a=2
----
wrong
"""


def add(case: Case) -> str:
    return str(case.number("a"))


@datadriven(__file__, "testdata/datadriven.txt")
def test_a_file_is_a_story_with_state(path: Path) -> None:
    seen: list[Case] = []

    def answer(case: Case) -> str:
        seen.append(case)
        match case.command:
            case "echo":
                options = ",".join(f"{k}:{v}" for k, v in sorted(case.options.items()))
                head = f"command={case.command} words={','.join(case.words)} options={options}"
                return "\n".join([head, *case.lines])
            case "count":
                return f"{len(seen) - 1} cases before this one\n"
            case _:
                return ""

    run_file(path, answer)
    assert [case.command for case in seen] == ["echo", "echo", "count", "silent"]


def test_a_wrong_answer_is_shown_as_a_diff_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    with pytest.raises(pytest.fail.Exception) as failure:
        run_file(path, add, rewrite=False)
    assert f"{path}:7: another answer came" in str(failure.value)
    assert "-wrong\n+2" in str(failure.value)
    assert path.read_text() == STORY


def test_rewrite_changes_the_answers_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    run_file(path, add, rewrite=True)
    assert path.read_text() == STORY.replace("wrong", "2")
    run_file(path, add, rewrite=False)


@pytest.mark.parametrize("answer", ["a\n\nb", "\na", "", "- - -\n-----"])
def test_whatever_is_rewritten_passes_the_next_time(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "story.txt"
    path.write_text("say\n----\n\nsay\n----\n")
    run_file(path, lambda _: answer, rewrite=True)
    run_file(path, lambda _: answer, rewrite=False)


def test_an_error_names_the_block_that_caused_it(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("\nadd\n----\n")
    with pytest.raises(AssertionError) as error:
        run_file(path, add)
    assert f"while answering `add` at {path}:2" in error.value.__notes__
    assert "needs a=" in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("say\nno dashes\n", "f:1: no ---- after this command"),
        ("\nsay\n----\n----\nno end\n", "f:2: the answer after doubled ---- has no end"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        list(parse(text, "f"))
