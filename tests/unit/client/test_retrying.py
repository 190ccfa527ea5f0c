"""Which errors are waited for, and until when?"""

from __future__ import annotations

import asyncio

import pytest

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.retrying import Patience, Trying

AWAY = PeerError("broker 1", "is away")
UNKNOWN = Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic t")
NOBODY_LEADS = Refused(KafkaError.LEADER_NOT_AVAILABLE, "nobody leads t-0")
PATIENCE = Patience(timeout_ms=60_000, backoff_ms=10, most_backoff_ms=10, unknown_topic_ms=25)


def waits(*errors: SextonError) -> int:
    """How many of them were waited for before one was raised, all if none was."""

    async def run() -> int:
        trying = Trying(PATIENCE)
        for number, error in enumerate(errors):
            try:
                await trying.pause(error)
            except SextonError:
                return number
        return len(errors)

    return asyncio.run(run())


@pytest.mark.parametrize("before", [AWAY, NOBODY_LEADS])
def test_a_broker_that_comes_back_and_has_not_heard_of_the_topic_is_waited_for(
    before: SextonError,
) -> None:
    """The outage was longer than a deleted topic is waited for: that says nothing of the topic."""
    assert waits(*[before] * 5, UNKNOWN) == 6


@pytest.mark.parametrize("between", [UNKNOWN, AWAY])
def test_a_topic_that_each_answer_calls_unknown_was_deleted(between: SextonError) -> None:
    assert waits(*[UNKNOWN, between] * 5) < 6
