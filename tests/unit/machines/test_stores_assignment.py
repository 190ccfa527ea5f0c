"""Who gets which task: even shares, as few moves as can be, the warmest copy first."""

from __future__ import annotations

import random

from sexton.machines.stores_assignment import CAUGHT_UP, Member, Share, TaskId, assign

TASKS = [TaskId("t", number) for number in range(6)]
FAR = 10 * CAUGHT_UP


def member(name: str, owned: list[int] | None = None, **more: object) -> Member:
    ids = frozenset(TaskId("t", number) for number in owned or ())
    copies = {TaskId("t", n): p for n, p in more.pop("copies", {}).items()}  # type: ignore[attr-defined]
    lags = {TaskId("t", n): p for n, p in more.pop("lags", {}).items()}  # type: ignore[attr-defined]
    generation = more.pop("generation", 1)
    assert isinstance(generation, int)
    return Member(name, frozenset({"t"}), ids, generation, copies, lags)


def numbers(share: Share) -> list[int]:
    return sorted(task.partition for task in share.active)


def test_new_members_share_evenly() -> None:
    shares = assign(TASKS, [member("a"), member("b"), member("c")], 1)
    assert [share.load for share in shares.values()] == [2, 2, 2]
    assert all(len(share.standby) == 2 for share in shares.values())
    for share in shares.values():
        assert not set(share.active) & set(share.standby)


def test_what_is_even_stays() -> None:
    before = [member("a", [0, 4, 5]), member("b", [1, 2, 3])]
    shares = assign(TASKS, before, 0)
    assert (numbers(shares["a"]), numbers(shares["b"])) == ([0, 4, 5], [1, 2, 3])


def test_a_task_that_moves_is_first_given_up() -> None:
    shares = assign(TASKS, [member("a", [0, 1, 2, 3, 4, 5]), member("b")], 0)
    assert len(numbers(shares["a"])) == 3
    assert numbers(shares["b"]) == []
    after = assign(TASKS, [member("a", numbers(shares["a"])), member("b")], 0)
    assert after["b"].load == 3


def test_an_orphan_goes_to_the_copy_that_is_caught_up() -> None:
    copies = dict.fromkeys(range(6), FAR)
    before = [member("a", [0, 1, 2], copies=copies), member("b"), member("c", copies=copies)]
    shares = assign(TASKS, before, 0)
    assert numbers(shares["c"]) == [3, 4, 5]
    assert numbers(shares["b"]) == []


def test_a_cold_member_warms_up_before_it_works() -> None:
    copies = dict.fromkeys(range(6), FAR)
    before = [member("a", [0, 1, 2, 3, 4, 5], copies=copies), member("b")]
    shares = assign(TASKS, before, 0)
    assert numbers(shares["a"]) == [0, 1, 2, 3, 4, 5]
    assert len(shares["b"].warming) == 2
    assert set(shares["b"].warming) <= set(shares["b"].standby)
    warm = {task.partition: FAR for task in shares["b"].warming}
    shares = assign(TASKS, [before[0], member("b", copies=warm)], 0)
    assert len(numbers(shares["a"])) == 4  # they are given up now
    assert shares["b"].warming != []  # and two more are warmed up


def test_a_copy_that_is_warm_by_its_own_account_is_warm() -> None:
    """Its owner told its own position a moment later, when much more had been written."""
    owned = dict.fromkeys(range(6), FAR)
    before = [
        member("a", [0, 1, 2, 3, 4, 5], copies=owned),
        member("b", copies={0: 5 * CAUGHT_UP, 1: 5 * CAUGHT_UP}, lags={0: 0, 1: CAUGHT_UP}),
    ]
    shares = assign(TASKS, before, 0)
    assert numbers(shares["a"]) == [2, 3, 4, 5]  # the two are given up
    assert not {TaskId("t", 0), TaskId("t", 1)} & set(shares["b"].warming)


def test_a_copy_that_warms_up_is_no_standby_yet() -> None:
    copies = dict.fromkeys(range(6), FAR)
    before = [
        member("a", [0, 1, 2], copies=copies),
        member("b", [3, 4, 5], copies=copies),
        member("c"),
    ]
    shares = assign(TASKS, before, 1)
    assert shares["c"].warming != []
    assert [task.partition for task in shares["a"].standby] == [3, 4, 5]
    assert [task.partition for task in shares["b"].standby] == [0, 1, 2]


def test_nobody_is_believed_who_missed_a_generation() -> None:
    before = [member("a", [0, 1, 2], generation=3), member("b", [0, 1, 2], generation=5)]
    shares = assign(TASKS, before, 0)
    assert (numbers(shares["a"]), numbers(shares["b"])) == ([3, 4, 5], [0, 1, 2])
    both = [member("a", [0], generation=5), member("b", [0], generation=5)]
    shares = assign(TASKS[:1], both, 0)
    assert sum(share.load for share in shares.values()) == 1


def test_tasks_go_to_members_that_have_their_code() -> None:
    other = Member("b", frozenset({"u"}))
    shares = assign([*TASKS, TaskId("u", 0)], [member("a"), other], 1)
    assert numbers(shares["a"]) == [0, 1, 2, 3, 4, 5]
    assert shares["b"].active == [TaskId("u", 0)]
    assert shares["b"].standby == []


def test_a_group_comes_to_rest() -> None:
    """Members come and go by chance; after a few rounds nothing moves, and all is shared."""
    chance = random.Random(7)
    for _ in range(200):
        names = [f"m{number}" for number in range(chance.randrange(1, 6))]
        positions = {task: chance.choice([0, 5, FAR]) for task in TASKS}
        members = [
            Member(
                name,
                frozenset({"t"}),
                frozenset(task for task in TASKS if chance.random() < 0.3),
                chance.randrange(3),
                {task: chance.randrange(positions[task] + 1) for task in TASKS},
            )
            for name in names
        ]
        members = settle(members, positions)
        shares = assign(TASKS, members, 1)
        owned = [task for share in shares.values() for task in share.active]
        assert sorted(owned) == TASKS
        loads = [share.load for share in shares.values()]
        assert max(loads) - min(loads) <= 1
        for each in members:
            assert frozenset(shares[each.name].active) == each.owned
        if len(names) > 1:
            copies = [task for share in shares.values() for task in share.standby]
            assert sorted(copies) == TASKS


def settle(members: list[Member], positions: dict[TaskId, int]) -> list[Member]:
    """Rounds of joining; copies and owners are caught up by the next one."""
    for generation in range(5, 25):
        shares = assign(TASKS, members, 1)
        members = [
            Member(
                each.name,
                each.tasks,
                frozenset(shares[each.name].active),
                generation,
                {
                    task: positions[task]
                    if task in (*shares[each.name].active, *shares[each.name].standby)
                    else each.copies[task]
                    for task in TASKS
                },
            )
            for each in members
        ]
    return members
