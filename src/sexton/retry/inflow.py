"""What the consumer has polled, on its way into rounds: each message once, in order, none left out.

Messages may have been polled before a seek, for a partition that was taken away, or for one that is
not ready; all of these come again and are left out here. What was polled ahead of its round waits.

A seek may not be the last word. If librdkafka is waiting to be told where the log begins or ends,
it takes the answer for outdated, asks again, and goes there after all (its issue 2256). From the
end, what lies between would never be seen, and nobody could tell: so it is never told to begin
there. From the beginning, all comes again; it is left out here, and sought once more.

It also goes there if a log was cut: an unclean election has made a leader of somebody who does not
have all of it. Then it does so after the next seek as well, and what is written from now on lies in
front of what was taken: to leave that out would be to lose it. So who goes back a second time is
started up again, and a start tells if the log ends too soon. By then it may have grown, and all of
it seem to go on: that a leader is new is seen by its messages (`epochs`), and it is asked.

A partition that is resumed is fetched again when librdkafka's thread for its broker next looks at
it. If nothing else happens, it sleeps for a second first: to resume a partition does not wake it.
A question to that broker does, so one is asked whenever something was resumed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from sexton.base.errors import PeerError
from sexton.retry.owned import Owned
from sexton.retry.rounds import Running

log = logging.getLogger("sexton.retry")
FATAL = frozenset({KafkaError._FATAL, KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.FENCED_INSTANCE_ID})  # fmt: skip

WAKE_S = 0.1  # for the answer that nobody needs: the question has done its work by then


class Inflow:
    def __init__(
        self,
        consumer: Consumer,
        owned: Mapping[int, Owned],
        most: int,
        denied: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._denied = denied  # raises, if an ACL is missing
        self._consumer = consumer
        self._owned = owned
        self._most = most
        self._ahead: list[Any] = []
        self._resumed: list[Owned] = []  # and not woken yet
        self._changes = 0  # how often the group has changed its mind

    # ── which partitions ──

    def pause(self, owned: Iterable[Owned]) -> None:
        self._consumer.pause([_at(each) for each in owned])

    def resume(self, owned: Iterable[Owned]) -> None:
        resumed = list(owned)
        self._consumer.resume([_at(each) for each in resumed])
        self._resumed += resumed

    def _wake(self) -> None:
        places = [_at(each, OFFSET_END) for each in self._resumed if not each.gone]
        self._resumed.clear()
        try:
            if places:
                self._consumer.offsets_for_times(places, WAKE_S)
        except KafkaException:
            pass  # then it wakes up by itself

    # ── in ──

    def poll_ahead(self) -> None:
        """What has come meanwhile is kept for the next round."""
        if not self._ahead:
            found = self._poll(0.0)
            self._ahead += found  # behind what a callback of the group has put back meanwhile

    def keep(self, message: Any) -> None:
        """One that was on its way when its partition was paused, or an error."""
        if message is not None:
            self._ahead.append(message)

    def put_back(self, running: Running) -> None:
        """What was polled and not begun, since a round was cut short, comes first in the next."""
        left: list[Any] = []
        for owned, task, calm in running.calm:
            rest = calm.messages[calm.done + (calm.failed is not None) :]
            if rest and owned.task is task:
                owned.taken = rest[0].offset()
                left += rest
        self._ahead = left + self._ahead

    def forget(self, partitions: set[int], *, moved: bool) -> None:
        """All of theirs comes again, or is no longer for us; `moved`: the group has said so."""
        self._changes += moved
        self._ahead = [
            each
            for each in self._ahead
            if each.error() is not None or each.partition() not in partitions
        ]

    # ── out ──

    def take(self, timeout_s: float) -> dict[int, list[Any]]:
        """By partition: what there is, or the next that comes."""
        polled, self._ahead = self._ahead or self._poll(timeout_s), []
        errors = [error for message in polled if (error := message.error()) is not None]
        if errors:
            for error in errors:
                self._denied(error.code())
                _trouble(error)
            polled = [message for message in polled if message.error() is None]
        new = {at: self._new(at, messages) for at, messages in _by_partition(polled).items()}
        return {at: messages for at, messages in new.items() if messages}

    def _new(self, partition: int, messages: list[Any]) -> list[Any]:
        """Those that are for us, and were not taken before."""
        owned = self._owned.get(partition)
        if owned is None or owned.task is None:
            return []
        first, last = messages[0].offset(), messages[-1].offset()
        if first < owned.taken or last - first < len(messages) - 1:  # it went back, or does here
            messages = _rising(messages, owned.taken)
            if not messages and owned.is_sought_again:
                owned.in_doubt = "went back"
            elif not messages:
                self._seek_again(owned)
        if messages:
            owned.take(messages)
        return messages

    def _seek_again(self, owned: Owned) -> None:
        """Once in a start."""
        owned.is_sought_again = True
        try:
            self._consumer.seek(_at(owned, owned.taken))
        except KafkaException:
            pass  # then all of it is read, and left out

    def _poll(self, timeout_s: float) -> list[Any]:
        if self._resumed:
            self._wake()
        most, changes = self._most, self._changes
        found: Sequence[Any] = self._consumer.consume(most, 0)
        if not found and timeout_s > 0:
            one = self._consumer.poll(timeout_s)
            if one is not None:
                found = [one, *self._consumer.consume(most - 1, 0)] if most > 1 else [one]
        if changes == self._changes:
            return list(found)
        # A partition came or went meanwhile: what was polled of one that starts comes again.
        return [each for each in found if each.error() is not None or self._is_ready(each)]

    def _is_ready(self, message: Any) -> bool:
        owned = self._owned.get(message.partition())
        return owned is not None and owned.task is not None


def _by_partition(polled: list[Any]) -> dict[int, list[Any]]:
    partitions = [message.partition() for message in polled]
    if partitions and partitions.count(partitions[0]) == len(partitions):
        return {partitions[0]: polled}  # as a rule, when there is much to do
    found: dict[int, list[Any]] = {}
    for partition, some in groupby(zip(partitions, polled, strict=True), itemgetter(0)):
        found.setdefault(partition, []).extend(message for _, message in some)
    return found


def _rising(messages: list[Any], start: int) -> list[Any]:
    """From an offset on, each after the one before it."""
    found: list[Any] = []
    for each in messages:
        if each.offset() >= start:
            found.append(each)
            start = each.offset() + 1
    return found


def _at(owned: Owned, offset: int = OFFSET_INVALID) -> TopicPartition:
    return TopicPartition(owned.name.topic, owned.partition, offset)


def _trouble(error: KafkaError) -> None:
    if error.fatal() or error.code() in FATAL:
        raise PeerError("the consumer group", error.str())
    log.warning("polling: %s", error.str(), extra={"why": error.str()})
