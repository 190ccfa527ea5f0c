"""Every command speaks like every other: options, values, exit codes, errors, JSON.

These tests walk the registry, so that a command that is added tomorrow has to follow. Where one
differs on purpose, the reason stands beside its name.
"""

from __future__ import annotations

import re
import socket
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sexton.cli import registry
from sexton.cli.failures import NO_ANSWER
from sexton.cli.main import build_command, named_command
from sexton.cli.registry import Entry
from tests.conftest import Result, RunSexton
from tools import make_cli_reference

each_command = pytest.mark.parametrize(
    "entry", registry.COMMANDS, ids=[entry.path for entry in registry.COMMANDS]
)

# The same name for another thing, since each is the word that its users know.
OF_ITS_OWN = {
    "--all": "of all partitions, or every compacted topic: what else the command is about",
    "--checkpoint": "that of a validation, or that of a stream of Spark",
    "--config": "a file of broker options, or as in kafka-topics.sh an option of a topic",
    "--data": "`up` keeps it there; the others look for it",
    "--dry-run": "what is shown differs: a plan, what would go, what would be done",
    "--force": "what is risked by it is said",
    "--html": "`demo` always writes one",
    "--insecure": "what is shown beyond this machine is said",
    "--internal": "an audit may be of internal topics alone",
    "--key": "an expression, or a key that is wanted",
    "--metrics-port": "an audit has metrics with --watch only",
    "--off": "what is ended is said",
    "--parquet": "findings, or records",
    "--policy": "the lab has another default",
    "--producer-id": "of which it is said what it is for",
    "--set": "an option of brokers, or of a run of the simulator",
    "--since": "an audit is blind for what is older",
    "--state": "a file, or the state of a transaction",
    "--topic": "topics to audit, that of a retry, that of a transaction",
    "--wait": "a flag, or how long",
    "--watch": "an audit again and again, or a view that stays",
}
# Arguments with which a command gets as far as looking for its cluster.
TO_THE_CLUSTER: dict[str, tuple[str, ...]] = {
    "audit": ("orders", "--engine", "local"),
    "validate": ("orders", "--value", "int64", "--engine", "local"),
    "repair": ("orders", "--dry-run"),
    "cluster elect": ("orders:0",),
    "guard run": ("--once",),
    "guard freeze": ("orders",),
    "guard thaw": ("orders",),
    "guard maintenance": ("--for", "1h"),
    "guard panic": ("--yes",),
    "retry explain": ("k", "--topic", "orders", "--group", "g"),
    "retry redrive": ("--topic", "orders", "--group", "g", "--all-held"),
    "retry skip": ("--topic", "orders", "--group", "g", "--all-held"),
    "stores status": ("app",),
    "txn describe": ("--transactional-id", "t"),
    "txn describe-producers": ("--topic", "orders", "--partition", "0"),
    "txn abort": ("--topic", "orders", "--partition", "0", "--start-offset", "3"),
    "txn explain": ("orders:0",),
}
NEEDS_A_STORE = "stores verify"  # looks at its directory first


def options_of(entry: Entry) -> list[Any]:
    return [each for each in build_command(entry).params if each.param_type_name == "option"]


def names_of(entry: Entry) -> set[str]:
    return {name for option in options_of(entry) for name in option.opts}


# ── options ──


@each_command
def test_every_command_answers_programs_too(entry: Entry) -> None:
    assert "--format" in names_of(entry)


def test_who_talks_to_a_cluster_takes_all_that_says_which() -> None:
    for entry in registry.COMMANDS:
        names = names_of(entry)
        if "--bootstrap-servers" in names:
            assert {"--bootstrap-server", "-b", "-X", "--command-config"} <= names, entry.path
            assert "--data" in names, entry.path


def test_an_option_means_the_same_wherever_it_stands() -> None:
    told: dict[str, set[tuple[Any, ...]]] = defaultdict(set)
    for entry in registry.COMMANDS:
        for option in options_of(entry):
            first = next(name for name in option.opts if name.startswith("-"))
            told[first].add((tuple(option.opts), option.metavar, option.help))
    differing = {name for name, ways in told.items() if len(ways) > 1}
    assert differing <= set(OF_ITS_OWN)
    assert set(OF_ITS_OWN) <= differing, "no longer different: take them off the list"


@each_command
def test_no_value_is_named_by_a_python_type(entry: Entry) -> None:
    text = make_cli_reference.help_text(entry.path.split())
    assert not re.findall(r"<[a-z]+( range)?>|list\[", text)


@each_command
@pytest.mark.parametrize("width", [80, 160])
def test_a_help_text_fits_the_terminal(
    entry: Entry, width: int, monkeypatch: pytest.MonkeyPatch, run_sexton: RunSexton
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text, _, _ = run_sexton(*entry.path.split(), "--help").stdout.partition("\nExamples:")
    whole = re.compile(r"^  --[a-z-]+ <[a-z|0-9_-]+>$")  # choices are one word, which is not broken
    assert [line for line in text.splitlines() if len(line) > width and not whole.match(line)] == []


@each_command
def test_a_help_text_tells_the_exit_codes(entry: Entry) -> None:
    text = make_cli_reference.help_text(entry.path.split())
    told = text.partition("\nExit codes:\n")[2].partition("\nExamples:")[0]
    assert re.search(r"\b0 .*\b1 .*\b2 wrong usage", told.replace("\n", " "), re.DOTALL)


# ── errors ──


def assert_says_what_and_what_to_do(result: Result) -> None:
    lines = result.stderr.splitlines()
    assert lines[-2].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert "Traceback" not in result.stderr
    assert "bug" not in result.stderr


@each_command
def test_wrong_usage_is_told_alike(entry: Entry, run_sexton: RunSexton) -> None:
    words = entry.path.split()
    result = run_sexton(*words, "--format", "json", "--no-such-option")
    assert_says_what_and_what_to_do(result)
    assert result.code == 2
    assert result.json["command"] == entry.path
    assert result.json["exit_code"] == 2
    assert result.json["error"]["kind"] == "usage"
    assert f"`sexton {entry.path} --help`" in result.stderr


NUMBERS = [
    (entry.path, option.opts[0], option.type_descriptor)
    for entry in registry.COMMANDS
    for option in options_of(entry)
    if option.type_descriptor.annotation in (int, float, list[int])
]


@pytest.mark.parametrize(
    ("path", "option", "kind"), NUMBERS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_wrong_number_is_named_and_told_in_our_words(
    path: str, option: str, kind: Any, run_sexton: RunSexton
) -> None:
    def told(given: str) -> str:
        result = run_sexton(*path.split(), option, given)
        assert_says_what_and_what_to_do(result)
        assert result.code == 2
        start = f"error: sexton {path}: invalid value for '{option}"
        assert result.stderr.startswith(start), result.stderr
        return result.stderr.splitlines()[0].partition("': ")[2]

    whole = "" if kind.annotation is float else "whole "
    assert told("x") == f"'x' is not a {whole}number"
    least, most = kind.parameter_info.min, kind.parameter_info.max
    if least is not None:
        assert told(f"{least - 1}") == f"{least - 1} is too small: at least {least}"
    if most is not None:
        assert told(f"{most + 1}") == f"{most + 1} is too large: at most {most}"


def test_a_wrong_number_that_stands_by_itself_is_told_alike(run_sexton: RunSexton) -> None:
    answer = run_sexton("cluster", "kill", "x")
    assert answer.stderr == (
        "error: sexton cluster kill: invalid value for 'BROKER': 'x' is not a whole number\n"
        "hint: see `sexton cluster kill --help`\n"
    )


def test_the_command_of_a_wrong_line_is_known_without_its_arguments() -> None:
    assert named_command(["audit", "orders", "--nonsense"]) == "audit"
    assert named_command(["log", "verify", "orders-0"]) == "log verify"
    assert named_command(["log", "verfiy"]) == ""
    assert named_command([]) == ""


LOGS = "hint: name a data directory (log.dirs), a partition's directory or a segment file"
PROPERTIES = "hint: name a file of KEY=VALUE lines, as for Kafka's own tools"
NOT_THERE = [
    ("log dump /nope", "/nope: no such file or directory", LOGS),
    ("log verify /nope", "/nope: no such file or directory", LOGS),
    ("log stats /nope", "/nope: no such file or directory", LOGS),
    ("audit --path /nope --path /nor-this", "/nope: no such file or directory", LOGS),
    (
        "audit orders --command-config /nope",
        "/nope: cannot be read: no such file or directory",
        PROPERTIES,
    ),
    ("up --config /nope", "/nope: cannot be read: no such file or directory", PROPERTIES),
    (
        "validate orders --table /nope -b localhost:1",
        "/nope: there is no such table",
        "hint: name a Parquet file, a directory of them, or a Delta table",
    ),
    (
        "log dump tests/data --parquet /nope/x",
        "/nope/x: its directory does not exist",
        "hint: mkdir -p /nope",
    ),
    (
        "sink doctor --checkpoint /nope",
        "/nope: is not a checkpoint of Spark's: it has no file `metadata`",
        "hint: name the directory that the query has as checkpointLocation",
    ),
]


@pytest.mark.parametrize(("line", "why", "hint"), NOT_THERE, ids=[each[0] for each in NOT_THERE])
def test_a_file_that_is_not_there_is_named_and_what_to_name_instead(
    line: str, why: str, hint: str, run_sexton: RunSexton
) -> None:
    result = run_sexton(*line.split())
    assert result.stderr.splitlines() == [f"error: {why}", hint]
    assert (result.code, result.stdout) == (2, "")


@pytest.mark.parametrize("option", ["--interval", "--request-timeout"])
def test_a_guard_that_never_waits_is_refused_by_the_option_that_says_so(
    option: str, run_sexton: RunSexton, closed_port: int
) -> None:
    result = run_sexton("guard", "run", "--once", option, "0s", "-b", f"127.0.0.1:{closed_port}")
    assert result.stderr == f"error: {option} 0s: is no time at all\nhint: as in 5s\n"
    assert result.code == 2


LOOKS_AGAIN = {
    entry.path: option
    for entry in registry.COMMANDS
    for option in ("--watch", "--follow")
    if {"--interval", option} <= names_of(entry)
}


def test_there_are_commands_that_look_again_if_one_says_so() -> None:
    assert {"audit", "validate", "cluster offsets", "guard status"} <= LOOKS_AGAIN.keys()


@pytest.mark.parametrize("path", LOOKS_AGAIN)
def test_who_looks_once_is_not_told_how_often(
    path: str, run_sexton: RunSexton, closed_port: int
) -> None:
    there = ("-b", f"127.0.0.1:{closed_port}", "--interval", "5s")
    result = run_sexton(*path.split(), *TO_THE_CLUSTER.get(path, ()), *there)
    option = LOOKS_AGAIN[path]
    assert result.stderr.splitlines() == [
        f"error: --interval: has no effect without {option}",
        f"hint: add {option}, or leave it out",
    ]
    assert (result.code, result.stdout) == (2, "")


@pytest.mark.parametrize("path", ["cluster status", "cluster offsets", "guard status"])
def test_what_stays_on_a_screen_is_for_people(
    path: str, run_sexton: RunSexton, closed_port: int
) -> None:
    there = ("-b", f"127.0.0.1:{closed_port}")
    result = run_sexton(*path.split(), *there, "--watch", "--format", "json")
    assert result.code == 2
    assert result.json["error"]["subject"] == "--format json"
    assert result.json["error"]["why"] == "does not go with --watch"


@pytest.mark.parametrize("verb", ["redrive", "skip"])
@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        ((), "ID, --key or --all-held: exactly one of them is needed"),
        (("orders-0-1", "--all-held"), "ID, --key or --all-held: exactly one of them is needed"),
        (("prices-0-1",), "prices-0-1: does not name a message of this topic"),
    ],
)
def test_messages_are_chosen_before_a_broker_is_asked(
    verb: str, chosen: tuple[str, ...], why: str, run_sexton: RunSexton, closed_port: int
) -> None:
    where = ("-b", f"127.0.0.1:{closed_port}", "--topic", "orders", "--group", "g")
    result = run_sexton("retry", verb, *chosen, *where)
    assert_says_what_and_what_to_do(result)
    assert result.stderr.startswith(f"error: {why}\n")
    assert result.code == 2


@pytest.mark.parametrize(
    ("line", "why", "hint"),
    [
        (
            "explain",
            "TOPIC:PARTITION: is needed",
            "or --topic and --partition, as in Kafka's own tool",
        ),
        ("describe", "ID: is needed", "or --transactional-id, as in Kafka's own tool"),
        (
            "abort orders:0 --topic orders --start-offset 3",
            "orders:0: does not go with --topic and --partition",
            "name it once",
        ),
        (
            "describe t --transactional-id t",
            "t: does not go with --transactional-id",
            "name it once",
        ),
        (
            "find-hanging orders --partition 3",
            "orders: does not go with --topic and --partition",
            "name it once",
        ),
        (
            "describe-producers --topic orders",
            "--partition: is needed too",
            "as in orders:0, or --topic orders --partition 0",
        ),
        ("abort orders --producer-id 7", "orders: is not TOPIC:PARTITION", "as in orders:0"),
    ],
)
def test_a_transaction_is_named_in_one_word_or_by_options_and_not_by_both(
    line: str, why: str, hint: str, run_sexton: RunSexton, closed_port: int
) -> None:
    result = run_sexton("txn", *line.split(), "-b", f"127.0.0.1:{closed_port}")
    assert result.stderr.splitlines() == [f"error: {why}", f"hint: {hint}"]
    assert (result.code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("marker-lifecycle --early", "--early: marker-lifecycle waits for no producer to expire"),
        ("eos-checkpoint --early", "--early: eos-checkpoint is not about cleaning"),
        ("eos-checkpoint --guard", "--guard: eos-checkpoint is not about cleaning"),
        ("eos-checkpoint --policy coordinated", "--policy: eos-checkpoint is not about cleaning"),
    ],
)
def test_a_scenario_without_such_a_form_tells_nothing_of_its_story(
    line: str, why: str, run_sexton: RunSexton
) -> None:
    result = run_sexton("lab", "run", *line.split())
    assert_says_what_and_what_to_do(result)
    assert result.stderr.startswith(f"error: {why}\n")
    assert (result.code, result.stdout) == (2, "")


@pytest.mark.parametrize("line", ["eos-streams", "eos-checkpoint --on kafka"])
def test_a_story_that_needs_java_tells_nothing_without_it(
    line: str, run_sexton: RunSexton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run_sexton("lab", "run", *line.split())
    assert_says_what_and_what_to_do(result)
    assert result.stderr.startswith("error: Java: is not installed")
    assert (result.code, result.stdout) == (2, "")


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """Nobody listens there, and nobody else gets it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


of_clusters = pytest.mark.parametrize(
    "entry",
    [
        entry
        for entry in registry.COMMANDS
        if "--bootstrap-servers" in names_of(entry) and entry.path != NEEDS_A_STORE
    ],
    ids=lambda entry: entry.path,
)


def with_arguments(entry: Entry) -> tuple[str, ...]:
    retries = ("--topic", "orders", "--group", "g") if entry.path.startswith("retry") else ()
    return (*entry.path.split(), *TO_THE_CLUSTER.get(entry.path, retries))


@of_clusters
def test_a_broker_that_is_not_there_is_named(
    entry: Entry, run_sexton: RunSexton, closed_port: int
) -> None:
    there = f"127.0.0.1:{closed_port}"
    result = run_sexton(*with_arguments(entry), "-b", there, "--format", "json")
    assert_says_what_and_what_to_do(result)
    assert result.code == 1
    assert (result.json["sexton"], result.json["command"]) == (1, entry.path)
    assert result.json["ok"] is False
    told = result.json["error"]
    assert (told["kind"], told["subject"], told["hint"]) == ("no-answer", there, NO_ANSWER)


@pytest.mark.parametrize("command", ["cluster status", "guard plan"])
def test_brokers_of_whom_none_is_there_are_told_like_one(
    command: str, run_sexton: RunSexton, closed_port: int
) -> None:
    there = f"127.0.0.1:{closed_port}, [::1]:{closed_port}"
    result = run_sexton(*command.split(), "-b", there, "--format", "json")
    told = result.json["error"]
    assert (told["kind"], told["subject"], told["hint"]) == ("no-answer", there, NO_ANSWER)
    assert "connection refused" in told["why"]


@of_clusters
def test_without_a_broker_it_is_the_cluster_of_up_and_if_there_is_none_that_is_said(
    entry: Entry, run_sexton: RunSexton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEXTON_DATA", str(tmp_path))
    result = run_sexton(*with_arguments(entry))
    assert result.code == 2
    assert result.stderr == (
        f"error: {tmp_path}: no cluster runs there\n"
        "hint: start one with `sexton up`, name its --data, or name a broker: -b localhost:9092\n"
    )
