"""A marker is written once: a late copy of it is told from the marker of the next transaction."""

from __future__ import annotations

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.markers import REMEMBERED_MS, Markers, Stamp

TERM, COORDINATOR, PRODUCER = 4, 7, 1001


def stamp(number: int, leader_epoch: int = TERM, coordinator_epoch: int = COORDINATOR) -> Stamp:
    return Stamp(leader_epoch, coordinator_epoch, number)


@pytest.fixture
def markers() -> Markers:
    """Number 5 is written."""
    markers = Markers(TERM)
    assert not markers.is_late(PRODUCER, stamp(5))
    markers.wrote(PRODUCER, stamp(5), 0)
    return markers


def test_what_is_here_or_came_before_it_is_late(markers: Markers) -> None:
    assert markers.is_late(PRODUCER, stamp(5)), "the same once more"
    assert markers.is_late(PRODUCER, stamp(3)), "one of an earlier transaction"
    assert not markers.is_late(PRODUCER, stamp(8)), "that of the next one"


def test_what_was_only_looked_at_is_not_here(markers: Markers) -> None:
    """The log may refuse it: then it must be possible to send it again."""
    assert not markers.is_late(PRODUCER, stamp(8))
    assert not markers.is_late(PRODUCER, stamp(8))


def test_each_producer_has_its_own_last_number(markers: Markers) -> None:
    assert not markers.is_late(PRODUCER + 1, stamp(3))


def test_numbers_of_different_coordinators_are_not_compared(markers: Markers) -> None:
    """A new one starts to count anew; a deposed one is for the log to fence, not to be thanked."""
    assert not markers.is_late(PRODUCER, stamp(1, coordinator_epoch=COORDINATOR + 1))
    assert not markers.is_late(PRODUCER, stamp(1, coordinator_epoch=COORDINATOR - 1))


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(TERM - 1, KafkaError.FENCED_LEADER_EPOCH), (TERM + 1, KafkaError.UNKNOWN_LEADER_EPOCH)],
)
def test_what_was_sent_to_another_term_is_refused(
    markers: Markers, leader_epoch: int, error: KafkaError
) -> None:
    """Also what is here already: this leader cannot know, and the coordinator asks again."""
    for number in (5, 8):
        with pytest.raises(Refused) as refused:
            markers.is_late(PRODUCER, stamp(number, leader_epoch))
        assert refused.value.error == error


def test_producers_are_forgotten_a_day_after_their_last_marker(markers: Markers) -> None:
    markers.wrote(PRODUCER + 1, stamp(6), 1)
    markers.wrote(PRODUCER, stamp(7), 2)
    markers.wrote(PRODUCER + 2, stamp(8), REMEMBERED_MS + 1)
    assert not markers.is_late(PRODUCER + 1, stamp(6)), "it is a day ago"
    assert markers.is_late(PRODUCER, stamp(7)), "not yet"
    markers.check()
