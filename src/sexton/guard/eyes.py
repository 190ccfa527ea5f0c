"""What the guard sees of a cluster, and what it changes there.

During an outage a broker may take connections and answer nothing, or answer with what it knew
before it lost its controller. So every question goes to another broker when one does not answer,
and each round begins with another broker than the last: a topic counts as well only after a while
in which all of them said so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.admin import Moving, moving
from sexton.client.config_changes import (
    DescribedOptions,
    OptionValue,
    alter_topics,
    describe_topics,
)
from sexton.client.retrying import PASSING
from sexton.client.roving import RovingClient
from sexton.client.topology import PartitionPlace, Topology
from sexton.machines.guard_events import ATTEMPTS, Alter, Altered, Described, Options, Seen
from sexton.machines.guard_health import PartitionSight, TopicSight
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Lags

T = TypeVar("T")

CLEANUP_POLICY, DELETE_RETENTION = "cleanup.policy", "delete.retention.ms"
NAMES = (MIN_LAG, MAX_LAG, CLEANUP_POLICY, DELETE_RETENTION)
ALTERS_AT_ONCE = 500
_NOT_ALLOWED = (KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.UNSUPPORTED_VERSION)


class Eyes:
    def __init__(self, client: RovingClient, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._now_ms = now_ms
        self._round = 0
        self.cluster_id: str | None = None
        self.sees_moves = True  # False: nobody lets us list reassignments

    async def see(self) -> Seen:
        """A look at the whole cluster; an error if no broker answers."""
        self._round += 1  # two rounds in a row never begin with the same broker, if there are two
        self._client.begin_with(self._round)
        topology = await self._elsewhere(self._client.topology)
        by, self.cluster_id = self._client.last_asked, topology.cluster_id
        moves = {each.partition: each for each in await self._moves()}
        return Seen(self._now_ms(), frozenset(topology.brokers), _sights(topology, moves), by)

    async def _moves(self) -> list[Moving]:
        try:
            found = await self._elsewhere(lambda: moving(self._client))
        except Refused as error:
            if error.error not in _NOT_ALLOWED:
                raise
            self.sees_moves = False  # what is being added is out of the ISR: mostly that is enough
            return []
        self.sees_moves = True
        return found

    async def describe(self, topics: Iterable[str], *, elsewhere: int = 0) -> Described:
        """The options of these topics; `elsewhere`: so many brokers after this round's first."""
        wanted = list(topics)
        self._client.begin_with(self._round + elsewhere)
        described = await self._elsewhere(lambda: describe_topics(self._client, wanted, NAMES))
        options, failed = all_options(described)
        return Described(self._now_ms(), options, failed, self._client.last_asked)

    async def alter(self, changes: Sequence[Alter]) -> list[Altered]:
        """Makes these changes, many in one request; each outcome as it comes to be known."""
        outcomes: list[Altered] = []
        for at in range(0, len(changes), ALTERS_AT_ONCE):
            outcomes += await self._alter_some(changes[at : at + ALTERS_AT_ONCE])
        return outcomes

    async def _alter_some(self, changes: Sequence[Alter]) -> list[Altered]:
        outcomes: list[Altered] = []
        for _ in range(ATTEMPTS):
            due = [each for each in changes if self._now_ms() <= each.not_after_ms]
            if not due:
                break
            wanted = {each.topic: each.values for each in due}
            try:
                answers = await alter_topics(self._client, wanted)
            except (PeerError, Refused) as error:
                # It may have been heard: whoever clears the topic's notes has to wait for it.
                why = f"{error.subject}: {error.why}"
                outcomes += [Altered(self._now_ms(), t, "unknown", why) for t in wanted]
                self._client.look_elsewhere()
                continue
            return [*outcomes, *(self._outcome(t, why) for t, why in answers.items())]
        return outcomes

    def _outcome(self, topic: str, why: str | None) -> Altered:
        if why is None:
            return Altered(self._now_ms(), topic, "done")
        passes = any(why.startswith(error.name) for error in PASSING)
        return Altered(self._now_ms(), topic, "unknown" if passes else "refused", why)

    async def _elsewhere(self, ask: Callable[[], Awaitable[T]]) -> T:
        last: SextonError | None = None
        for _ in range(ATTEMPTS):
            try:
                return await ask()
            except PeerError as error:
                last = error
            except Refused as error:
                if error.error not in PASSING:
                    raise
                last = error
            self._client.look_elsewhere()
        assert last is not None
        raise last


def all_options(described: DescribedOptions) -> tuple[dict[str, Options], dict[str, str]]:
    """Those of each topic; and of which they could not be had, with the reason."""
    options = {}
    failed = {topic: error.why for topic, error in described.failed.items()}
    for topic, values in described.found.items():
        try:
            options[topic] = _options(values)
        except (KeyError, ValueError, TypeError):
            failed[topic] = f"the answer lacks one of {', '.join(NAMES)}"
    return options, failed


def _options(values: dict[str, OptionValue]) -> Options:
    shortest, longest = values[MIN_LAG], values[MAX_LAG]
    return Options(
        Lags(shortest.own, longest.own),
        int(shortest.value or 0),
        int(longest.value or FOREVER),
        (values[CLEANUP_POLICY].value or "").replace(" ", ""),
        int(values[DELETE_RETENTION].value or 0),
    )


def _sights(topology: Topology, moves: dict[TopicPartition, Moving]) -> dict[str, TopicSight]:
    return {
        name: TopicSight(
            name,
            topic.topic_id.hex(),
            tuple(_sight(place, moves.get(place.partition)) for place in topic.partitions.values()),
        )
        for name, topic in topology.topics.items()
        if topic.partitions
    }


def _sight(place: PartitionPlace, move: Moving | None) -> PartitionSight:
    return PartitionSight(
        place.partition.partition,
        place.leader,
        place.leader_epoch,
        place.replicas,
        place.isr,
        place.offline,
        () if move is None else move.adding,
        () if move is None else move.removing,
    )
