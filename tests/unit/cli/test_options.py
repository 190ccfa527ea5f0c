from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.cli.options import client_settings, must_be_a_directory, must_be_writable
from tests.conftest import RunSexton


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nclient.id=file\nacks=all\n")
    assert client_settings(None, None, path)["bootstrap.servers"] == "file:1"
    settings = client_settings("b:1", ["client.id=x", "bootstrap.servers=x:1", "a=b=c"], path)
    assert settings == {
        "bootstrap.servers": "b:1", "client.id": "x", "acks": "all", "a": "b=c",
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


def test_what_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.html"
    must_be_writable(None, report)
    with pytest.raises(ConfigError, match="is a directory"):
        must_be_writable(tmp_path)
    with pytest.raises(ConfigError, match="no such directory"):
        must_be_writable(tmp_path / "nowhere" / "report.html")
    # Not by its mode: whoever tests this may be root, who may write everything.
    protected = {tmp_path}
    monkeypatch.setattr(os, "access", lambda path, _mode: path not in protected)
    with pytest.raises(ConfigError, match="may not be written"):
        must_be_writable(report)
    report.touch()
    must_be_writable(report)
    protected.add(report)
    with pytest.raises(ConfigError, match="may not be written"):
        must_be_writable(report)


def test_a_report_does_not_take_the_place_of_a_device(tmp_path: Path) -> None:
    """A file is written beside its name, then renamed: that would end /dev/null for all."""
    with pytest.raises(ConfigError, match="is no ordinary file"):
        must_be_writable(Path("/dev/null"))
    pipe, alias = tmp_path / "pipe", tmp_path / "stdout"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is no ordinary file"):
        must_be_writable(pipe)
    with (tmp_path / "redirected").open("wb") as file:
        alias.symlink_to(f"/proc/self/fd/{file.fileno()}")  # as /dev/stdout is
        with pytest.raises(ConfigError, match="is no ordinary file"):
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
