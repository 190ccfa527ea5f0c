from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.cli.options import client_settings, must_be_a_directory, must_be_writable
from sexton.client.settings import client_config
from tests.conftest import RunSexton


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nclient.id=file\nacks=all\n")
    assert client_settings(None, None, path)["bootstrap.servers"] == "file:1"
    typed = ["client.id=x", "bootstrap.servers=x:1", "sasl.password=b=c"]
    assert client_settings("b:1", typed, path) == {
        "bootstrap.servers": "b:1", "client.id": "x", "acks": "all", "sasl.password": "b=c",
    }  # fmt: skip


def test_no_broker_named_is_said_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        client_settings(None, ["client.id=x"], None, tmp_path)
    assert (error.value.subject, error.value.why) == (str(tmp_path), "no cluster runs there")
    assert error.value.hint and error.value.hint.endswith("name a broker: -b localhost:9092")


@pytest.mark.parametrize("named", ["", " ", ","])
def test_a_variable_that_is_not_set_names_no_broker_and_not_the_cluster_of_up(
    named: str, run_sexton: RunSexton, tmp_path: Path
) -> None:
    """`-b "$KAFKA"` means some Kafka: what is done to it must not be done to another."""
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={named}\n")
    ways = ("-b", named), ("-X", f"bootstrap.servers={named}"), ("--command-config", file)
    for command, way in product((("guard", "panic", "--yes"), ("cluster", "status")), ways):
        result = run_sexton(*command, *way)
        assert result.stderr.startswith("error: bootstrap.servers: "), (command, way)
        assert result.code == 2


def test_a_broker_and_a_data_directory_are_two_clusters(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names another cluster"):
        client_settings("b:1", None, None, tmp_path)


@pytest.mark.parametrize("setting", ["acks", "=all", ""])
def test_a_setting_without_key_or_value_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match="is not KEY=VALUE"):
        client_settings("b:1", [setting], None)


@pytest.mark.parametrize(
    ("setting", "why", "hint"),
    [
        ("request.timeout=5", "is not a Kafka client setting", "did you mean request.timeout.ms?"),
        ("group.ids=g", "is not a Kafka client setting", "did you mean group.id?"),
        ("Client.ID=me", "is not a Kafka client setting", "did you mean client.id?"),
        ("cleanup=x", "is not a Kafka client setting", "docs/reference/config.md"),
        ("bootstrap.controllers=c:1", "not controllers", "give bootstrap.servers"),
    ],
)
def test_a_setting_that_is_typed_and_does_not_exist_is_refused(
    setting: str, why: str, hint: str, run_sexton: RunSexton
) -> None:
    answer = run_sexton("cluster", "topics", "-b", "localhost:1", "-X", setting)
    assert answer.code == 2
    assert answer.stderr.startswith(f"error: -X {setting.partition('=')[0]}: ")
    assert why in answer.stderr and hint in answer.stderr


def test_a_file_may_hold_what_is_for_other_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of Kafka's clients, in silence; of others by name, and only once."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=b:1\nlinger.ms=5\nkey.serializer=S\n")
    client_settings(None, None, path)
    assert capsys.readouterr().err == ""
    path.write_text("bootstrap.servers=b:1\nlinger.ms=5\nschema.registry.url=u\ncompany=x\n")
    for _ in range(2):
        assert client_settings(None, None, path)["bootstrap.servers"] == "b:1"
    told = capsys.readouterr().err
    assert told.startswith(f"note: {path}: ") and told.endswith(": schema.registry.url, company\n")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        "producer.ssl.endpoint.identification.algorithm",  # Connect's, as Confluent Cloud shows it
        "admin.request.timeout.ms",
        "admin.bootstrap.servers",
        "kafkastore.ssl.endpoint.identification.algorithm",  # Schema Registry's
        "us.bootstrap.servers",  # MirrorMaker's, of a cluster that is called so
    ],
)
def test_a_setting_of_a_part_of_another_program_is_no_slip(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "connect.properties"
    path.write_text(f"bootstrap.servers=b:1\n{name}=x\n")
    settings = client_settings(None, None, path)
    assert capsys.readouterr().err.endswith(f": {name}\n")
    assert client_config(settings) == client_config({})


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap.server", "securty.protocol", "bootstrap.controllers",
        "kafka.bootstrap.servers", "kafka.security.protocol",  # as for Spark
    ],
)  # fmt: skip
def test_a_slip_in_a_file_does_not_lead_to_another_cluster(name: str, tmp_path: Path) -> None:
    """Without a broker the cluster of `sexton up` is meant, without security nobody checks."""
    path = tmp_path / "client.properties"
    path.write_text(f"{name}=x\n")
    with pytest.raises(ConfigError) as error:
        client_settings(None, None, path)
    assert error.value.subject == f"{path}: {name}"
    assert error.value.hint is not None


def test_brokers_may_go_by_the_name_that_librdkafka_has_for_them(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("metadata.broker.list=file:1\n")
    assert client_settings(None, None, path) == {"bootstrap.servers": "file:1"}
    typed = ["metadata.broker.list=typed:1"]
    assert client_settings(None, typed, path) == {"bootstrap.servers": "typed:1"}
    assert client_settings("b:1", typed, path) == {"bootstrap.servers": "b:1"}


def test_what_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.html"
    must_be_writable(None, report)
    with pytest.raises(ConfigError, match="is a directory"):
        must_be_writable(tmp_path)
    with pytest.raises(ConfigError, match="its directory does not exist"):
        must_be_writable(tmp_path / "nowhere" / "report.html")
    # Not by its mode: whoever tests this may be root, who may write everything.
    protected = {tmp_path}
    monkeypatch.setattr(os, "access", lambda path, _mode: path not in protected)
    with pytest.raises(ConfigError, match="is not writable"):
        must_be_writable(report)
    report.touch()
    must_be_writable(report)
    protected.add(report)
    with pytest.raises(ConfigError, match="is not writable"):
        must_be_writable(report)


def test_a_report_does_not_take_the_place_of_a_device(tmp_path: Path) -> None:
    """A file is written beside its name, then renamed: that would end /dev/null for all."""
    with pytest.raises(ConfigError, match="is not a regular file"):
        must_be_writable(Path("/dev/null"))
    pipe, alias = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is not a regular file"):
        must_be_writable(pipe)
    with (tmp_path / "redirected").open("wb") as file:
        alias.symlink_to(f"/proc/self/fd/{file.fileno()}")  # as /dev/stdout is
        with pytest.raises(ConfigError, match="is not a regular file"):
            must_be_writable(alias)
    linked = tmp_path / "latest.html"
    linked.symlink_to(tmp_path / "redirected")
    must_be_writable(linked)


def test_a_file_where_a_directory_is_wanted_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "notes.txt"
    taken.touch()
    must_be_a_directory(None, "--data")
    must_be_a_directory(tmp_path, "--data")
    must_be_a_directory(tmp_path / "new" / "too", "--data")
    for path, why in ((taken, "is a file"), (taken / "below" / "it", f"{taken} is a file")):
        with pytest.raises(ConfigError) as error:
            must_be_a_directory(path, "--data")
        assert (error.value.subject, error.value.why) == (f"--data {path}", why)
