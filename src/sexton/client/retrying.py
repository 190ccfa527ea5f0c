"""Which failures pass by themselves, and how long do we wait for that?

A leader moves, a broker starts again, a coordinator is still reading its log: whoever asks once
more is answered. Such an error is met with a pause, twice as long each time, until the patience is
used up; then it is raised as it came. Every success gives the patience back, so a read of hours is
not ended by many short troubles. Any other error is raised at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError

T = TypeVar("T")

PASSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,  # not heard of yet; see `Trying.pause`
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)
_NOT_THERE = (
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID,  # another one of its name
)

# Metadata reaches every broker that is up within much less: what all say for so long is so.
NEWS_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Patience:
    """Kafka's names for these: default.api.timeout.ms, retry.backoff.ms, retry.backoff.max.ms."""

    timeout_ms: int = 60_000
    backoff_ms: int = 100
    most_backoff_ms: int = 1_000
    # A topic that every answer calls unknown, or another one, for this long has been deleted.
    unknown_topic_ms: int = 5_000


PATIENT = Patience()


class Trying:
    """One thing that is tried until it works."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures = 0
        self._since_s: float | None = None  # when the first failure in a row came
        self._unknown_s: float | None = None  # since when each answer calls the topic unknown

    def works(self) -> None:
        self._failures, self._since_s, self._unknown_s = 0, None, None

    async def pause(self, error: SextonError) -> None:
        """Waits a little if the error may pass, else raises it."""
        if isinstance(error, Refused):
            if error.error not in PASSING and error.error not in _NOT_THERE:
                raise error
        elif not isinstance(error, PeerError):
            raise error
        now_s = asyncio.get_running_loop().time()
        if self._since_s is None:
            self._since_s = now_s
        if self._is_deleted(error, now_s):
            raise error
        if (now_s - self._since_s) * 1000 >= self._patience.timeout_ms:
            raise error
        doubled = self._patience.backoff_ms * 2 ** min(self._failures, 16)
        pause_ms = min(doubled, self._patience.most_backoff_ms)
        self._failures += 1
        # Many readers that lost the same broker need not come back at the same moment.
        await asyncio.sleep(pause_ms * random.uniform(0.8, 1.2) / 1000)

    def _is_deleted(self, error: SextonError, now_s: float) -> bool:
        """Counted from the first answer that says so: silence before it is no proof."""
        if not isinstance(error, Refused):
            return False  # nor is silence between two of them a sign that it is there
        if error.error not in _NOT_THERE:
            self._unknown_s = None
            return False
        if self._unknown_s is None:
            self._unknown_s = now_s
        return (now_s - self._unknown_s) * 1000 >= self._patience.unknown_topic_ms


async def until_it_works(ask: Callable[[], Awaitable[T]], patience: Patience = PATIENT) -> T:
    """The answer, however often it takes; raises what does not pass, or did not in time."""
    trying = Trying(patience)
    while True:
        try:
            return await ask()
        except (PeerError, Refused) as error:
            await trying.pause(error)
