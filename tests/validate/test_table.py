"""A table beside its topic: rows that should be gone, are missing, or say something else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sexton.audit import state_kernels
from sexton.audit.materialized import mixed
from sexton.audit.state_table import StateTable
from sexton.audit.validation import Rules
from sexton.base.errors import ConfigError
from sexton.survey.table_files import TableColumns, rows_of, table_files
from sexton.survey.validating_plan import Asked
from sexton.survey.validating_runner import LocalTasks
from sexton.survey.validating_table import validate_table
from sexton.survey.validating_tasks import Failed
from sexton.testing.embedded import EmbeddedCluster
from tests.validate.topics import Record, Run, filled, found

USERS: list[Record] = [(f"user-{number}", {"n": number, "f": number / 4}) for number in range(300)]
DELETED: list[Record] = [("user-5", None), ("user-6", {"n": 60, "f": 15.0})]


@pytest.fixture(scope="module")
def users(broker: EmbeddedCluster) -> str:
    return filled(broker, [*USERS, *DELETED], partitions=3, partition=_partition)


def _partition(number: int) -> int:
    """A key stays in its partition."""
    return {300: 5, 301: 6}.get(number, number) % 3


def rows(**changed: Any) -> dict[str, dict[str, Any]]:
    """What the table should hold; a row for each key."""
    there: dict[str, Any] = {f"{key}": dict(value) for key, value in USERS}
    del there["user-5"]
    there["user-6"] = {"n": 60, "f": 15.0}
    for key, value in changed.items():
        there[key.replace("_", "-")] = value
    return {key: value for key, value in there.items() if value is not None}


def written(directory: Path, table: dict[str, dict[str, Any]], files: int = 2) -> Path:
    directory.mkdir(exist_ok=True)
    keys = sorted(table)
    for number in range(files):
        some = keys[number::files]
        columns = {
            "user": some,
            "n": [table[key]["n"] for key in some],
            "f": [table[key]["f"] for key in some],
        }
        pq.write_table(pa.table(columns), directory / f"part-{number}.parquet")
    (directory / "_SUCCESS").touch()
    return directory


def test_a_table_that_is_its_topic_is_well(users: str, validate: Run, tmp_path: Path) -> None:
    table = str(written(tmp_path / "t", rows()))
    assert validate(users, "--table", table, "--table-key", "user")[0] == 0
    for value, column in (("json:n", "n"), ("json:f float", "f")):
        asked = ("--value", value, "--table-value", column)
        assert validate(users, "--table", table, "--table-key", "user", *asked)[0] == 0


def test_each_way_in_which_it_is_not_is_found(users: str, validate: Run, tmp_path: Path) -> None:
    wrong = rows(
        user_5={"n": 5, "f": 1.25},  # deleted in the topic
        stranger={"n": 1, "f": 0.25},  # never in it
        user_7=None,  # lost
        user_6={"n": 6, "f": 1.5},  # as it was before
    )
    table = str(written(tmp_path / "t", wrong))
    asked = ("--value", "json:n", "--table-value", "n", "--show-keys", "--format", "json")
    code, said, _asides = validate(users, "--table", table, "--table-key", "user", *asked)
    assert code == 1
    told = {(each["code"], each["evidence"]["key"]) for each in found(said)}
    assert told == {
        ("table-stale-row", "user-5"),
        ("table-stale-row", "stranger"),
        ("table-missing-row", "user-7"),
        ("table-different-row", "user-6"),
    }
    messages = " ".join(each["message"] for each in found(said))
    assert "user-5, which has been deleted in the topic" in messages
    assert "stranger, which is not in the topic" in messages


def test_what_could_not_be_read_again_is_not_called_stale(
    users: str, broker: EmbeddedCluster, tmp_path: Path
) -> None:
    """Sums of all partitions are there, and one is gone when keys are to be looked at."""

    class Failing:
        slots, rounds = 2, 0

        def run(self, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
            self.rounds += 1
            for number, result in LocalTasks().run(tasks):
                fails = self.rounds == 2 and number == 1  # a partition: they come first
                yield number, Failed("broker 1: does not answer") if fails else result

    wrong = {f"user_{number}": None for number in range(0, 300, 3)}  # of partition 0
    table = written(tmp_path / "t", rows(**wrong))
    asked = Asked(broker.bootstrap_servers, users, Rules())
    whole = validate_table(asked, LocalTasks(), table, "user", None)
    assert whole.counts == {"table-missing-row": 100}
    runner = Failing()
    partly = validate_table(asked, runner, table, "user", None)
    assert runner.rounds == 2
    assert partly.counts == {} and len(partly.unread) == 1


def test_a_value_that_differs_does_not_count_where_only_keys_are_compared(
    users: str, validate: Run, tmp_path: Path
) -> None:
    table = str(written(tmp_path / "t", rows(user_6={"n": 6, "f": 1.5})))
    assert validate(users, "--table", table, "--table-key", "user")[0] == 0


def test_the_limit_of_keys_is_the_one_that_was_asked_for(
    broker: EmbeddedCluster, validate: Run, tmp_path: Path
) -> None:
    """Who is told to raise it can do so."""
    topic = filled(broker, [(f"user-{number}", "1") for number in range(12_000)])
    pq.write_table(pa.table({"key": ["user-1"]}), tmp_path / "t.parquet")
    asked = (topic, "--table", str(tmp_path / "t.parquet"))
    code, _said, asides = validate(*asked, "--most-keys", "1000")
    assert code == 2 and "more than 1,000 keys" in asides and "raise --most-keys" in asides
    code, said, _asides = validate(*asked, "--most-keys", "100000")
    assert code == 1 and "11,999 table-missing-row" in said


def test_a_delta_table_is_what_its_log_says(users: str, validate: Run, tmp_path: Path) -> None:
    """The file with the deleted user was replaced, and lies there still."""
    table = written(tmp_path / "t", rows())
    stale = written(tmp_path / "stale", rows(user_5={"n": 5, "f": 1.25}), files=1)
    (stale / "part-0.parquet").rename(table / "old 1.parquet")
    log = table / "_delta_log"
    log.mkdir()
    first: list[dict[str, Any]] = [
        {"metaData": {"configuration": {}}},
        {"add": {"path": "old%201.parquet"}},
    ]
    second: list[dict[str, Any]] = [{"remove": {"path": "old%201.parquet"}}]
    second += [{"add": {"path": f"part-{number}.parquet"}} for number in range(2)]
    for version, actions in enumerate((first, second)):
        text = "\n".join(map(json.dumps, actions))
        (log / f"{version:020}.json").write_text(text, encoding="utf-8")
    assert validate(users, "--table", str(table), "--table-key", "user")[0] == 0
    (log / f"{1:020}.json").unlink()
    code, said, _asides = validate(users, "--table", str(table), "--table-key", "user")
    assert code == 1 and "1 table-stale-row" in said


def test_a_delta_table_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    actions = [{"add": {"path": "a.parquet"}}, {"add": {"path": "b.parquet"}}]
    pq.write_table(pa.Table.from_pylist(actions), log / f"{3:020}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text('{"version": 3}', encoding="utf-8")
    (log / f"{2:020}.json").write_text('{"add": {"path": "older.parquet"}}', encoding="utf-8")
    (log / f"{4:020}.json").write_text('{"remove": {"path": "a.parquet"}}', encoding="utf-8")
    assert table_files(tmp_path) == [tmp_path / "b.parquet"]


def test_a_delta_table_may_hold_any_text(tmp_path: Path) -> None:
    """Statistics of a file quote its values; Delta leaves a line separator in them as it is."""
    (tmp_path / "_delta_log").mkdir()
    stats = json.dumps({"minValues": {"user": "a\u2028b\x85"}}, ensure_ascii=False)
    action = json.dumps({"add": {"path": "a.parquet", "stats": stats}}, ensure_ascii=False)
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text(f"{action}\n", encoding="utf-8")
    assert table_files(tmp_path) == [tmp_path / "a.parquet"]


@pytest.mark.parametrize(
    ("versions", "complaint"),
    [((), "no version in its log"), ((1, 2), "lacks version 0"), ((0, 2, 3), "lacks version 1")],
)
def test_a_delta_log_with_a_gap_is_refused(
    tmp_path: Path, versions: tuple[int, ...], complaint: str
) -> None:
    """Old commits are removed once a checkpoint has them; without it rows would seem to be lost."""
    (tmp_path / "_delta_log").mkdir()
    for version in versions:
        action = json.dumps({"add": {"path": f"{version}.parquet"}})
        (tmp_path / "_delta_log" / f"{version:020}.json").write_text(action, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        table_files(tmp_path)
    assert complaint in raised.value.why


@pytest.mark.parametrize(
    ("action", "complaint"),
    [
        ({"add": {"path": "a", "deletionVector": {"storageType": "u"}}}, "deletion vectors"),
        ({"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}}, "maps its columns"),
    ],
)
def test_a_delta_table_that_we_would_misread_is_refused(
    tmp_path: Path, action: dict[str, Any], complaint: str
) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020}.json").write_text(json.dumps(action), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        table_files(tmp_path)
    assert complaint in raised.value.why


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array(["a", None, ""]), [b"a", None, b""]),
        (pa.array([1, None, -5], pa.int32()), [b"1", None, b"-5"]),
        (pa.array([b"a", None, b"\xff"]), [b"a", None, b"\xff"]),
        (pa.array([True, None, False]), [b"true", None, b"false"]),
        (pa.array(["x", "a", None, "bc"])[1:], [b"a", None, b"bc"]),
        (pa.array([b"0123", None], pa.binary(4)), [b"0123", None]),  # of a UUID, say
    ],
)
def test_columns_of_any_kind_become_bytes(
    tmp_path: Path, column: pa.Array, expected: list[bytes | None]
) -> None:
    pq.write_table(pa.table({"k": column}), tmp_path / "t.parquet")
    ((keys, values),) = rows_of(tmp_path / "t.parquet", TableColumns("k", None))
    assert keys.to_list() == expected and values is None


def test_a_file_that_is_damaged_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"k": [f"user-{number}" for number in range(5_000)]}), path)
    raw = bytearray(path.read_bytes())
    raw[200:1_200] = b"\xa5" * 1_000
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match="cannot be read as Parquet") as raised:
        list(rows_of(path, TableColumns("k", None)))
    assert raised.value.subject == str(path)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["a"], "f": [1.5]}), tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="has no column key") as raised:
        list(rows_of(tmp_path / "t.parquet", TableColumns("key", None)))
    assert raised.value.hint == "there are user, f"
    with pytest.raises(ConfigError, match="is a column of double"):
        list(rows_of(tmp_path / "t.parquet", TableColumns("user", "f")))
    pq.write_table(pa.table({"user": [[1]]}), tmp_path / "lists.parquet")
    with pytest.raises(ConfigError, match="user: is a column of list"):
        list(rows_of(tmp_path / "lists.parquet", TableColumns("user", None)))


def test_both_sides_sum_up_alike() -> None:
    """The kernel's sum over a table, and numpy's over rows."""
    random = np.random.default_rng(3)
    prints = random.integers(0, 1 << 64, (1000, 2), np.uint64)
    words = random.integers(0, 1 << 64, 1000, np.uint64)
    table = StateTable(state_kernels.LAST, 10_000)
    table.take(prints, np.zeros(1000, np.uint8), words.view(np.int64), np.arange(1000))
    expected = np.zeros(4096, np.uint64)
    np.add.at(expected, (prints[:, 0] >> np.uint64(52)).astype(int), mixed(prints, words))
    assert (table.digests() == expected).all()
