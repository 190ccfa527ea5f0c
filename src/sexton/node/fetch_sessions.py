"""Fetch sessions (KIP-227): a client that fetches the same partitions again names them once.

    epoch 0      all partitions, whole; a session begins, and its answer says under which id
    epoch 1, 2…  only what has changed: partitions with another offset, new ones, forgotten ones
    epoch -1     no session: everything is named, everything is answered

A session also knows which of its partitions may have something new. Whatever happens to a replica
marks it in every session that watches it, so that an answer costs what has changed and not what is
being watched. A fetch without a session is a session that ends with its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.node.outside import Caller
from sexton.node.replica import Replica
from sexton.node.site import Site
from sexton.protocol.messages.fetch import FetchPartition, FetchRequest

NO_SESSION = 0
FULL, FINAL = 0, -1  # epochs
MOST_EPOCH = 0x7FFFFFFF
IDLE_MS = 120_000  # a session that was not used for so long may make room for another


class Key(NamedTuple):
    """A partition as it was asked for: by name, or from version 13 on by id."""

    topic: str
    topic_id: bytes
    partition: int


@dataclass(slots=True, eq=False)
class Watched:
    """One partition of a session."""

    key: Key
    asked: FetchPartition
    replica: Replica | None = None  # whose news reach the session
    told: tuple[int, int, int] | None = None  # high watermark, last stable offset, log start


@dataclass(slots=True, eq=False)
class Parked:
    """A request that waits for more to come."""

    caller: Caller
    request: FetchRequest
    number: int


@dataclass(slots=True, eq=False)
class FetchSession:
    number: int  # of this broker's own; the id is the one that clients know
    id: int = NO_SESSION
    epoch: int = FULL  # of the last request
    follower: int = -1  # a broker, or a consumer
    version: int = 0  # of its requests
    partitions: dict[Key, Watched] = field(default_factory=dict)
    fresh: dict[Key, None] = field(default_factory=dict)  # may have something new, oldest first
    parked: Parked | None = None
    used_ms: int = 0
    touched_ms: int = 0  # when the progress of all its partitions was last noted
    stirred: Callable[[FetchSession], None] = lambda _session: None

    @property
    def is_whole(self) -> bool:
        """Is everything answered, whether it has changed or not?"""
        return self.id == NO_SESSION or self.epoch == FULL

    def update(self, request: FetchRequest) -> None:
        """Takes over what a request says of partitions."""
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self._forget(Key(topic.topic, topic.topic_id, number))
        for key, asked in asked_in(request):
            watched = self.partitions.get(key)
            if watched is None:
                self.partitions[key] = Watched(key, asked)
            else:
                watched.asked = asked
                if self.follower >= 0:
                    # It passes over what is said of this partition in answers to earlier requests,
                    # which may be on their way: the answer to this one says it again.
                    watched.told = None
            self.fresh[key] = None

    def watch(self, watched: Watched, replica: Replica | None) -> None:
        """Hears from now on of whatever happens to this replica."""
        if watched.replica is replica:
            return
        if watched.replica is not None:
            watched.replica.watchers.pop((self.number, watched.key), None)
        watched.replica = replica
        if replica is not None:
            key = watched.key

            def news() -> None:
                self.fresh[key] = None
                if self.parked is not None:
                    self.stirred(self)

            replica.watchers[self.number, key] = news

    def _forget(self, key: Key) -> None:
        watched = self.partitions.pop(key, None)
        self.fresh.pop(key, None)
        if watched is not None:
            self.watch(watched, None)

    def close(self) -> None:
        for watched in self.partitions.values():
            self.watch(watched, None)


def asked_in(request: FetchRequest) -> Iterator[tuple[Key, FetchPartition]]:
    for topic in request.topics:
        for asked in topic.partitions:
            yield Key(topic.topic, topic.topic_id, asked.partition), asked


class FetchSessions:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._by_id: dict[int, FetchSession] = {}  # the one used longest ago first
        self._count = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, request: FetchRequest, follower: int) -> FetchSession:
        """The session that a request belongs to, perhaps a new one; else Refused."""
        if request.session_epoch in (FULL, FINAL):
            self._end(request.session_id)
            return self._begin(request, follower)
        session = self._by_id.get(request.session_id)
        if session is None:
            why = f"there is no fetch session {request.session_id}"
            raise Refused(KafkaError.FETCH_SESSION_ID_NOT_FOUND, why)
        expected = session.epoch + 1 if session.epoch < MOST_EPOCH else 1
        if request.session_epoch != expected:
            why = f"epoch {request.session_epoch} of a fetch session, expected is {expected}"
            raise Refused(KafkaError.INVALID_FETCH_SESSION_EPOCH, why)
        session.epoch = expected
        self._use(session)
        return session

    def _begin(self, request: FetchRequest, follower: int) -> FetchSession:
        self._count += 1
        session = FetchSession(self._count, follower=follower)
        if request.session_epoch == FULL and request.topics and self._make_room(follower):
            while session.id in self._by_id or session.id == NO_SESSION:
                session.id = self._site.random.randrange(1, MOST_EPOCH)
            self._use(session)
        return session

    def _use(self, session: FetchSession) -> None:
        session.used_ms = self._site.clock_ms
        self._by_id.pop(session.id, None)
        self._by_id[session.id] = session

    def _make_room(self, follower: int) -> bool:
        """Is there room for one more? A follower's earlier session is not used any more."""
        if follower >= 0:
            for session in [s for s in self._by_id.values() if s.follower == follower]:
                self._end(session.id)
        most = self._site.config.max_incremental_fetch_session_cache_slots
        if len(self._by_id) < most:
            return True
        dispensable = self._dispensable(follower)
        if dispensable is not None:
            self._end(dispensable.id)
        return dispensable is not None

    def _dispensable(self, follower: int) -> FetchSession | None:
        """One that is idle; or that of a consumer, for a follower: they go first, as in Kafka."""
        oldest = next(iter(self._by_id.values()), None)
        if oldest is not None and self._site.clock_ms - oldest.used_ms >= IDLE_MS:
            return oldest
        if follower < 0:
            return None
        return next((s for s in self._by_id.values() if s.follower < 0), None)

    def _end(self, session_id: int) -> None:
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.id = NO_SESSION
            if session.parked is None:
                session.close()  # else its answer does
