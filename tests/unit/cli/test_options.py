from __future__ import annotations

import os
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.cli.options import client_settings, must_be_writable


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
