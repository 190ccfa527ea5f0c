"""What an error says where nobody prints its parts one by one."""

from __future__ import annotations

import pytest

from sexton.base.errors import (
    ConfigError,
    CorruptLog,
    Missing,
    PeerError,
    Refused,
    SextonError,
)
from sexton.base.kafka_errors import KafkaError


@pytest.mark.parametrize("kind", [SextonError, CorruptLog, PeerError, ConfigError, Missing])
def test_the_text_of_an_error_ends_with_its_remedy(kind: type[SextonError]) -> None:
    assert str(kind("ina", "there is no such topic", "make it")) == (
        "ina: there is no such topic (make it)"
    )


def test_a_refusal_tells_its_remedy_too() -> None:
    error = Refused(KafkaError.INVALID_CONFIG, "no such option", "leave it out")
    assert str(error) == "INVALID_CONFIG: no such option (leave it out)"


def test_people_are_told_of_the_thing_before_the_code() -> None:
    error = Refused(KafkaError.LEADER_NOT_AVAILABLE, "nobody leads orders-0", "wait")
    assert error.told == "nobody leads orders-0 (LEADER_NOT_AVAILABLE)"
    assert PeerError("broker 1", "hung up").told == "broker 1: hung up"


def test_without_a_remedy_it_says_what_and_why() -> None:
    error = PeerError("broker 1", "hung up")
    assert str(error) == "broker 1: hung up"
    assert (error.subject, error.why) == ("broker 1", "hung up")
