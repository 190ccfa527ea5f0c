"""A task, event by event: the order in which it asks, doubtful disks, and when it stops."""

from __future__ import annotations

from sexton.machines.stores import Task
from sexton.machines.stores_events import (
    Aborted,
    Apply,
    Bounds,
    BoundsTold,
    Checkpoint,
    Commit,
    CommitDue,
    Committed,
    Discard,
    Effect,
    Elsewhere,
    Event,
    Fenced,
    FetchOffset,
    FindBounds,
    Given,
    Initialised,
    InitProducer,
    Lineage,
    OffsetTold,
    Opened,
    PositionGone,
    Processed,
    Read,
    Replay,
    Role,
    Run,
    Spoilt,
    Stop,
    TaskConfig,
    Tick,
    Unsure,
    Wipe,
)

OURS = Lineage("cluster", b"topic")
DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS


def at(position: int, caught_up_ms: int = NOW_MS, epoch: int = 0) -> Checkpoint:
    return Checkpoint(OURS, position, epoch, caught_up_ms)


def committed_at(position: int, caught_up_ms: int = NOW_MS) -> Checkpoint:
    return Checkpoint(OURS, position, 0, caught_up_ms, before_marker=True)


def opened(found: Checkpoint | None = None, input_position: int | None = None) -> Task:
    task = Task(TaskConfig(DAY_MS, restore_timeout_ms=60_000))
    assert task.handle(Opened(NOW_MS, OURS, found, input_position)) == []
    return task


def bounds(end: int, **more: int) -> BoundsTold:
    given = {"log_start": 0, "high_watermark": end, "log_end": end, **more}
    return BoundsTold(NOW_MS, Bounds(**given))


def running(position: int = 10, input_position: int = 5) -> Task:
    task = opened(at(position), input_position)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(input_position))
    assert task.handle(bounds(position)) == [Run(input_position, promoted=True)]
    return task


def test_a_promotion_fences_first_and_asks_for_the_end_last() -> None:
    task = opened(at(10), 5)
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 1)) == [InitProducer()]
    assert task.handle(Initialised()) == [FetchOffset()]
    assert task.handle(OffsetTold(7)) == [FindBounds(10, 0)]
    assert task.handle(bounds(14)) == [Replay(10, 14)]
    read = Read(NOW_MS, 10, 12, 14, 0, 6)
    assert task.handle(read) == [Apply(at(12), 6), Replay(12, 14)]
    read = Read(NOW_MS, 12, 14, 14, 0, 7)
    assert task.handle(read) == [Apply(at(14), 7), Run(7, promoted=True)]


def test_nothing_is_applied_before_the_commit_is_confirmed() -> None:
    task = running()
    assert task.handle(Processed(9)) == []
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 9, lands_at=10)]
    assert task.handle(CommitDue(NOW_MS)) == []  # one at a time
    effects = task.handle(Committed(NOW_MS, 13, 0))
    assert effects == [Apply(committed_at(13), 9), Run(9, promoted=False)]


def test_an_abort_goes_back_to_what_is_committed() -> None:
    task = running()
    task.handle(Processed(7))
    task.handle(CommitDue(NOW_MS))
    task.handle(Committed(NOW_MS, 13, 0))
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Aborted()) == [Discard(), Run(7, promoted=False)]


def test_after_an_abort_of_its_first_commit_it_has_to_read_again() -> None:
    """Its own records are in the changelog now, and the end is somewhere else."""
    task = running()
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Aborted()) == [Discard(), InitProducer()]


# ── an end that was told by a leader that was replaced ──


def landing_elsewhere(task: Task, lands_at: int, offset: int) -> list[Effect]:
    task.handle(Processed(9))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 9, lands_at)]
    return task.handle(Elsewhere(offset))


def test_a_first_record_that_lands_elsewhere_starts_the_promotion_again() -> None:
    task = running()
    assert landing_elsewhere(task, 10, 14) == [Discard(), InitProducer()]
    task.handle(Initialised())
    # Its own record at 14 is in the changelog: who says that it ends before is asked no more.
    assert task.handle(OffsetTold(5)) == [FindBounds(10, 0, least_end=15)]
    assert task.handle(bounds(16)) == [Replay(10, 16)]
    [_, run] = task.handle(Read(NOW_MS, 10, 16, 16, 0, 7))
    assert run == Run(7, promoted=True)
    task.handle(Processed(9))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 9, lands_at=16)]
    task.handle(Committed(NOW_MS, 18, 0))
    task.handle(Processed(11))
    # From now on nobody else can write, but its own markers are in between.
    assert task.handle(CommitDue(NOW_MS)) == [Commit(1, 11, lands_at=18, or_after=True)]


def test_a_record_that_lands_before_what_the_store_has_stops_the_task() -> None:
    """The changelog was made again, or cut: with this commit it would vouch for what it lost."""
    for commits in (0, 1):
        task, position = running(), 10
        for _ in range(commits):
            task.handle(Processed(7))
            task.handle(CommitDue(NOW_MS))
            task.handle(Committed(NOW_MS, 13, 0))
            position = 13
        task.handle(Processed(9))
        [commit] = task.handle(CommitDue(NOW_MS))
        assert isinstance(commit, Commit)
        found = [commit.lands(offset) for offset in (0, position - 1, position, position + 1)]
        assert found == [False, False, True, commits > 0]
        discard, stop = task.handle(Elsewhere(position - 1))
        assert (discard, type(stop)) == (Discard(), Stop)
        assert f"was there up to {position}" in str(stop)


def test_an_owner_that_is_kept_still_has_to_prove_its_first_commit() -> None:
    task = running()
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 2)) == []
    task.handle(Processed(9))
    assert task.handle(CommitDue(NOW_MS)) == [Commit(2, 9, lands_at=10)]


def test_a_changelog_with_another_writer_stops_the_task() -> None:
    task, read_to = running(), 10
    for end in range(20, 60, 10):
        assert landing_elsewhere(task, read_to, end) == [Discard(), InitProducer()]
        task.handle(Initialised())
        task.handle(OffsetTold(5))
        task.handle(bounds(end + 2))
        task.handle(Read(NOW_MS, read_to, end + 2, end + 2, 0, 5))
        read_to = end + 2
    _, stop = landing_elsewhere(task, read_to, 60)
    assert isinstance(stop, Stop)
    assert "5 times in a row: somebody else writes to it" in stop.why


def test_nobody_is_waited_for_without_an_end() -> None:
    """An unclean election may have lost what the task wrote."""
    task = running()
    landing_elsewhere(task, 10, 14)
    task.handle(Initialised())
    task.handle(OffsetTold(5))
    assert task.handle(Tick(NOW_MS)) == []
    assert task.handle(Tick(NOW_MS + 60_000)) == []
    _, stop = task.handle(Tick(NOW_MS + 60_001))
    assert isinstance(stop, Stop)
    assert "what this task wrote below 15" in stop.why


def test_no_step_of_a_promotion_is_waited_for_without_an_end() -> None:
    steps: tuple[tuple[list[Event], str], ...] = (
        ([], "no new producer epoch was given, though asked for 60 s"),
        ([Initialised()], "the group's offset was not told, though asked for 60 s"),
        ([Initialised(), OffsetTold(5)], "nobody said where the changelog ends"),
    )
    for answers, why in steps:
        task = opened(at(10), 5)
        task.handle(Given(NOW_MS, Role.ACTIVE, 1))
        for answer in answers:
            task.handle(answer)
        assert task.handle(Tick(NOW_MS)) == []
        assert task.handle(Tick(NOW_MS + 60_000)) == []
        discard, stop = task.handle(Tick(NOW_MS + 60_001))
        assert discard == Discard()
        assert isinstance(stop, Stop)
        assert why in stop.why


def test_an_answer_gives_the_next_step_its_own_time() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Tick(NOW_MS))
    task.handle(Initialised())
    assert task.handle(Tick(NOW_MS + 60_001)) == []
    assert task.handle(Tick(NOW_MS + 120_002))[0] == Discard()


def test_a_copy_does_not_wait_for_what_its_instance_wrote() -> None:
    task = running()
    landing_elsewhere(task, 10, 14)
    assert task.handle(Given(NOW_MS, Role.STANDBY, 2)) == [Discard(), FindBounds(10, 0)]


def test_when_nobody_knows_it_starts_again() -> None:
    task = running()
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Unsure()) == [Discard(), InitProducer()]


def test_a_fenced_owner_starts_again_and_one_that_was_left_behind_waits() -> None:
    assert running().handle(Fenced("producer")) == [Discard(), InitProducer()]
    task = running()
    assert task.handle(Fenced("group", 1)) == [Discard()]
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 2)) == [Discard(), InitProducer()]


def test_an_owner_of_the_next_generation_goes_on_undisturbed() -> None:
    task = running()
    task.handle(Processed(9))
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 2)) == []
    assert task.handle(CommitDue(NOW_MS)) == [Commit(2, 9, lands_at=10)]
    # Refused with a number from before it heard of the new one: the task is its own all the same.
    assert task.handle(Fenced("group", 1)) == [Discard(), InitProducer()]


def test_an_owner_that_missed_a_generation_starts_again() -> None:
    task = running()
    assert task.handle(Given(NOW_MS, Role.ACTIVE, 3)) == [Discard(), InitProducer()]


def test_a_disk_of_another_changelog_goes() -> None:
    task = Task()
    for other in (Lineage("elsewhere", b"topic"), Lineage("cluster", b"made again")):
        [effect] = task.handle(Opened(NOW_MS, OURS, Checkpoint(other, 3, 0, NOW_MS), 1))
        assert isinstance(effect, Wipe)
        assert task.store is None


def test_a_position_outside_the_log_goes() -> None:
    for told in (bounds(9), bounds(20, log_start=11), bounds(20, parts_at=9)):
        task = opened(at(10), 5)
        task.handle(Given(NOW_MS, Role.STANDBY, 1))
        wiped, replay = task.handle(told)
        assert isinstance(wiped, Wipe)
        assert replay == Replay(told.bounds.log_start, None)


def test_a_disk_older_than_the_tombstones_goes_unless_the_cluster_knows_better() -> None:
    old = at(10, NOW_MS - DAY_MS)
    for told, goes in (
        (bounds(20), True),
        (bounds(20, mtro=11), True),
        (bounds(20, mtro=10), False),
    ):
        task = opened(old, 5)
        task.handle(Given(NOW_MS, Role.STANDBY, 1))
        assert isinstance(task.handle(told)[0], Wipe) is goes
    task = opened(old, 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    assert task.handle(bounds(10)) == [Replay(10, None)]  # nothing was written since


def test_nobody_knows_the_age_of_a_disk_whose_clock_was_ahead() -> None:
    """It would seem young until that time has come, while tombstones of its keys are forgotten."""
    for ahead_ms, goes in ((DAY_MS // 10, False), (DAY_MS // 10 + 1, True)):
        task = opened(at(10, NOW_MS + ahead_ms), 5)
        task.handle(Given(NOW_MS, Role.STANDBY, 1))
        wiped = task.handle(bounds(20))[0]
        assert isinstance(wiped, Wipe) is goes
    assert isinstance(wiped, Wipe) and wiped.why.startswith("it says a time to come")
    task = opened(at(10, NOW_MS + DAY_MS), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    assert task.handle(bounds(10)) == [Replay(10, None)]  # nothing was written since


def test_a_commits_own_marker_is_nothing_that_a_store_could_miss() -> None:
    """However long it was away, on a Kafka that says nothing of its tombstones."""
    for store, end, goes in (
        (committed_at(10, NOW_MS - DAY_MS), 10, False),  # the marker is on its way
        (committed_at(10, NOW_MS - DAY_MS), 11, False),
        (committed_at(10, NOW_MS - DAY_MS), 12, True),  # somebody has written since
        (at(10, NOW_MS - DAY_MS), 11, True),  # it was read: what comes next may be anybody's
    ):
        task = opened(store, 5)
        task.handle(Given(NOW_MS, Role.STANDBY, 1))
        assert isinstance(task.handle(bounds(end))[0], Wipe) is goes


def test_a_former_owner_steps_over_its_marker_and_works() -> None:
    task = opened(committed_at(10, NOW_MS - DAY_MS), 5)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(5))
    assert task.handle(bounds(11)) == [Replay(10, 11)]
    read = task.handle(Read(NOW_MS, 10, 11, 11, 0, None))
    # That it lacks nothing is shown by its first commit: whoever told the end may be out of date.
    assert read == [Apply(at(11, NOW_MS - DAY_MS), 5), Run(5, promoted=True)]
    assert landing_elsewhere(task, 11, 20) == [Discard(), InitProducer()]
    task.handle(Initialised())
    task.handle(OffsetTold(5))
    assert isinstance(task.handle(bounds(22))[0], Wipe)


def test_what_was_written_after_the_marker_is_too_old_to_be_read() -> None:
    task = opened(committed_at(10, NOW_MS - DAY_MS), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(11))
    wiped, _ = task.handle(Read(NOW_MS, 10, 13, 13, 0, 6))
    assert isinstance(wiped, Wipe)


# ── a changelog that was cut by an unclean election ──


def test_records_of_a_new_leader_are_not_taken_before_it_was_asked() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(10, leader_epoch=0))
    news = Read(NOW_MS, 10, 12, 12, 1, 6)
    assert task.handle(news) == [FindBounds(10, 0, least_epoch=1)]
    # Its log goes on where the store ends: now they are.
    assert task.handle(bounds(12, leader_epoch=1, parts_at=10)) == [Replay(10, None)]
    assert task.handle(news) == [Apply(at(12, epoch=1), 6), Replay(12, None)]


def test_a_new_leader_that_lacks_what_was_read_costs_the_store() -> None:
    promotion: list[Event] = [Initialised(), OffsetTold(5)]
    for role in (Role.STANDBY, Role.ACTIVE):
        task = opened(at(10), 5)
        task.handle(Given(NOW_MS, role, 1))
        for event in promotion if role is Role.ACTIVE else []:
            task.handle(event)
        task.handle(bounds(14, leader_epoch=0))
        task.handle(Read(NOW_MS, 10, 12, 14, 0, None))
        assert task.handle(Read(NOW_MS, 12, 14, 14, 1, 6)) == [FindBounds(12, 0, least_epoch=1)]
        wiped, replay = task.handle(bounds(14, leader_epoch=1, parts_at=11))
        assert isinstance(wiped, Wipe)
        assert replay == Replay(0, None if role is Role.STANDBY else 14)


def test_so_does_one_that_had_led_before_and_goes_on_with_that() -> None:
    """It names an end of its own time, behind the store's; but what it has there is older."""
    promotion: list[Event] = [Initialised(), OffsetTold(5)]
    for role in (Role.STANDBY, Role.ACTIVE):
        for first_epoch in (1, 2, -1):
            task = opened(at(10, epoch=2), 5)
            task.handle(Given(NOW_MS, role, 1))
            for event in promotion if role is Role.ACTIVE else []:
                task.handle(event)
            end = None if role is Role.STANDBY else 14
            assert task.handle(bounds(14, leader_epoch=3, parts_at=12)) == [Replay(10, end)]
            effect, then = task.handle(Read(NOW_MS, 10, 13, 14, 3, 6, None, first_epoch))
            if first_epoch == 1:
                assert effect == Wipe(
                    "it is at 10, and what the changelog has there is of epoch 1, and older: there"
                    " was an unclean election"
                )
                assert then == FindBounds(-1, -1, least_epoch=3)
            else:
                assert (effect, then) == (Apply(at(13, epoch=3), 6), Replay(13, end))


def test_epochs_from_before_the_promotion_are_no_news() -> None:
    """The leader of epoch 7 was asked, and everything before it is in its log."""
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(20, leader_epoch=7))
    assert task.handle(Read(NOW_MS, 10, 15, 20, 3, None))[1:] == [Replay(15, None)]
    assert task.handle(Read(NOW_MS, 15, 20, 20, 7, None))[1:] == [Replay(20, None)]


def test_an_owner_whose_changelog_has_a_new_leader_reads_before_it_goes_on() -> None:
    """What it has committed is in the log, but perhaps not on top of what it has."""
    task = opened(at(10), 5)
    for event in (Given(NOW_MS, Role.ACTIVE, 1), Initialised(), OffsetTold(5)):
        task.handle(event)
    task.handle(bounds(10, leader_epoch=3))
    task.handle(Processed(9))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Committed(NOW_MS, 13, 4)) == [Discard(), InitProducer()]
    task.handle(Initialised())
    # A leader of before, which has not heard that it was replaced, would tell an end below that.
    assert task.handle(OffsetTold(9)) == [FindBounds(10, 0, least_end=13, least_epoch=4)]
    assert task.handle(bounds(14, leader_epoch=4, parts_at=10)) == [Replay(10, 14)]
    task.handle(Read(NOW_MS, 10, 14, 14, 4, 9))
    task.handle(Processed(12))
    task.handle(CommitDue(NOW_MS))
    assert task.handle(Committed(NOW_MS, 17, 4))[1:] == [Run(12, promoted=False)]


def test_a_restore_that_has_to_ask_again_and_again_stops() -> None:
    task = opened(at(10), 5)
    for event in (Given(NOW_MS, Role.ACTIVE, 1), Initialised(), OffsetTold(5), bounds(20)):
        task.handle(event)
    later = Bounds(0, 20, 20)
    assert task.handle(PositionGone()) == [FindBounds(10, 0)]
    assert task.handle(BoundsTold(NOW_MS + 60_000, later)) == [Replay(10, 20)]
    assert task.handle(PositionGone()) == [FindBounds(10, 0)]
    _, stop = task.handle(BoundsTold(NOW_MS + 60_001, later))
    assert isinstance(stop, Stop)
    assert "has not moved" in stop.why


# ── a store that is of no use ──


def test_a_spoilt_store_is_rebuilt_by_whoever_has_it() -> None:
    task = running()
    task.handle(Processed(9))
    assert task.handle(Spoilt("bits")) == [Discard(), Wipe("bits"), InitProducer()]
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(20))
    assert task.handle(Spoilt("bits")) == [Wipe("bits"), FindBounds(-1, -1)]
    assert opened(at(10), 5).handle(Spoilt("bits")) == [Wipe("bits")]


def test_a_disk_that_spoils_everything_stops_the_task() -> None:
    task = running()
    for _ in range(3):
        assert task.handle(Spoilt("bits"))[-1] == InitProducer()
        for event in (Initialised(), OffsetTold(5), bounds(10)):
            task.handle(event)
        task.handle(Read(NOW_MS, 0, 10, 10, 0, 5))
    *_, stop = task.handle(Spoilt("bits"))
    assert isinstance(stop, Stop)
    assert "of no use 4 times in a row, at last: bits" in stop.why


def test_a_restore_that_takes_longer_than_tombstones_are_kept_begins_again() -> None:
    task = opened()
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(100))
    late = Read(NOW_MS + DAY_MS, 0, 50, 100, 0, None)
    wiped, again = task.handle(late)
    assert isinstance(wiped, Wipe)
    assert again == FindBounds(-1, -1)


def test_a_restore_that_stands_still_stops_loudly() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(5))
    task.handle(bounds(20))
    assert task.handle(Tick(NOW_MS + 60_000)) == []
    discard, stop = task.handle(Tick(NOW_MS + 60_001))
    assert (discard, type(stop)) == (Discard(), Stop)
    assert "stands at 10" in str(stop)


def test_a_group_that_is_ahead_of_the_changelog_stops_the_task() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    task.handle(OffsetTold(6))
    _, stop = task.handle(bounds(10))
    assert isinstance(stop, Stop)
    assert "committed input up to 6, but the changelog knows of 5" in stop.why


def test_a_reader_whose_place_is_gone_asks_for_the_bounds() -> None:
    task = opened(at(10), 5)
    task.handle(Given(NOW_MS, Role.STANDBY, 1))
    task.handle(bounds(20))
    assert task.handle(PositionGone()) == [FindBounds(10, 0)]


def test_a_quiet_owner_says_now_and_then_that_it_is_complete() -> None:
    task = running()
    assert task.handle(CommitDue(NOW_MS + 1000)) == []
    assert task.handle(CommitDue(NOW_MS + DAY_MS // 20)) == [Commit(1, 5, lands_at=10)]


def test_a_trusting_task_does_not_read_at_all() -> None:
    """The bug of KAFKA-16017, for the lab."""
    task = Task(TaskConfig(DAY_MS, trust_local_checkpoint=True))
    task.handle(Opened(NOW_MS, OURS, at(10), 5))
    task.handle(Given(NOW_MS, Role.ACTIVE, 1))
    task.handle(Initialised())
    assert task.handle(OffsetTold(9)) == [Run(9, promoted=True)]
