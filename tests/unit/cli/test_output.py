from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from rich.text import Text

from sexton.base.errors import ConfigError, CorruptLog, Refused, no_such_topic
from sexton.base.findings import Finding
from sexton.base.kafka_errors import KafkaError
from sexton.cli.bars import Figures, open_bar
from sexton.cli.cluster_reach import Reach
from sexton.cli.output import Output
from sexton.cli.retry_status import COLUMNS as RETRY_STATUS
from sexton.cli.writers import Format
from sexton.client.reading import OffsetsGone
from sexton.report.findings import MOST_ALIKE
from sexton.report.tables import Cell, Column, number, print_rich

COLUMNS = (number("offset"), Column("key"))
ROWS: list[list[Cell]] = [[0, "a"], [1, None]]
WRONG = Finding("corrupt-batch", "error", "x.log at 0", "the CRC is wrong")
NOTE = Finding("offset-gap", "note", "x at 7", "compacted away")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def say(
    chosen: Format, speak: Callable[[Output], None], stdout: io.StringIO | None = None
) -> tuple[int, str, str]:
    stdout, stderr = stdout or io.StringIO(), io.StringIO()
    code = 0
    try:
        with Output("log verify", chosen, stdout, stderr) as out:
            speak(out)
    except typer.Exit as exit_:
        code = exit_.exit_code
    return code, stdout.getvalue(), stderr.getvalue()


def everything(out: Output) -> None:
    out.say("Reading.")
    out.rows("records", COLUMNS, ROWS)
    out.finding(NOTE)
    out.summarize(records=2)


@pytest.mark.parametrize("stdout", [io.StringIO, Terminal])
def test_no_id_or_key_in_a_sentence_steers_a_terminal(stdout: type[io.StringIO]) -> None:
    steering = "a\x1b]0;b\x07"  # a new title for the window

    def speak(out: Output) -> None:
        out.say(f"Broker 1 coordinates {steering}.\nWait.")
        out.finding(Finding("hanging", "note", steering, steering, {"id": steering}, steering))
        out.incomplete(steering, f"cannot be asked: {steering}")
        raise CorruptLog(steering, steering, steering)

    _, told, aside = say(Format.table, speak, stdout())
    assert told.startswith("Broker 1 coordinates a\\x1b]0;b\\x07.\nWait.\n")
    assert told.count("\\x1b]0;b") == 5 and aside.count("\\x1b]0;b") == 5
    assert "\x07" not in told + aside and "\x1b]" not in told + aside


def test_the_table_is_for_people() -> None:
    code, stdout, stderr = say(Format.table, everything)
    assert stdout == (
        "Reading.\n\n"
        "offset  key\n     0  a\n     1  -\n"
        "note     offset-gap  x at 7\n         compacted away\n\n"
        "records  2\n"
    )
    assert (code, stderr) == (0, "")


def test_json_is_one_versioned_object() -> None:
    _, stdout, _ = say(Format.json, everything)
    answer = json.loads(stdout)
    assert answer == {
        "sexton": 1,
        "command": "log verify",
        "records": [{"offset": 0, "key": "a"}, {"offset": 1, "key": None}],
        "findings": [
            {
                "code": "offset-gap",
                "severity": "note",
                "where": "x at 7",
                "message": "compacted away",
                "evidence": {},
                "remedy": None,
            }
        ],
        "summary": {"records": 2},
        "incomplete": [],
        "ok": True,
        "exit_code": 0,
        "error": None,
    }


def test_json_lines_name_their_type_and_their_end() -> None:
    _, stdout, _ = say(Format.jsonl, everything)
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert [line["type"] for line in lines] == ["record", "record", "finding", "end"]
    assert lines[0] == {"type": "record", "offset": 0, "key": "a"}
    assert lines[-1]["summary"] == {"records": 2}
    assert lines[-1]["ok"] is True


def test_tsv_is_rows_and_nothing_else() -> None:
    _, stdout, _ = say(Format.tsv, everything)
    assert stdout == "0\ta\n1\t-\nnote\toffset-gap\tx at 7\tcompacted away\t-\t-\n"


@pytest.mark.parametrize(
    ("speak", "code"),
    [
        (lambda out: out.say("clean"), 0),
        (lambda out: out.finding(NOTE), 0),
        (lambda out: out.finding(WRONG), 1),
        (lambda out: out.incomplete("y.log", "not readable"), 3),
        (lambda out: (out.incomplete("y.log", "not readable"), out.finding(WRONG)), 1),
        (lambda out: (out.incomplete("y.log", "not readable"), out.finding(NOTE)), 3),
    ],
)
@pytest.mark.parametrize("chosen", list(Format))
def test_the_exit_code_follows_from_what_was_said(
    chosen: Format, speak: Callable[[Output], None], code: int
) -> None:
    assert say(chosen, speak)[0] == code


def test_what_could_not_be_looked_at_is_named_on_both_streams() -> None:
    speak = lambda out: out.skipped(CorruptLog("y.log", "is cut off"))  # noqa: E731
    _, stdout, stderr = say(Format.json, speak)
    assert json.loads(stdout)["incomplete"] == [{"subject": "y.log", "why": "is cut off"}]
    assert stderr == "incomplete: y.log: is cut off\n"


def rows_then(error: BaseException) -> Iterator[list[Cell]]:
    yield [0, "a"]
    raise error


# What confluent-kafka 2.16 raises when Ctrl-C comes while it waits.
LOST = "<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception"


def interrupted_while_a_class_is_made() -> BaseException:
    """As in an import; Python 3.11 tells of it by another name."""

    class Field:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    try:
        type("Made", (), {"field": Field()})
    except BaseException as error:  # noqa: BLE001 - which one it is depends on Python
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (CorruptLog("x.log", "is cut off", "restore it"), 1, "corrupt-log"),
        (ConfigError("--key", "is not hexadecimal"), 2, "config-error"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemError(LOST), 130, "interrupted"),
        (interrupted_while_a_class_is_made(), 130, "interrupted"),
        (RuntimeError("generator raised StopIteration"), 1, "unexpected"),
        (SystemError("bad argument to internal function"), 1, "unexpected"),
        (PermissionError(13, "Permission denied", "x.log"), 1, "os-error"),
        (ZeroDivisionError("division by zero"), 1, "unexpected"),
    ],
)
@pytest.mark.parametrize("chosen", [Format.json, Format.jsonl])
def test_an_error_among_the_rows_still_leaves_whole_objects(
    chosen: Format, error: BaseException, code: int, kind: str
) -> None:
    got, stdout, stderr = say(chosen, lambda out: out.rows("records", COLUMNS, rows_then(error)))
    ending: dict[str, Any] = (
        json.loads(stdout) if chosen is Format.json else json.loads(stdout.splitlines()[-1])
    )
    assert ending["ok"] is False
    assert (got, ending["exit_code"], ending["error"]["kind"]) == (code, code, kind)
    assert len(stderr.splitlines()) in (1, 2)


def test_people_are_told_figures_in_units_they_can_picture() -> None:
    def figures(out: Output) -> None:
        out.summarize(topics=2, reaction_ms=125_000, until_ms=0, held_back_bytes=2_500, bytes=7)

    assert say(Format.table, figures)[1].split("\n")[:-1] == [
        "topics     2",
        "reaction   2 min 5 s",
        "until      1970-01-01 00:00:00 UTC",
        "held back  2.5 kB",
        "bytes      7",
    ]
    told = json.loads(say(Format.json, figures)[1])["summary"]
    assert (told["reaction_ms"], told["held_back_bytes"]) == (125_000, 2_500)  # programs count


def test_an_error_is_said_in_two_lines() -> None:
    def fail(out: Output) -> None:
        raise CorruptLog("x.log", "is cut off", "restore it")

    assert say(Format.table, fail) == (1, "", "error: x.log: is cut off\nhint: restore it\n")


def test_a_terminal_gets_colour_and_no_color_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in say(Format.table, lambda out: out.finding(WRONG), Terminal())[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in say(Format.table, lambda out: out.finding(WRONG), Terminal())[1]


def test_a_terminal_without_colour_is_as_narrow_as_one_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")

    def two_texts(out: Output) -> None:
        out.rows("texts", [Column("a"), Column("b")], [["one two three", "four five six"]])

    narrow = say(Format.table, two_texts, Terminal())[1].splitlines()
    assert max(map(len, narrow)) <= 20 and "\x1b[" not in "".join(narrow)
    piped = say(Format.table, two_texts)[1].splitlines()
    assert "one two three  four five six" in piped  # the control: a pipe folds nothing


def test_a_sentence_is_folded_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    said = "Consumers wait for the end of a transaction."
    folded = "Consumers wait for\nthe end of a\ntransaction.\n"
    assert say(Format.table, lambda out: out.say(said), Terminal())[1] == folded
    assert say(Format.table, lambda out: out.say(said))[1] == said + "\n"


def test_progress_moves_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stderr, moves in ((io.StringIO(), False), (Terminal(), True)):
        with (
            Output("log verify", Format.json, io.StringIO(), stderr) as out,
            out.progress("reading", 100, "bytes") as advance,
        ):
            advance(60)
            advance(40)
        assert ("reading" in stderr.getvalue()) is moves


def test_work_within_work_has_a_line_of_the_same_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stderr = Terminal()
    with Output("audit", Format.json, io.StringIO(), stderr) as out:
        with out.progress("reading", 8, "bytes") as advance, out.progress("starting"):
            advance(8)
        with out.progress("reading again"):
            pass
    text = stderr.getvalue()
    assert text.index("reading") < text.index("starting") < text.index("reading again")
    assert text.count("\x1b[?25l") == 2, "one display for the first two, one for the third"


@pytest.mark.parametrize(
    ("total", "done", "unit", "text"),
    [
        (None, 0, "items", "0 s"),
        (None, 7, "items", "7, 0 s"),
        (20, 3, "items", "3 of 20"),
        (8_000_000, 1_200_000, "bytes", "1.2 MB of 8.0 MB"),
    ],
)
def test_a_bar_tells_how_far_it_is(total: int | None, done: int, unit: str, text: str) -> None:
    bar = open_bar(io.StringIO())
    bar.add_task("reading", total=total, completed=done, unit=unit)
    assert Figures().render(bar.tasks[0]).plain == text


def test_the_figures_of_a_bar_do_not_break_a_line_of_80_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures = "224.2 kB of 2.1 MB, 1 min 12 s left"
    monkeypatch.setattr(Figures, "render", lambda *_: Text(figures))
    bar = open_bar(io.StringIO())
    bar.add_task("reading replicas", total=2_100_000, completed=1_000_000, unit="bytes")
    drawn = io.StringIO()
    Console(file=drawn, width=80).print(bar.get_renderable())
    (line,) = drawn.getvalue().splitlines()
    assert "━" in line and line.endswith(figures)


def test_progress_makes_room_for_rows_on_the_same_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stdout, stderr = Terminal(), Terminal()
    with Output("log dump", Format.table, stdout, stderr) as out, out.progress("reading") as step:
        out.rows("records", COLUMNS, ROWS)
        moved = len(stderr.getvalue())
        step(1)
        assert len(stderr.getvalue()) == moved


def test_numbers_from_numpy_columns_are_plain_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    rows = [[numpy.int64(7), "a"]]
    assert json.loads(say(Format.json, lambda out: out.rows("records", COLUMNS, rows))[1])[
        "records"
    ] == [{"offset": 7, "key": "a"}]


def test_what_json_cannot_hold_is_our_bug_and_not_a_wrong_answer() -> None:
    rows: list[Any] = [[0, b"bytes"]]
    code, stdout, _ = say(Format.json, lambda out: out.rows("records", COLUMNS, rows))
    assert code == 1
    assert json.loads(stdout)["error"]["kind"] == "unexpected"


def test_an_age_is_not_parted_from_its_unit_on_a_narrow_terminal() -> None:
    console = Console(file=io.StringIO(), width=80)
    ages = ("13 min 24 s", "23 h 59 min")
    print_rich(console, RETRY_STATUS, [(0, 13, 0, 1, 5, 1, age, 0, 0, 0) for age in ages])
    assert isinstance(console.file, io.StringIO)
    assert all(age in console.file.getvalue() for age in ages)


def test_what_was_not_looked_at_is_told_between_words_and_names_a_broker_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A terminal breaks a line that is too long in the middle of a word; a file gets it whole."""
    monkeypatch.setenv("COLUMNS", "60")
    told = "incomplete: orders-0 on broker 3: is not up: the cluster does not name it"
    folded = "incomplete: orders-0 on broker 3: is not up: the cluster\n  does not name it"
    for stderr, line in ((Terminal(), folded), (io.StringIO(), told)):
        with pytest.raises(typer.Exit), Output("x", Format.table, io.StringIO(), stderr) as out:
            out.incomplete(
                "orders-0 on broker 3", "broker 3: is not up: the cluster does not name it"
            )
        assert stderr.getvalue() == line + "\n"


def test_a_reason_that_many_share_is_told_once_and_programs_get_each() -> None:
    down = "broker 3: is not up"
    parts = [(f"orders-{number} on broker 3", down) for number in range(1_205)]
    parts.append(("users-0 on broker 2", "broker 2: no answer"))
    stdout, stderr = io.StringIO(), io.StringIO()
    with pytest.raises(typer.Exit) as left, Output("x", Format.json, stdout, stderr) as out:
        out.incomplete_parts(parts)
    assert left.value.exit_code == 3
    told = [(each["subject"], each["why"]) for each in json.loads(stdout.getvalue())["incomplete"]]
    assert told == parts
    first = ", ".join(f"orders-{number} on broker 3" for number in range(3))
    assert stderr.getvalue().splitlines() == [
        f"incomplete: {first} and 1,202 more: broker 3: is not up",
        "incomplete: users-0 on broker 2: no answer",
    ]


def test_of_findings_that_are_alike_people_are_told_some_and_programs_each() -> None:
    """When a broker goes, a guard doubts a replica of every topic there is."""
    doubts = [
        Finding("guard-doubt", "error", f"t{n}", "was away", {"n": n}, f"`sexton audit t{n}`")
        for n in range(300)
    ]
    slow = [
        Finding("guard-too-slow", "warning", f"t{n}", "too slow", {}, "raise it")
        for n in range(MOST_ALIKE + 1)
    ]
    mixed = [doubts[0], slow[0], *doubts[1:], *slow[1:], NOTE]

    def tell(out: Output) -> None:
        out.findings(mixed)
        out.say_findings()

    code, stdout, _ = say(Format.table, tell)
    assert code == 1
    for n in range(MOST_ALIKE):
        assert f"error    guard-doubt  t{n}\n" in stdout
    assert stdout.count("guard-doubt") == MOST_ALIKE + 1
    assert (
        "error    guard-doubt  t5, t6, t7 and 292 more\n"
        "         was away\n"
        "         → As above for each of them; --format json tells all.\n"
    ) in stdout
    assert stdout.count("guard-too-slow") == MOST_ALIKE + 1, "one is not worth folding"
    assert "300 errors, 6 warnings, 1 note" in stdout
    _, stdout, _ = say(Format.json, tell)
    assert [each["where"] for each in json.loads(stdout)["findings"]] == [
        each.where for each in mixed
    ]


def test_a_command_that_people_are_told_works_as_it_stands() -> None:
    """Without the -b of this one it would ask another cluster, or none."""
    reach = Reach("kafka:9092", ["sasl.password=secret"], Path("my client.properties"), None)
    remedy = "audit it (`sexton audit -t t`), see `--format`, then `sexton guard thaw t --audited`"

    def told(chosen: Format, reached: str) -> tuple[str, str]:
        stdout, stderr = io.StringIO(), io.StringIO()

        def run() -> None:
            with Output("guard status", chosen, stdout, stderr, reached=reached) as out:
                out.finding(Finding("guard-doubt", "error", "t", "was away", {}, remedy))
                out.findings([Finding("guard-doubt", "error", "u", "was away", {}, remedy)])
                raise no_such_topic("v")

        with pytest.raises(typer.Exit):
            run()
        return stdout.getvalue(), stderr.getvalue()

    options = "-b kafka:9092 --command-config 'my client.properties'"
    assert reach.options == options, "and nobody's password"
    said, failed = told(Format.table, options)
    assert said.count(f"(`sexton audit -t t {options}`), see `--format`, then") == 2
    assert said.count(f"`sexton guard thaw t --audited {options}`\n") == 2
    assert failed.endswith(f"hint: `sexton cluster topics {options}` lists those that exist\n")
    said, failed = told(Format.table, "")
    assert said.count(f"→ {remedy}\n") == 2
    assert "`sexton cluster topics` lists those that exist, with the same -b" in failed
    said, _ = told(Format.json, options)
    assert [each["remedy"] for each in json.loads(said)["findings"]] == [remedy] * 2


def test_where_the_remedy_is_the_same_it_is_told_of_the_rest_too() -> None:
    found = [
        Finding("guard-too-slow", "warning", f"t{n}", f"too slow by {n}", {}, "raise it")
        for n in range(8)
    ]
    _, stdout, _ = say(Format.table, lambda out: out.findings(found))
    assert stdout.endswith("guard-too-slow  t5, t6, t7\n         → raise it\n")


@pytest.mark.parametrize(
    "error",
    [Refused(KafkaError.OFFSET_OUT_OF_RANGE, "orders-0 is cut"), OffsetsGone("orders-0", 9, 0, 5)],
    ids=["refused", "of a kind of its own"],
)
def test_of_a_refusal_the_code_comes_last(error: Refused) -> None:
    stderr = io.StringIO()
    with pytest.raises(typer.Exit), Output("x", Format.table, io.StringIO(), stderr):
        raise error
    assert stderr.getvalue().splitlines()[0] == f"error: {error.told}"
    assert error.told == f"{error.why} (OFFSET_OUT_OF_RANGE)"


def test_a_failure_is_told_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a command between backticks in one piece, to be copied."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    error = ConfigError("/data", "no cluster runs there", "start one, say `sexton up --data /data`")
    for stderr, hint in (
        (Terminal(), "hint: start one, say\n  `sexton up --data /data`\n"),
        (io.StringIO(), "hint: start one, say `sexton up --data /data`\n"),
    ):
        with pytest.raises(typer.Exit), Output("x", Format.table, io.StringIO(), stderr):
            raise error
        assert stderr.getvalue() == f"error: /data: no cluster runs there\n{hint}"
