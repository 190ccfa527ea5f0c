"""Which replicas are missing, and which are not to be trusted when they are back?"""

from __future__ import annotations

from sexton.machines.guard_health import (
    AWAY,
    LEADER_CHANGED,
    UNKNOWN,
    Health,
    Moment,
    PartitionSight,
    TopicSight,
)
from sexton.machines.guard_notes import Doubt

ALL = frozenset({1, 2, 3})
DAY_MS = 86_400_000


def sight(
    isr: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2, 3),
    **more: tuple[int, ...],
) -> TopicSight:
    return TopicSight("t", "id", (PartitionSight(0, leader, epoch, replicas, isr, **more),))


def second(number: int) -> Moment:
    """Another broker is asked each second: two of them, and what they say alike is known."""
    return Moment(number * 1_000, (number - 1) * 1_000, max(number - 2, 0) * 1_000)


def health_after(*sights: TopicSight, brokers: frozenset[int] = ALL) -> Health:
    health = Health("id")
    for number, each in enumerate(sights, 1):
        health.see(each, brokers, second(number))
    return health


def test_all_in_sync_is_well() -> None:
    assert health_after(sight()).reasons() == ()


def test_every_kind_of_absence_is_a_reason() -> None:
    for bad in (
        sight(isr=(1, 2)),
        sight(offline=(3,)),
        sight(isr=(1, 2), offline=(3,)),
        sight(replicas=(1, 2, 3, 4), adding=(4,)),
        sight(removing=(2,)),
        sight(leader=-1),
    ):
        assert health_after(bad).reasons(), bad


def test_an_old_view_is_passed_over() -> None:
    health = health_after(sight(isr=(1, 2), epoch=5), sight(epoch=4))
    assert health.reasons()


def test_a_replica_that_left_while_somebody_looked_is_trusted_within_the_budget() -> None:
    health = health_after(sight(), sight(), sight(isr=(1, 2)))
    assert health.doubts(1_000 + DAY_MS - 1, DAY_MS) == ()
    assert health.doubts(1_000 + DAY_MS, DAY_MS) == (Doubt(0, 3, AWAY),)


def test_a_replica_that_nobody_ever_saw_in_sync_is_not() -> None:
    health = health_after(sight(isr=(1, 2)))
    assert health.doubts(10, DAY_MS) == (Doubt(0, 3, UNKNOWN),)
    assert health.doubts(10, DAY_MS, safe_until_ms=5) == ()  # it was frozen until then


def test_a_replica_that_is_back_is_trusted_if_nothing_was_removed_meanwhile() -> None:
    health = health_after(sight(isr=(1, 2)), sight(), sight())
    assert health.doubts(10 * DAY_MS, DAY_MS) == ()
    elected_since = health_after(sight(isr=(1, 2)), sight(epoch=1))
    assert elected_since.doubts(10 * DAY_MS, DAY_MS) == (), "no older view can say so"


def test_one_view_in_which_a_replica_is_back_may_be_an_old_one() -> None:
    """Of a broker that has not heard that it left: then it has been away since the first look."""
    away, old = sight(isr=(1, 2)), sight()
    health = health_after(away, old, away, old, away)
    assert health.doubts(10, DAY_MS) == (Doubt(0, 3, UNKNOWN),)
    seen = health_after(old, old, away, old, away)
    assert seen.doubts(1_000 + DAY_MS, DAY_MS) == (Doubt(0, 3, AWAY),)
    assert seen.doubts(1_000 + DAY_MS - 1, DAY_MS) == ()


def test_the_first_view_of_all_may_be_an_old_one() -> None:
    health = health_after(sight(), sight(isr=(1, 2)))
    assert health.doubts(10, DAY_MS) == (Doubt(0, 3, UNKNOWN),)


def test_an_old_view_hides_no_leader_that_changes_while_a_replica_is_filled() -> None:
    filled, then = sight(isr=(1, 2)), sight(isr=(1, 2), leader=2, epoch=1)
    assert health_after(filled, sight(), then).moves() == (Doubt(0, 3, LEADER_CHANGED),)
    added = sight(isr=(1, 2, 3), replicas=(1, 2, 3, 4), adding=(4,))
    then = sight(leader=2, epoch=1, replicas=(1, 2, 3, 4), adding=(4,))
    health = health_after(added, sight(), then, brokers=ALL | {4})
    assert health.moves() == (Doubt(0, 4, LEADER_CHANGED),)
    health.see(sight(leader=2, epoch=1), ALL, second(4))
    assert health.moves() == (Doubt(0, 4, LEADER_CHANGED),), "this one may be an old view as well"
    health.see(sight(leader=2, epoch=1), ALL, second(5))
    assert health.moves() == (), "it is not assigned any more, both say"


def test_a_leader_that_changes_while_a_replica_is_filled_puts_it_in_doubt() -> None:
    health = health_after(sight(isr=(1, 2)), sight(isr=(1, 2), leader=2, epoch=1))
    assert health.moves() == (Doubt(0, 3, LEADER_CHANGED),)
    health.see(sight(leader=2, epoch=2), ALL, second(3))
    assert health.moves() == (Doubt(0, 3, LEADER_CHANGED),), "it stays in doubt when it is back"


def test_a_leader_that_is_back_two_terms_later_may_have_had_another_in_between() -> None:
    first = sight(isr=(1, 2), epoch=5)
    assert health_after(first, sight(isr=(1, 2), epoch=7)).moves() == (Doubt(0, 3, LEADER_CHANGED),)
    assert health_after(first, sight(isr=(1, 2), epoch=6)).moves() == (), "a reassignment, say"


def test_who_is_down_is_not_being_filled_and_who_leads_is_full() -> None:
    down = health_after(
        sight(isr=(1, 2)), sight(isr=(1, 2), leader=2, epoch=1), brokers=frozenset({1, 2})
    )
    assert down.moves() == ()
    leads = health_after(sight(isr=(1, 2)), sight(leader=3, epoch=1))
    assert leads.moves() == ()
    left = health_after(sight(leader=3), sight(isr=(1, 2), leader=1, epoch=1))
    assert left.moves() == ()


def test_a_replica_that_was_rebuilt_is_trusted_again() -> None:
    health = health_after(
        sight(isr=(1, 2)),
        sight(isr=(1, 2), leader=2, epoch=1),
        sight(isr=(1, 2), leader=2, epoch=2, replicas=(1, 2)),
    )
    assert health.moves() == ()
    assert not health.holds(Doubt(0, 3, LEADER_CHANGED))
