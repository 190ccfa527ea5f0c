"""Sentences are folded between words; what is there to be copied is not."""

from __future__ import annotations

from sexton.report.prose import folded


def test_a_sentence_is_folded_between_words() -> None:
    said = "Broker 3 cannot be asked. Ask again when it is up."
    assert [*folded(said, 26)] == ["Broker 3 cannot be asked.", "Ask again when it is up."]
    assert [*folded(said, len(said))] == [said]


def test_lines_and_the_empty_ones_stay() -> None:
    assert [*folded("\none\n\ntwo", 10)] == ["", "one", "", "two"]


def test_a_command_stays_in_one_piece() -> None:
    said = "Rebuild what waits: `sexton repair orders:3 --yes`."
    assert [*folded(said, 34)] == ["Rebuild what waits:", "`sexton repair orders:3 --yes`."]
    long = "`sexton txn abort --topic orders --start-offset 7`"
    assert [*folded(f"Run {long} now.", 20)] == ["Run", long, "now."]


def test_an_indented_line_is_there_to_be_copied() -> None:
    line = "   → sexton sim replay --seed 7 --nodes 3"
    assert [*folded(line, 20)] == [line]
