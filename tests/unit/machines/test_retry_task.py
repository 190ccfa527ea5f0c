"""A failed message blocks its key and nothing else, rule by rule."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sexton.machines.retry_pending import Held, Pending
from sexton.machines.retry_records import LockRecord, TaskName, Watermark
from sexton.machines.retry_rounds import Commit, Failure, Outcome, Round
from sexton.machines.retry_settings import Backoff, Settings
from sexton.machines.retry_startup import (
    Committed,
    Ends,
    LocksRead,
    RetriesRead,
    Started,
    StartUp,
)
from sexton.machines.retry_task import Row, Task

NAME = TaskName("m", 0)
DONE, RETRY, DEAD, DROP = Outcome.DONE, Outcome.RETRY, Outcome.DEAD, Outcome.DROP


def settings(**some: Any) -> Settings:
    return Settings(**({"backoff": Backoff(0)} | some))


def lock(message: int, key: str = "a", **some: Any) -> Row:
    told = {"dead": False, "attempts": 1, "not_before_ms": 0, "since_ms": 5} | some
    return message, NAME.id_of(message), LockRecord(**told, key=key.encode()).encode()


def retry(message: int) -> Row:
    return message, NAME.id_of(message), b"payload"


def start(
    locks: list[Row] | None = None,
    retries: list[Row] | None = None,
    position: int = 0,
    w: int | None = None,
    **some: Any,
) -> Task:
    """W: None if somebody has set the group's offset."""
    startup = StartUp(NAME, settings(**some), Random(0), partitions=1)
    startup.handle(Committed(position, "" if w is None else Watermark(w, 1).encode()))
    startup.handle(Ends(9, 9))
    startup.handle(LocksRead(locks or [], 9))
    (effect,) = startup.handle(RetriesRead(retries or [], 9))
    assert isinstance(effect, Started)
    return effect.task


def run(
    task: Task, keys: str = "", outcomes: dict[int, Outcome] | None = None, now_ms: int = 0
) -> tuple[list[int], Commit]:
    """One whole round; which messages ran, and what it wrote."""
    offsets = range(task.position, task.position + len(keys))
    wanted = [None if key == "-" else key.encode() for key in keys]
    taken = task.begin(now_ms, offsets, wanted, readable=range(1000))
    ran = note_all(taken, outcomes or {})
    commit = task.finish(taken, now_ms)
    task.confirmed()
    task.check()
    return ran, commit


def note_all(taken: Round, outcomes: dict[int, Outcome]) -> list[int]:
    ran = []
    for item in taken.work:
        if not item.lane.stopped:
            ran.append(item.id)
            taken.note(item, outcomes.get(item.id, DONE), Failure("it broke"))
    return ran


def ids(keys: list[bytes]) -> list[int | None]:
    return [NAME.offset_of(key) for key in keys]


# ── the four rules ──


def test_a_failure_blocks_its_key_and_nothing_else() -> None:
    task = start()
    ran, commit = run(task, "aabab", {0: RETRY})
    assert ran == [0, 2, 4]
    assert [item.id for item in commit.redirected] == [0, 1, 3]
    assert ids([each.key for each in commit.locks]) == [0, 1, 3]
    assert [LockRecord.decode(each.value).attempts for each in commit.locks] == [1, 0, 0]
    assert [each.reason for each in commit.locks] == ["it broke", "", ""]
    assert (commit.position, commit.watermark) == (5, Watermark(0, 1))


def test_what_waits_runs_in_the_order_of_its_ids_and_frees_the_key() -> None:
    task = start()
    run(task, "aab", {0: RETRY})
    ran, commit = run(task, "a")
    assert ran == [0, 1], "3 comes while its key waits: it is redirected"
    assert ids(commit.lock_tombstones) == ids(commit.retry_tombstones) == [0, 1]
    assert commit.watermark.w == 3
    assert run(task)[0] == [3]
    ran, commit = run(task, "a")
    assert ran == [4] and not commit.changes, "its key is free"
    assert commit.watermark.w == 5


def test_a_failed_retry_is_rewritten_in_place() -> None:
    task = start()
    run(task, "aa", {0: RETRY})
    _, commit = run(task, "", {0: RETRY})
    assert not commit.redirected, "nothing is published again"
    assert ids([each.key for each in commit.locks]) == [0]
    assert task.pending.held[0].attempts == 2
    assert run(task)[0] == [0, 1]


def test_a_retry_waits_for_its_time_and_other_keys_do_not() -> None:
    task = start(backoff=Backoff(1_000, jitter=0))
    run(task, "aa", {0: RETRY}, now_ms=100)
    assert task.wake_at_ms(100) == 1_100
    assert run(task, "b", now_ms=1_099)[0] == [2]
    assert run(task, now_ms=1_100)[0] == [0, 1]
    assert task.wake_at_ms(1_100) is None


def test_a_message_without_a_key_blocks_nobody() -> None:
    task = start()
    ran, commit = run(task, "---", {0: RETRY})
    assert ran == [0, 1, 2]
    assert [LockRecord.decode(each.value).key for each in commit.locks] == [None]
    assert run(task, "-")[0] == [0, 3]


def test_the_ceiling_frees_the_key() -> None:
    task = start(max_attempts=2)
    run(task, "aa", {0: RETRY})
    ran, commit = run(task, "", {0: RETRY})
    assert ran == [0, 1]
    assert [(item.id, item.attempts) for item in commit.dead] == [(0, 2)]
    assert len(task.pending) == 0


def test_the_ceiling_holds_the_key_if_asked_to() -> None:
    task = start(max_attempts=2, at_ceiling="held")
    run(task, "aa", {0: RETRY})
    ran, commit = run(task, "", {0: RETRY})
    assert ran == [0]
    assert [item.id for item in commit.dead] == [0]
    assert LockRecord.decode(commit.locks[0].value).dead
    assert task.wake_at_ms(0) is None
    assert run(task, "ab")[0] == [3]


def test_a_poison_pill_goes_at_once() -> None:
    task = start()
    ran, commit = run(task, "aa", {0: DEAD})
    assert ran == [0, 1]
    assert [(item.id, item.attempts) for item in commit.dead] == [(0, 1)]
    assert not commit.locks and not commit.redirected


def test_what_is_dropped_leaves_nothing() -> None:
    task = start()
    _, commit = run(task, "aa", {0: DROP})
    assert not commit.changes
    run(task, "a", {2: RETRY})
    _, commit = run(task, "", {2: DROP})
    assert ids(commit.lock_tombstones) == [2] and not commit.dead


def test_a_round_that_is_cut_short_loses_nothing() -> None:
    task = start()
    taken = task.begin(0, range(3), [b"a", b"b", b"a"])
    taken.note(taken.work[0], DONE)
    commit = task.finish(taken, 0)
    task.confirmed()
    assert [item.id for item in commit.redirected] == [2, 1] or [
        item.id for item in commit.redirected
    ] == [1, 2]
    assert commit.position == 3
    assert run(task)[0] in ([1, 2], [2, 1])


def test_one_key_is_in_one_lane_only() -> None:
    task = start()
    run(task, "aab", {0: RETRY})
    taken = task.begin(0, range(3, 7), [b"a", b"c", b"b", b"c"], readable=range(9))
    keys = [lane.key for lane in taken.lanes]
    assert sorted(map(str, keys)) == sorted({str(key) for key in keys})
    assert [[item.id for item in lane.items] for lane in taken.main_lanes] == [[4, 6], [5]]


def test_many_waiting_of_one_key_leave_room_for_others() -> None:
    task = start(round_limit=4)
    run(task, "aaaaaab", {0: RETRY, 6: RETRY})
    assert run(task)[0] == [0, 1, 6]
    assert run(task)[0] == [2, 3, 4, 5]


def test_while_messages_fail_few_of_a_key_are_taken_and_then_more_each_time() -> None:
    task = start()
    run(task, "a" * 20, {0: RETRY})
    assert run(task, "", {1: RETRY})[0] == [0, 1]
    assert run(task)[0] == [1, 2]
    assert run(task)[0] == [3, 4, 5, 6]
    assert run(task, "", {9: RETRY})[0] == [7, 8, 9]
    assert run(task)[0] == [9, 10]


def test_the_handler_may_say_how_long_to_wait() -> None:
    task = start(backoff=Backoff(first_ms=3_600_000))
    taken = task.begin(1_000, range(2), [b"a", b"b"])
    taken.note(taken.work[0], RETRY, None, 250)
    taken.note(taken.work[1], RETRY, None, 0)
    task.finish(taken, 1_000)
    task.confirmed({0: 0, 1: 1})
    assert [held.not_before_ms for held in task.pending.held.values()] == [1_250, 1_000]
    assert task.wake_at_ms(1_000) == 1_000


# ── memory, and how a transaction ends ──


def test_memory_changes_when_the_commit_is_confirmed() -> None:
    task = start()
    taken = task.begin(0, range(1), [b"a"])
    taken.note(taken.work[0], RETRY)
    task.finish(taken, 0)
    assert len(task.pending) == 0 and task.position == 0
    task.confirmed()
    assert len(task.pending) == 1 and task.position == 1


@pytest.mark.parametrize("how", ["aborted", "fenced", "unknown"])
def test_whatever_else_happens_it_starts_up_again_or_stops(how: Any) -> None:
    assert start().failed(how, owner=True) == "start up again"
    assert start().failed(how, owner=False) == "stop"


def test_a_payload_is_awaited_until_it_can_be_read() -> None:
    task = start()
    taken = task.begin(0, range(2), [b"a", b"a"])
    taken.note(taken.work[0], RETRY)
    task.finish(taken, 0)
    task.confirmed()
    assert not _work(task)
    task.tail([(40, NAME.id_of(0), b"payload"), (41, NAME.id_of(1), b"payload")])
    assert _work(task) == [(0, 40), (1, 41)]


def _work(task: Task) -> list[tuple[int, int]]:
    taken = task.begin(0, (), ())
    task.finish(taken, 0)
    task.confirmed()
    return [(item.id, item.retry_offset) for item in taken.retries]


def test_offsets_from_delivery_reports_do_as_well() -> None:
    task = start()
    taken = task.begin(0, range(1), [b"a"])
    taken.note(taken.work[0], RETRY)
    task.finish(taken, 0)
    task.confirmed({0: 40})
    assert _work(task) == [(0, 40)]


def test_too_many_waiting_pause_the_main_topic_loudly() -> None:
    task = start(max_pending=10)
    paused, reports = [], []
    for keys, fails in (("a" * 9, 0), ("a", 0), ("", 1), ("", 2)):
        run(task, keys, {fails: RETRY})
        paused.append((len(task.pending), task.paused))
        reports += [report.code for report in task.take_reports()]
    assert paused == [(9, False), (10, True), (9, True), (8, False)]
    assert reports == ["paused", "resumed"]


def test_memory_is_that_of_what_waits_however_long_one_message_does() -> None:
    """Message 0 waits for ever; a hundred thousand others fail once and are settled after it."""
    held = Held(b"a", 1, 0, 1, dead=True)
    pending = Pending()
    pending.put(0, held)
    most = 0
    for message in range(1, 100_000):
        pending.put(message, Held(b"b", 1, 0, 1, dead=False))
        assert pending.smallest({}) == 0
        pending.release(message)
        most = max(most, len(pending.ids))
    assert most < 2_000
    pending.check()
    pending.put(100_000, Held(b"b", 1, 0, 1, dead=False))
    pending.release(0)
    assert pending.smallest({}) == 100_000
