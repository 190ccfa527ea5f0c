"""A file is there when it is complete, and takes the place of nothing but a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.report.whole_files import write_text


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="not a regular file"):
        write_text(pipe, "a report")
    assert pipe.is_fifo()


def test_a_link_goes_on_leading_to_the_report(tmp_path: Path) -> None:
    file, link = tmp_path / "2026-11-17.html", tmp_path / "latest.html"
    file.write_text("an old one")
    link.symlink_to(file)
    write_text(link, "a report")
    assert link.is_symlink()
    assert file.read_text() == "a report"
    assert sorted(each.name for each in tmp_path.iterdir()) == [file.name, link.name]


def test_one_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("an old one")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "cannot be encoded: \ud800")
    assert [each.name for each in tmp_path.iterdir()] == [file.name]
    assert file.read_text() == "an old one"
