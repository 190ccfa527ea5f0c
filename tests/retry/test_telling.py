"""What fails is in the log, and a storm does not fill it."""

from __future__ import annotations

import time
from random import Random

import pytest

from sexton.machines.retry_pending import Pending
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_rounds import Commit, Outcome
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_task import Task
from sexton.retry.outcomes import failure_of
from sexton.retry.telling import MOST, PERIOD_S, Telling


def failed(messages: int, outcome: Outcome, error: Exception) -> tuple[Task, Commit]:
    """A round in which each of them, of keys of their own, ends so."""
    task = Task(TaskName("orders", 0), Settings(), Random(1), 0, 1, Pending())
    taken = task.begin(0, range(messages), [b"%d" % each for each in range(messages)])
    for item in taken.work:
        taken.note(item, outcome, failure_of(error))
    return task, task.finish(taken, 0)


def test_a_storm_is_a_few_lines_and_a_number(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    telling = Telling()
    telling.tell(*failed(1_000, Outcome.RETRY, OSError("down")))
    telling.tell(*failed(1_000, Outcome.RETRY, OSError("down")))
    telling.tell(*failed(1, Outcome.RETRY, KeyError("x")))  # its own type is not drowned
    telling.tell_rest()
    assert len(caplog.messages) == MOST + 1
    assert caplog.messages[0] == "orders-0-0 is put aside, attempt 1 of 10: OSError: down"
    assert caplog.messages[-1] == "orders-0-0 is put aside, attempt 1 of 10: KeyError: 'x'"
    now_s += PERIOD_S
    telling.tell_rest()
    assert caplog.messages[MOST + 1 :] == [f"and {2_000 - MOST} more: put aside, OSError"]
    telling.tell(*failed(1, Outcome.RETRY, OSError("down")))
    assert len(caplog.messages) == MOST + 3


def test_what_is_left_out_is_told_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    telling = Telling()
    telling.tell(*failed(MOST + 2, Outcome.DEAD, ValueError("bad")))
    telling.tell_rest(at_once=True)
    assert caplog.messages[-1] == "and 2 more: a dead letter, ValueError"
    assert {r.levelname for r in caplog.records} == {"ERROR"}
    telling.tell_rest(at_once=True)
    assert len(caplog.messages) == MOST + 1


def test_what_only_waits_behind_another_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    task = Task(TaskName("orders", 0), Settings(), Random(1), 0, 1, Pending())
    taken = task.begin(0, [0, 1], [b"a", b"a"])
    taken.note(taken.work[0], Outcome.RETRY, failure_of(ValueError("bad")))
    Telling().tell(task, task.finish(taken, 0))
    assert caplog.messages == ["orders-0-0 is put aside, attempt 1 of 10: ValueError: bad"]
