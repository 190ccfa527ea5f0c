"""More keys differ than there is room for, or than anybody reads: the audit never says "agree"."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sexton.audit.fold import Fold
from sexton.audit.key_entries import fingerprint
from sexton.cli.audit_run import Request
from sexton.cli.audit_show import page_of
from sexton.records import Spans, encode, rows
from sexton.report.audit_page import AuditPage
from sexton.survey import judging, rounds, survey, tasks
from sexton.survey.runner import LocalRunner
from sexton.survey.survey import run_files_survey

KEYS = [b"key-%d" % number for number in range(300)]
ROOM = 100
SEED = 7


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "Fold", partial(Fold, most_entries=ROOM))
    monkeypatch.setattr(random, "SystemRandom", lambda: random.Random(SEED))


def by_fingerprint() -> list[bytes]:
    seed = random.Random(SEED).getrandbits(63)
    return sorted(KEYS, key=lambda key: fingerprint(key, seed))


def copy(directory: Path, keys: list[bytes], base_offset: int = 0) -> Path:
    columns = rows(
        np.arange(len(keys), dtype=np.int64) + 1_700_000_000_000,
        Spans.from_list(keys),
        Spans.from_list([b"value of " + key for key in keys]),
        base_offset=base_offset,
    )
    partition = directory / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").write_bytes(encode(columns))
    return directory


def page(tmp_path: Path, lost: list[bytes]) -> AuditPage:
    """All keys were written, and here again and the older records cleaned away, but for `lost`."""
    again = [key for key in KEYS if key not in lost]
    paths = copy(tmp_path / "one", KEYS), copy(tmp_path / "two", again, base_offset=len(KEYS))
    found = run_files_survey(paths, LocalRunner(1))
    request = Request(None, paths=paths)
    return page_of(found, request, list(found.findings), 0)


def test_a_key_that_there_was_no_room_for_is_found_by_reading_again(tmp_path: Path) -> None:
    (highest,) = by_fingerprint()[-1:]
    told = page(tmp_path, [highest])
    assert [finding.key for finding in told.findings] == [highest]
    assert (told.standing, told.incomplete) == ("differ", ())


def test_replicas_that_were_only_cleaned_at_other_times_agree(tmp_path: Path) -> None:
    told = page(tmp_path, [])
    assert (told.standing, told.incomplete) == ("agree", ())


def test_keys_that_nobody_compared_make_it_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "MOST_READINGS", 1)
    told = page(tmp_path, by_fingerprint()[-1:])
    assert not told.findings
    assert told.standing == "incomplete"
    (unread,) = told.incomplete
    assert unread.what == "orders-0" and "not looked at one by one" in unread.why


def test_suspicions_that_nobody_judged_make_it_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though all that were judged are explained, and no finding comes of them."""
    for module in (judging, rounds):
        monkeypatch.setattr(module, "MOST_JUDGED", 1)
    monkeypatch.setattr(judging, "judge_key", lambda *_suspected, **_options: [])
    told = page(tmp_path, by_fingerprint()[:3])
    assert not told.findings
    assert told.standing == "incomplete"
    (unread,) = told.incomplete
    assert unread.keys_only


def test_a_hopeless_partition_is_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is suspected than will be judged: what else differs changes nothing."""
    monkeypatch.setattr(rounds, "MOST_JUDGED", 1)
    read: list[int] = []

    class Counting(LocalRunner):
        def run(self, wanted):  # type: ignore[no-untyped-def]
            read.append(len(wanted))
            return super().run(wanted)

    paths = copy(tmp_path / "one", KEYS), copy(tmp_path / "two", KEYS[:1], base_offset=len(KEYS))
    found = run_files_survey(paths, Counting(1))
    assert [count for count in read if count] == [2, 2], "digests, and keys once"
    assert found.partitions[0].not_judged > 0
