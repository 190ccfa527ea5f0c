"""What `sexton sink doctor` makes of a checkpoint, and of what is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sexton.base.errors import ConfigError
from sexton.spark.sink_doctor import read_checkpoint


@pytest.mark.parametrize("place", ["{}", "file://{}"])
def test_the_query_and_its_next_batch_are_read(place: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    for log, newest in (("offsets", 7), ("commits", 6)):
        (tmp_path / log).mkdir()
        (tmp_path / log / str(newest)).touch()
    found = read_checkpoint(place.format(tmp_path))
    assert (found.query, found.next_batch) == ("q", 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "it has no file `metadata`"),
        ("", "its file `metadata` names no query"),
        ("{}", "its file `metadata` names no query"),
        ("[]", "its file `metadata` names no query"),
    ],
)
def test_what_is_no_checkpoint_is_told_in_our_words(
    text: str | None, why: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "metadata").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_checkpoint(str(tmp_path))
    assert caught.value.subject == str(tmp_path)
    assert caught.value.why == f"is not a checkpoint of Spark's: {why}"
    assert caught.value.hint == "name the directory that the query has as checkpointLocation"


def test_a_file_that_cannot_be_read_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    with pytest.raises(ConfigError, match="`metadata` cannot be read: is a directory"):
        read_checkpoint(str(tmp_path))
