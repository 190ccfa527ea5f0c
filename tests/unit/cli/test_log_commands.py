"""`sexton log`: what one types, what one sees, how it exits."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import RunSexton
from tests.kafka_data import data_directory, kafka_logs


@pytest.fixture
def copy_of(tmp_path: Path) -> Path:
    """A log with transactions, to be spoilt."""
    (log, *_) = kafka_logs("txn-segments", "4.3.1")
    target = tmp_path / log.directory.name
    shutil.copytree(log.directory, target)
    return target


SAME = (
    "partition", "segment", "position", "offset", "timestamp_type", "producer_id", "producer_epoch",
    "sequence", "leader_epoch", "codec", "transactional", "outcome", "marker_offset", "control",
    "coordinator_epoch",
)  # fmt: skip


def case(name: str) -> Path:
    (log, *_) = kafka_logs(name, "4.3.1")
    return log.directory


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def state_of(directory: Path) -> dict[str, tuple[int, bytes]]:
    """What is in it, and when that was last changed: a file that came and went is seen, too."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (directory, *directory.rglob("*"))
    }


# ── all of them ──


@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("command", ["verify", "dump", "stats", "clean --dry-run"])
def test_looking_at_a_log_changes_nothing(
    command: str, damaged: bool, tmp_path: Path, run_sexton: RunSexton
) -> None:
    directory = Path(shutil.copytree(case("cleaned-txn.before"), tmp_path / "orders-0"))
    if damaged:
        spoil(max(directory.glob("*.log"), key=lambda path: path.stat().st_size), 80)
    before = state_of(tmp_path)
    run_sexton("log", *command.split(), directory)
    assert state_of(tmp_path) == before


def test_a_change_would_be_noticed(tmp_path: Path, run_sexton: RunSexton) -> None:
    directory = Path(shutil.copytree(case("cleaned-txn.before"), tmp_path / "orders-0"))
    before = state_of(tmp_path)
    assert run_sexton("log", "clean", directory).code == 0
    assert state_of(tmp_path) != before


# ── verify ──


def test_a_clean_data_directory_exits_0(run_sexton: RunSexton) -> None:
    result = run_sexton("log", "verify", data_directory("4.3.1"), "--format", "json")
    assert result.code == 0
    assert result.json["findings"] == []
    assert {"cleaned-lz4-0", "txn-open-0"} <= {p["partition"] for p in result.json["partitions"]}
    assert result.json["summary"]["records"] > 0


def test_a_damaged_batch_is_named_with_file_and_position(
    run_sexton: RunSexton, copy_of: Path
) -> None:
    path = copy_of / "00000000000000000006.log"
    spoil(path, 80)
    result = run_sexton("log", "verify", copy_of, "--format", "json")
    assert result.code == 1
    (found,) = [f for f in result.json["findings"] if f["code"] == "corrupt-batch"]
    assert found["where"] == f"{path} at byte 0"
    assert found["evidence"]["base_offset"] == 6
    assert found["remedy"]
    assert result.json["partitions"][0]["records"] == 9  # all but the one


def test_a_wrong_path_exits_2_after_the_rest(run_sexton: RunSexton) -> None:
    result = run_sexton("log", "verify", "/no/such/place", case("segments"))
    assert result.code == 2
    assert "segments-0" in result.stdout
    assert "error: /no/such/place: no such file or directory" in result.stderr


def test_findings_win_over_a_wrong_path(run_sexton: RunSexton, copy_of: Path) -> None:
    spoil(copy_of / "00000000000000000000.log", 100)
    result = run_sexton("log", "verify", "/no/such/place", copy_of, "--format", "json")
    assert result.code == 1
    assert result.json["incomplete"] == [
        {"subject": "/no/such/place", "why": "no such file or directory"}
    ]


def test_an_unreadable_file_exits_3_and_the_rest_is_read(
    run_sexton: RunSexton, copy_of: Path
) -> None:
    (copy_of / "00000000000000000006.log").unlink()
    (copy_of / "00000000000000000006.log").mkdir()  # reading it fails, whoever we are
    result = run_sexton("log", "stats", copy_of, "--format", "json")
    assert result.code == 3
    (skipped,) = result.json["incomplete"]
    assert "00000000000000000006.log" in skipped["subject"]
    assert skipped["why"] == "is a directory"
    assert result.json["summary"]["records"] == 8


def test_an_index_alone_stands_for_its_segment(run_sexton: RunSexton, copy_of: Path) -> None:
    spoil(copy_of / "00000000000000000006.index", 7)
    for name in ("00000000000000000006.index", "00000000000000000006.log"):
        result = run_sexton("log", "verify", copy_of / name, "--format", "json")
        assert {f["code"] for f in result.json["findings"]} == {"offset-index-mismatch"}


def test_people_are_told_what_was_found(run_sexton: RunSexton, copy_of: Path) -> None:
    assert run_sexton("log", "verify", copy_of).stdout.endswith("\nno findings\n")
    spoil(copy_of / "00000000000000000000.log", 100)
    result = run_sexton("log", "verify", copy_of)
    assert result.stdout.startswith("error    corrupt-batch")
    assert "1 error" in result.stdout


# ── stats ──


def test_one_partition_is_told_in_full(run_sexton: RunSexton) -> None:
    out = run_sexton("log", "stats", case("txn-many")).stdout
    assert "3 committed, 2 aborted, 0 open" in out
    assert "00000000000000000000.log" in out


def test_several_partitions_are_a_table(run_sexton: RunSexton) -> None:
    out = run_sexton("log", "stats", case("txn-many"), case("segments")).stdout
    assert "txn-many-0" in out
    assert "segments-0" in out


def test_the_cleaners_checkpoint_gives_kafkas_dirty_ratio(run_sexton: RunSexton) -> None:
    answer = run_sexton("log", "stats", data_directory("4.3.1"), "--format", "json").json
    ratio = {p["partition"]: (p["dirty_ratio"], p["dirty_by"]) for p in answer["partitions"]}
    assert ratio["cleaned-lz4-0"] == (0.0, "cleaner checkpoint")
    assert ratio["txn-open-0"][1] == "repeated keys"


def test_compression_is_measured(run_sexton: RunSexton) -> None:
    answer = run_sexton("log", "stats", case("codec-zstd"), "--format", "json").json
    (partition,) = answer["partitions"]
    assert partition["codecs"] == "zstd 3"
    assert partition["compression_ratio"] > 1


# ── dump ──


def test_every_record_with_its_outcome(run_sexton: RunSexton) -> None:
    lines = run_sexton("log", "dump", case("txn-aborted"), "--format", "jsonl").json_lines
    assert lines[-1]["type"] == "end"
    shown = [(r["offset"], r["key"], r["outcome"], r["control"]) for r in lines[:-1]]
    assert shown == [
        (0, "a", None, None),
        (1, "a", "aborted", None),
        (2, "b", "aborted", None),
        (3, "a", None, None),
        (4, "c", "aborted", None),
        (5, "0x00000000", None, "ABORT"),
        (6, "a", None, None),
    ]


@pytest.mark.parametrize("format", ["table", "json", "tsv"])
def test_every_format_shows_every_record(run_sexton: RunSexton, format: str) -> None:
    out = run_sexton("log", "dump", case("segments"), "--format", format).stdout
    assert out.count(".2.1") == 4


@pytest.mark.parametrize(
    ("rendering", "shown"),
    [
        ("auto", "0x0080ff"),
        ("text", "\x00\\x80\\xff"),
        ("hex", "0080ff"),
        ("base64", "AID/"),
        ("json", "0x0080ff"),
        ("none", None),
    ],
)
def test_keys_are_shown_as_one_likes(
    run_sexton: RunSexton, rendering: str, shown: str | None
) -> None:
    arguments = ["--keys", rendering, "--from-offset", 6, "--to-offset", 6, "--format", "jsonl"]
    assert run_sexton("log", "dump", case("shapes"), *arguments).json_lines[0]["key"] == shown


def test_a_digest_tells_size_and_nothing_else(run_sexton: RunSexton) -> None:
    arguments = ["--values", "digest", "--limit", 1, "--format", "jsonl"]
    value = run_sexton("log", "dump", case("shapes"), *arguments).json_lines[0]["value"]
    assert value.startswith("sha256:4c94485e0c21ae6c41ce1dfe7b6bface")
    assert value.endswith("/1")


@pytest.mark.parametrize(
    ("keys", "typed"), [("auto", "0x0080ff"), ("hex", "0080ff"), ("base64", "AID/")]
)
def test_a_key_is_found_as_it_is_shown(run_sexton: RunSexton, keys: str, typed: str) -> None:
    arguments = ["--keys", keys, "--key", typed, "--format", "jsonl"]
    records = run_sexton("log", "dump", case("shapes"), *arguments).json_lines[:-1]
    assert [record["offset"] for record in records] == [6]


def test_a_key_that_cannot_be_is_a_usage_error(run_sexton: RunSexton) -> None:
    result = run_sexton("log", "dump", case("shapes"), "--keys", "hex", "--key", "xyz")
    assert result.code == 2
    assert "--key: 'xyz' is no hex" in result.stderr


def test_times_are_understood(run_sexton: RunSexton) -> None:
    for since in ("2023-11-14T22:13:20.008Z", "2023-11-14 22:13:20.008", "1700000000008"):
        arguments = ["--since", since, "--format", "jsonl"]
        records = run_sexton("log", "dump", case("shapes"), *arguments).json_lines[:-1]
        assert [record["offset"] for record in records] == [8, 9]
    result = run_sexton("log", "dump", case("shapes"), "--until", "yesterday")
    assert result.code == 2
    assert "'yesterday' is not a time" in result.stderr


def test_batches_show_what_cleaning_emptied(run_sexton: RunSexton) -> None:
    lines = run_sexton(
        "log", "dump", case("cleaned-idempotent.after"), "--batches", "--format", "jsonl"
    ).json_lines
    emptied = [line for line in lines[:-1] if line["records"] == 0]
    assert emptied
    assert all(batch["base_sequence"] is not None for batch in emptied)


def test_files_beside_a_log_are_shown(run_sexton: RunSexton) -> None:
    directory = case("txn-segments")
    names = ["*.index", "*.timeindex", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint"]
    paths = [path for name in names for path in sorted(directory.glob(name))]
    answer = run_sexton(
        "log", "dump", *paths, data_directory("4.3.1") / "cleaner-offset-checkpoint",
        directory / "partition.metadata", "--format", "json",
    ).json  # fmt: skip
    assert [a["last_offset"] for a in answer["aborted_transactions"]] == [10, 11]
    assert {"index_entries", "time_index_entries", "producers", "epochs"} <= set(answer)
    assert answer["offsets"][0]["offset"] == 40
    assert len(answer["metadata_entries"][0]["topic_id"]) == 22


def test_a_damaged_index_is_a_finding_after_its_sound_part(
    run_sexton: RunSexton, copy_of: Path
) -> None:
    path = copy_of / "00000000000000000009.snapshot"
    spoil(path, 20)
    result = run_sexton("log", "dump", path, "--format", "json")
    assert result.code == 1
    assert result.json["findings"][0]["where"] == str(path)


def test_a_damaged_batch_does_not_hide_the_others(run_sexton: RunSexton, copy_of: Path) -> None:
    spoil(copy_of / "00000000000000000000.log", 100)
    result = run_sexton("log", "dump", copy_of, "--format", "json")
    assert result.code == 1
    assert [record["offset"] for record in result.json["records"]] == list(range(5, 13))


def test_parquet_holds_the_same_records(run_sexton: RunSexton, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    for name in ("txn-segments", "shapes", "cleaned-txn.after", "append-time"):
        target = tmp_path / f"{name}.parquet"
        result = run_sexton("log", "dump", case(name), "--parquet", target, "--format", "json")
        assert result.code == 0, result.stderr
        rows = pq.read_table(target).to_pylist()
        assert result.json["summary"]["records"] == len(rows)
        lines = run_sexton("log", "dump", case(name), "--keys", "hex", "--values", "hex",
                           "--format", "jsonl").json_lines[:-1]  # fmt: skip
        for row, line in zip(rows, lines, strict=True):
            for field in SAME:
                assert row[field] == line[field], field
            if row["control"] is None:
                assert (None if row["key"] is None else row["key"].hex()) == line["key"]
                assert (None if row["value"] is None else row["value"].hex()) == line["value"]
            assert [h["name"] for h in row["headers"]] == [h["name"] for h in line["headers"]]
            assert round(row["timestamp"].timestamp() * 1000) == line["timestamp"]


def test_without_pyarrow_one_is_told_what_to_install(
    run_sexton: RunSexton, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run_sexton("log", "dump", case("shapes"), "--parquet", tmp_path / "x.parquet")
    assert result.code == 2
    assert 'pip install "sexton[parquet]"' in result.stderr
    assert not list(tmp_path.iterdir())


def test_json_values_stay_json(run_sexton: RunSexton, tmp_path: Path) -> None:
    from tests.handmade import batch, record

    path = tmp_path / "00000000000000000000.log"
    values = [b'{"a": [1, 2]}', b"NaN", b"1e999", b"[" * 100_000]
    path.write_bytes(batch(*(record(n, value=value) for n, value in enumerate(values))))
    arguments = ["--values", "json", "--max-bytes", 20, "--format"]
    lines = run_sexton("log", "dump", path, *arguments, "jsonl").json_lines
    assert lines[0]["value"] == {"a": [1, 2]}
    assert [line["value"] for line in lines[1:3]] == ["NaN", "1e999"]
    assert lines[3]["value"].endswith("(100000 bytes)")
    assert (
        json.dumps({"a": [1, 2]}, separators=(",", ":"))
        in run_sexton("log", "dump", path, *arguments, "table").stdout
    )


# ── what damage hides, nobody claims to know ──


def test_an_outcome_that_damage_hides_is_unknown(run_sexton: RunSexton, tmp_path: Path) -> None:
    copy = shutil.copytree(case("txn-interleaved"), tmp_path / "txn-interleaved-0")
    spoil(copy / "00000000000000000000.log", 455)  # the COMMIT of offsets 1, 2 and 5
    result = run_sexton("log", "dump", copy, "--outcome", "unknown", "--format", "json")
    assert result.code == 1
    assert [record["offset"] for record in result.json["records"]] == [1, 2, 5]
    assert {record["marker_offset"] for record in result.json["records"]} == {None}
    result = run_sexton("log", "stats", copy, "--format", "json")
    (partition,) = result.json["partitions"]
    assert partition["last_stable_offset"] is None


def test_an_outcome_does_not_depend_on_what_was_asked_for(run_sexton: RunSexton) -> None:
    path = case("txn-segments")
    result = run_sexton("log", "dump", path, "--to-offset", "4", "--format", "json")
    assert {record["outcome"] for record in result.json["records"]} == {"aborted"}


def test_offsets_the_wrong_way_round_are_refused(run_sexton: RunSexton) -> None:
    path = case("txn-segments")
    result = run_sexton("log", "dump", path, "--from-offset", "5", "--to-offset", "3")
    assert result.code == 2
    assert "--to-offset" in result.stderr


def test_a_dump_of_nothing_says_so(copy_of: Path, run_sexton: RunSexton) -> None:
    for arguments, said in (
        (["--key", "nobody"], "There is no such record.\n"),
        (["--batches", "--from-offset", "9999"], "There is no such batch.\n"),
    ):
        result = run_sexton("log", "dump", copy_of, *arguments)
        assert result.code == 0 and result.stdout.endswith(said)
    assert "There is" not in run_sexton("log", "dump", copy_of).stdout
    assert run_sexton("log", "dump", copy_of, "--key", "nobody", "--format", "tsv").stdout == ""
