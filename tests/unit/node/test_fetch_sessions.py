"""Fetch sessions, as a consumer and as a follower see them."""

from __future__ import annotations

import uuid

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.node.broker import Broker
from sexton.node.fetch_sessions import IDLE_MS
from sexton.node.fetcher import session_id
from sexton.node.outside import CONTROLLER, Answer, Asked, Effect, Event, Left
from sexton.node.replica import Leading
from sexton.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from sexton.sim.clients import Sequence, batch_of, produce_request
from tests.unit.node.small_cluster import SmallCluster

VERSION = 12
TOPIC = "t"
LEADER = 1


@pytest.fixture
def cluster() -> SmallCluster:
    """One broker, and a topic of three partitions, each with one record."""
    cluster = SmallCluster(1)
    create = admin.CreateTopic(None, TOPIC, uuid.UUID(int=7).hex, 3, 1)
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    for number in range(3):
        write(cluster, number)
    return cluster


def write(cluster: SmallCluster, number: int) -> None:
    batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
    request = produce_request(TopicPartition(TOPIC, number), batch, None)
    assert cluster.ask(request, 9).responses[0].partition_responses[0].error_code == 0


def fetch(
    cluster: SmallCluster,
    session: int,
    epoch: int,
    asked: dict[int, int],
    forgotten: tuple[int, ...] = (),
    max_bytes: int = 1 << 20,
) -> FetchResponse:
    """`asked`: the offset for each partition that is named."""
    partitions = [
        FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        for number, offset in asked.items()
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_id=session, session_epoch=epoch,
    )  # fmt: skip
    if partitions:
        request.topics = [FetchTopic(TOPIC, partitions=partitions)]
    if forgotten:
        request.forgotten_topics_data = [ForgottenTopic(TOPIC, partitions=list(forgotten))]
    return cluster.ask(request, VERSION)


def shown(response: FetchResponse) -> dict[int, int]:
    """How many bytes of records each partition in the answer has."""
    assert response.error_code == 0
    return {
        data.partition_index: len(data.records or b"")
        for topic in response.responses
        for data in topic.partitions
    }


@pytest.mark.parametrize("epoch", [0, -1], ids=["session", "no session"])
def test_who_has_gone_is_not_waited_for(cluster: SmallCluster, epoch: int) -> None:
    broker = cluster.broker(LEADER)
    replica = broker.replicas.by_partition[TopicPartition(TOPIC, 0)]
    watched = len(replica.watchers)
    asked = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, session_epoch=epoch)
    request.topics = [FetchTopic(TOPIC, partitions=[asked])]

    def hear(event: Event) -> list[Effect]:
        return broker.handle(event, cluster.world.now_ms, cluster.world.now_ms)

    for goes in (False, True):  # who stays is answered
        hear(Asked("somebody", request, VERSION))
        hear(Left("somebody else"))
        assert len(broker._fetch._parked) == 1
        if goes:
            hear(Left("somebody"))
            assert not broker._fetch._parked
            if epoch < 0:
                assert len(replica.watchers) == watched
        batch = batch_of([(b"k", b"v")], Sequence(), cluster.world.now_ms)
        written = produce_request(TopicPartition(TOPIC, 0), batch, None)
        answers = [e.caller for e in hear(Asked("writer", written, 9)) if isinstance(e, Answer)]
        assert ("somebody" in answers) == (not goes)
        asked.fetch_offset += 1
    assert not broker._fetch._parked and not broker._fetch._numbers


def test_a_session_answers_only_what_has_changed(cluster: SmallCluster) -> None:
    first = fetch(cluster, 0, 0, {0: 0, 1: 0, 2: 0})
    assert set(shown(first)) == {0, 1, 2} and all(shown(first).values())
    session = first.session_id
    assert session > 0
    assert shown(fetch(cluster, session, 1, {0: 1, 1: 1, 2: 1})) == {}
    write(cluster, 1)
    again = shown(fetch(cluster, session, 2, {}))
    assert set(again) == {1} and again[1] > 0


def test_what_was_not_taken_is_sent_again(cluster: SmallCluster) -> None:
    session = fetch(cluster, 0, 0, {0: 1, 1: 0}).session_id
    assert set(shown(fetch(cluster, session, 1, {}))) == {1}, "its offset is still 0"
    assert shown(fetch(cluster, session, 2, {1: 1})) == {}


def test_who_had_no_room_comes_next(cluster: SmallCluster) -> None:
    first = fetch(cluster, 0, 0, {0: 0, 1: 0, 2: 0}, max_bytes=1)
    assert [number for number, size in shown(first).items() if size] == [0]
    second = fetch(cluster, first.session_id, 1, {0: 1}, max_bytes=1)
    assert [number for number, size in shown(second).items() if size] == [1]
    third = fetch(cluster, first.session_id, 2, {1: 1}, max_bytes=1)
    assert [number for number, size in shown(third).items() if size] == [2]


def test_a_forgotten_partition_is_not_answered_any_more(cluster: SmallCluster) -> None:
    session = fetch(cluster, 0, 0, {0: 1, 1: 1}).session_id
    fetch(cluster, session, 1, {}, forgotten=(1,))
    write(cluster, 0)
    write(cluster, 1)
    assert set(shown(fetch(cluster, session, 2, {}))) == {0}


def test_a_session_that_is_not_known_or_out_of_step_is_refused(cluster: SmallCluster) -> None:
    unknown = fetch(cluster, 99, 1, {0: 0})
    assert unknown.error_code == KafkaError.FETCH_SESSION_ID_NOT_FOUND
    session = fetch(cluster, 0, 0, {0: 0}).session_id
    late = fetch(cluster, session, 2, {})
    assert late.error_code == KafkaError.INVALID_FETCH_SESSION_EPOCH
    assert set(shown(fetch(cluster, session, 1, {}))) == {0}, "it goes on where it was"


def test_the_last_epoch_ends_a_session(cluster: SmallCluster) -> None:
    session = fetch(cluster, 0, 0, {0: 0}).session_id
    last = fetch(cluster, session, -1, {0: 1})
    assert last.session_id == 0 and set(shown(last)) == {0}
    gone = fetch(cluster, session, 1, {})
    assert gone.error_code == KafkaError.FETCH_SESSION_ID_NOT_FOUND


def test_an_ended_session_leaves_nothing_behind(cluster: SmallCluster) -> None:
    replica = cluster.broker(LEADER).replicas.by_partition[TopicPartition(TOPIC, 0)]
    session = fetch(cluster, 0, 0, {0: 0}).session_id
    assert len(replica.watchers) == 1
    fetch(cluster, session, -1, {0: 0})
    assert not replica.watchers


def test_when_there_are_too_many_sessions_everything_is_answered_without() -> None:
    cluster = SmallCluster(1, max_incremental_fetch_session_cache_slots=1)
    create = admin.CreateTopic(None, TOPIC, uuid.UUID(int=7).hex, 1, 1)
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    write(cluster, 0)
    assert fetch(cluster, 0, 0, {0: 0}).session_id > 0
    crowded = fetch(cluster, 0, 0, {0: 0})
    assert crowded.session_id == 0 and shown(crowded)[0] > 0
    cluster.wait(200_000)
    assert fetch(cluster, 0, 0, {0: 0}).session_id > 0, "the first was idle for long enough"


def test_followers_name_only_what_has_changed() -> None:
    """A hundred partitions, one of which is written to: one partition is named."""
    cluster = SmallCluster(3)
    create = admin.CreateTopic(None, TOPIC, uuid.UUID(int=7).hex, -1, -1, ((1, 2, 3),) * 100)
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    named: list[int] = []
    leader = cluster.broker(LEADER)
    watch_fetches(leader, named)
    write(cluster, 42)
    cluster.wait(2_000)
    for node in (2, 3):
        replica = cluster.broker(node).replicas.by_partition[TopicPartition(TOPIC, 42)]
        assert replica.log.high_watermark == 1
    assert sum(named) == 2, "each follower has named the partition once"


def watch_fetches(broker: Broker, named: list[int]) -> None:
    handle = broker._handlers[FetchRequest]

    def watched(caller: object, request: FetchRequest, version: int) -> None:
        named.append(sum(len(topic.partitions) for topic in request.topics))
        handle(caller, request, version)

    broker._handlers[FetchRequest] = watched


def led_by_the_first(slots: int) -> SmallCluster:
    """Three brokers with a topic of one partition."""
    cluster = SmallCluster(3, max_incremental_fetch_session_cache_slots=slots)
    create = admin.CreateTopic(None, TOPIC, uuid.UUID(int=7).hex, -1, -1, ((1, 2, 3),))
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    write(cluster, 0)
    return cluster


def test_a_consumer_makes_room_for_a_follower() -> None:
    cluster = led_by_the_first(slots=2)
    for node in (2, 3):
        cluster.kill(node)
    cluster.wait(IDLE_MS)
    for _ in range(2):
        assert fetch(cluster, 0, 0, {0: 0}).session_id > 0
    for node in (2, 3):
        cluster.world.start(node)
    cluster.wait(30_000)
    sessions = cluster.broker(LEADER)._fetch.sessions
    assert sorted(s.follower for s in sessions._by_id.values()) == [2, 3]
    assert fetch(cluster, 0, 0, {0: 0}).session_id == 0, "nobody makes room for a consumer"


def test_a_follower_without_a_session_waits_for_records() -> None:
    cluster = led_by_the_first(slots=0)
    named: list[int] = []
    watch_fetches(cluster.broker(LEADER), named)
    cluster.wait(10_000)
    assert 0 < len(named) <= 2 * 10_000 / 500, "each asks when replica.fetch.wait.max.ms is over"
    began_ms = cluster.world.now_ms
    write(cluster, 0)
    assert cluster.world.now_ms - began_ms < 500, "the ISR has it as soon as it is there"


@pytest.mark.parametrize("follower", [2, -1], ids=["follower", "consumer"])
def test_who_names_a_partition_is_told_of_it_though_an_earlier_answer_was(follower: int) -> None:
    """A follower passes over what earlier answers say of partitions that it has named since."""
    cluster = SmallCluster(2)
    create = admin.CreateTopic(None, TOPIC, uuid.UUID(int=7).hex, assignment=((1, 2), (1, 2)))
    cluster.world.send(-101, CONTROLLER, create, lambda _: None, 1_000, 0)
    cluster.wait(5_000)
    for number in range(2):
        write(cluster, number)
    cluster.wait(1_000)
    leader = cluster.broker(LEADER)
    watched = leader.replicas.get(TopicPartition(TOPIC, 0))
    assert isinstance(watched.role, Leading) and watched.role.compaction is not None
    accepted = session_id(watched.role.compaction.reports[2].session)

    def told(caller: str, epoch: int, asked: int, session: int) -> dict[object, FetchResponse]:
        """Who is answered, and what, when this request comes."""
        partition = FetchPartition(
            partition=asked, fetch_offset=1, partition_max_bytes=1 << 20,
            replica_directory_id=accepted,
        )  # fmt: skip
        request = FetchRequest(
            replica_id=follower, max_wait_ms=60_000 if epoch else 0, min_bytes=1,
            max_bytes=1 << 20, session_id=session, session_epoch=epoch,
            topics=[FetchTopic(TOPIC, partitions=[partition])],
        )  # fmt: skip
        effects = leader.handle(
            Asked(caller, request, VERSION), cluster.world.now_ms, cluster.world.now_ms
        )
        return {
            each.caller: each.response
            for each in effects
            if isinstance(each, Answer) and isinstance(each.response, FetchResponse)
        }

    session = told("first", 0, 0, 0)["first"].session_id
    assert told("waits", 1, 1, session) == {}
    wanted = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 1)])
    deletes = Asked("deletes", DeleteRecordsRequest([wanted], 1_000), 2)
    leader.handle(deletes, cluster.world.now_ms, cluster.world.now_ms)
    assert watched.log.log_start_offset == 1
    answers = told("overtakes", 2, 0, session)
    assert 0 in shown(answers["waits"])  # of its new start
    answers |= told("next", 3, 1, session)
    assert (0 in shown(answers["overtakes"])) == (follower == 2)
