"""`sexton audit` as a user runs it: what it prints, writes and exits with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer import Exit

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.cli.audit_run import Request
from sexton.cli.audit_show import MOST_DRAWN, show
from sexton.cli.audit_watch import Tally, one_audit
from sexton.cli.engines import Engine
from sexton.cli.main import main
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.client.config_changes import DescribedOptions
from sexton.lab.divergences import EMBEDDED_OPTIONS, tombstone_divergence
from sexton.testing.embedded import EmbeddedCluster
from tests.unit.report.audit_examples import PAGE, STUCK, TOMBSTONE

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def diverged() -> Iterator[tuple[EmbeddedCluster, str]]:
    """A cluster in which broker 3 shows a key that was deleted."""
    with EmbeddedCluster(
        compaction="independent", options=EMBEDDED_OPTIONS, frozen_clock=True
    ) as cluster:
        yield cluster, tombstone_divergence(cluster).topic


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str]:
        code = main(["audit", "--engine", "local", *arguments])
        return code, capsys.readouterr().out

    return run


def test_a_finding_is_drawn_for_people(diverged: tuple[EmbeddedCluster, str], audit: Run) -> None:
    cluster, topic = diverged
    code, said = audit("-b", cluster.bootstrap_servers, "-t", topic)
    assert code == 1
    assert "tombstone-divergence" in said
    assert "✗ broker 3" in said and "✓ broker 1" in said
    assert "filler" not in said  # keys are somebody's data; `k` in the drawing is a letter for one


def test_what_is_wrong_is_found_though_only_the_wrong_replica_has_the_first_record(
    diverged: tuple[EmbeddedCluster, str], audit: Run
) -> None:
    """The leader's cleaner has removed it: there the first record since then is a later one."""
    cluster, topic = diverged
    cluster.elect(topic, 0, 1)
    where = ("-b", cluster.bootstrap_servers, "-t", topic)
    code, said = audit(*where, "--since", "2001-01-01", "--format", "json")
    cluster.elect(topic, 0, 3)
    told = json.loads(said)
    assert [each["code"] for each in told["findings"]] == ["tombstone-divergence"]
    assert code == 1
    said = "Only records since 2001-01-01 (2001-01-01 00:00:00 UTC) were compared."
    assert told["summary"]["limits"] == said


def test_of_very_many_findings_some_are_drawn_and_all_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Three pages of a terminal are read; thousands scroll the rest out of sight."""
    found = tuple(
        replace(TOMBSTONE, partition=TopicPartition(f"table-{number % 50}", number % 3))
        for number in range(1_999)
    )
    page = replace(PAGE, findings=(*found, STUCK))

    def told(form: Format) -> str:
        with pytest.raises(Exit) as ended, Output("audit", form) as out:
            show(page, Request({}, ("orders",)), out)
        assert ended.value.exit_code == 1
        return capsys.readouterr().out

    said = told(Format.table)
    assert said.count("error    ") == MOST_DRAWN
    assert "stuck-partition  " in said, "of each kind there is one"
    assert "And 1,980 more findings, in 150 partitions, which are not drawn here" in said
    assert "2,000 errors" in said
    assert len(json.loads(told(Format.json))["findings"]) == 2_000


def test_keys_are_shown_when_asked_for(diverged: tuple[EmbeddedCluster, str], audit: Run) -> None:
    cluster, topic = diverged
    _code, said = audit("-b", cluster.bootstrap_servers, "-t", topic, "--show-keys")
    assert "key    k" in said


def test_a_program_gets_one_object(diverged: tuple[EmbeddedCluster, str], audit: Run) -> None:
    cluster, topic = diverged
    code, said = audit("-b", cluster.bootstrap_servers, "-t", topic, "--format", "json")
    told = json.loads(said)
    assert code == told["exit_code"] == 1
    (finding,) = told["findings"]
    assert finding["code"] == "tombstone-divergence"
    assert finding["replicas"] == [3] and finding["right"] == [1, 2]
    assert told["summary"]["standing"] == "differ"


def test_acknowledged_findings_do_not_count(
    diverged: tuple[EmbeddedCluster, str], audit: Run, tmp_path: Path
) -> None:
    cluster, topic = diverged
    where = ("-b", cluster.bootstrap_servers, "-t", topic)
    known = tmp_path / "known.json"
    code, said = audit(*where, "--write-baseline", str(known))
    assert code == 1
    assert f"baseline: {known}, 1 finding; say there why each is accepted" in said
    code, said = audit(*where, "--baseline", str(known))
    assert code == 0
    assert "1 finding acknowledged" in said


def test_files_are_written(
    diverged: tuple[EmbeddedCluster, str], audit: Run, tmp_path: Path
) -> None:
    cluster, topic = diverged
    page, rows = tmp_path / "audit.html", tmp_path / "audit.parquet"
    audit(
        "-b", cluster.bootstrap_servers, "-t", topic, "--html", str(page), "--parquet", str(rows)
    )  # fmt: skip
    assert "tombstone-divergence" in page.read_text(encoding="utf-8")
    assert rows.read_bytes()[:4] == b"PAR1"


def test_a_broker_that_is_down_makes_it_incomplete(audit: Run) -> None:
    with EmbeddedCluster(options=EMBEDDED_OPTIONS) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact"})
        assert audit("-b", cluster.bootstrap_servers, "-t", "orders")[0] == 0
        cluster.kill(3)
        code, said = audit("-b", cluster.bootstrap_servers, "-t", "orders", "--format", "json")
        told = json.loads(said)
        assert code == told["exit_code"] == 3
        (unread,) = told["incomplete"]
        assert unread["subject"] == "orders-0 on broker 3"


def test_a_partition_of_which_no_replica_is_up_is_named(audit: Run) -> None:
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("halved", [[1], [2]])
        cluster.kill(2)
        cluster.wait_for("halved", 1, lambda state: state.leader < 0)
        code, said = audit("-b", cluster.bootstrap_servers, "-t", "halved", "--format", "json")
        told = json.loads(said)
        assert code == told["exit_code"] == 3
        (unread,) = told["incomplete"]
        assert unread["subject"] == "halved-1 on broker 2"


def test_nothing_to_be_seen_is_not_all_is_well(audit: Run) -> None:
    """A user who may describe no topic is shown none, and would be told so every night."""
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 1)
        asked = ("-b", cluster.bootstrap_servers, "--all-compacted", "--format", "json")
        code, said = audit(*asked)
        assert code == 3
        (unread,) = json.loads(said)["incomplete"]
        assert unread["subject"] == "all compacted topics"
        cluster.create_topic("counts", 1, {"cleanup.policy": "compact"})
        assert audit(*asked)[0] == 0


def test_topics_whose_options_may_not_be_seen_are_told_together_and_what_it_takes(
    audit: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_client: object, names: list[str], _options: object) -> DescribedOptions:
        why = "options of the topic {}: Topic authorization failed"
        code = KafkaError.TOPIC_AUTHORIZATION_FAILED
        return DescribedOptions({}, {name: Refused(code, why.format(name)) for name in names})

    monkeypatch.setattr("sexton.survey.plan.describe_topics", refused)
    with EmbeddedCluster(brokers=1) as cluster:
        for number in range(9):
            cluster.create_topic(f"t{number}", 1)
        assert main(["audit", "-b", cluster.bootstrap_servers, "--all-compacted"]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "incomplete: the topic t0, the topic t1, the topic t2 and 6 more: "
        "this user may not see its options (it takes DESCRIBE_CONFIGS)"
    )


def test_copies_of_directories_are_compared(
    diverged: tuple[EmbeddedCluster, str], audit: Run
) -> None:
    """The running cluster's own directories will do: nothing is changed in them."""
    cluster, topic = diverged
    paths = [str(cluster.data_directory(node)) for node in (1, 2, 3)]
    arguments = [part for path in paths for part in ("--path", path)]
    code, said = audit(*arguments, "-t", topic, "--format", "json")
    assert code == 1
    (finding,) = json.loads(said)["findings"]
    assert finding["code"] == "tombstone-divergence" and finding["replicas"] == [3]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-b", "localhost:1"], "does not know what to audit"),
        (["-t", "x", "--data", "/nowhere"], "no cluster runs there"),
        (["-b", "localhost:1", "-t", "x", "--since", "yesterday"], "is not a time"),
        (["-b", "localhost:1", "-t", "x", "--since", "6"], "an age has a unit, as in 6h"),
        (["-b", "localhost:1", "-t", "x", "--html", "/tmp"], "/tmp: is a directory"),
        (["-b", "localhost:1", "-t", "x", "--sample-partitions", "2"], "between 0 and 1"),
        (["-b", "localhost:1", "-t", "x", "--html", "/nowhere/x.html"], "directory does not exist"),
        (["-b", "localhost:1", "-t", "x", "--metrics-port", "0"], "has no effect without --watch"),
        (["-b", "localhost:1", "-t", "x", "--watch", "--interval", "6"], "is not a time span"),
        (["--path", "."], "nothing to agree with"),
        (["--path", ".", "--path", "."], "is named twice"),
        (["--path", "a", "--path", "b", "--since", "2h"], "does not go with --path"),
        (["--path", "a", "--path", "b", "-b", "localhost:1"], "does not go with --path"),
        (["orders:x", "-b", "localhost:1"], "is not TOPIC or TOPIC:PARTITION"),
        (["orders", "-b", "localhost:1", "--all-compacted"], "does not go with names of topics"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_copy_with_two_of_the_same_partition_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What holds all brokers is not one broker's: which of them would be compared?"""
    for name in ("broker-1/orders-0", "broker-2/orders-0", "other/orders-0"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f"{0:020}.log").touch()
    (tmp_path / "all").mkdir()
    for name in ("broker-1", "broker-2"):
        (tmp_path / name).rename(tmp_path / "all" / name)
    both = ["--path", str(tmp_path / "all"), "--path", str(tmp_path / "other")]
    assert main(["audit", *both, "--engine", "local"]) == 2
    assert "holds orders-0 twice" in capsys.readouterr().err


def test_a_master_is_not_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["audit", "orders", "-b", "localhost:1", "--master", "spark://h:7077"]
    assert main([*asked, "--engine", "local"]) == 2
    assert "--master: needs Spark, which --engine local does not use" in capsys.readouterr().err


def test_a_watch_counts_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    nowhere = Request({"bootstrap.servers": "127.0.0.1:1"}, ("orders",), engine=Engine.local)
    one_audit(nowhere, Format.table, tally)
    assert dict(tally.runs) == {"failed": 1}
    assert "cannot be reached" in capsys.readouterr().err
