"""Does our transaction coordinator do what Apache Kafka's does?

Both are asked the same: hundreds of requests by good clients, zombies and strangers, in both
protocols. They must give the same answers, come to the same states, and have the same records in
their logs in the end. Kafka is asked first, so that ours can be given the producer ids that Kafka
chose; and after each request we wait until Kafka has written its markers, as ours has at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.log.names import CLEAN_SHUTDOWN
from sexton.machines import transaction_log
from sexton.machines.transaction_entries import TransactionConfig
from sexton.machines.transaction_messages import (
    AddPartitions,
    AddPartitionsAnswer,
    Answer,
    AnyAnswer,
    Append,
    Appended,
    Describe,
    DescribeAnswer,
    EndTransaction,
    EndTransactionAnswer,
    Event,
    InitProducerId,
    InitProducerIdAnswer,
    List,
    Load,
    MarkersWritten,
    NeedProducerId,
    ProducerIdGranted,
    Request,
    SendMarkers,
    VerifyPartitions,
    VerifyPartitionsAnswer,
    WakeAt,
)
from sexton.machines.transaction_states import TV1, TV2, Status, Tombstone, TransactionRecord
from sexton.machines.transactions import Coordinator
from sexton.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from sexton.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from sexton.records import decode
from sexton.testing.apache_kafka import ApacheKafka
from sexton.testing.waiting import until
from tests.handmade import batch, record, split
from tests.kafka_connection import TRANSACTION, Connection

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

STEPS = 400
SEED = 1
TOPIC = "coordinated"
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(3))
IDS = ("left", "right", "worn")
PREPARED = ("PrepareCommit", "PrepareAbort")
WORN = TransactionRecord(  # a record that we put into Kafka's log: its epochs will run out soon
    transactional_id="worn",
    producer_id=1 << 40,
    producer_epoch=32762,
    timeout_ms=600_000,
    status=Status.COMPLETE_COMMIT,
    partitions=(),
    last_update_ms=0,  # set when it is written
    start_ms=0,
    previous_producer_id=1 << 40,
    version=TV2,
)


class Theirs(Connection):
    """A broker, by its own protocol."""

    def is_ready_for(self, name: str) -> bool:
        if not self.has_coordinator(name, TRANSACTION):
            return False
        found = self._describe(name).error
        return found in (KafkaError.NONE, KafkaError.TRANSACTIONAL_ID_NOT_FOUND)

    def ask_when_loaded(self, event: Request) -> AnyAnswer:
        """Again while the broker has no producer ids yet; nothing has happened then."""
        answers: list[AnyAnswer] = []

        def loaded() -> bool:
            answers.append(self.ask(event))
            error = getattr(answers[-1], "error", None)
            return error is not KafkaError.COORDINATOR_LOAD_IN_PROGRESS

        until(loaded, "Kafka's producer ids")
        return answers[-1]

    def ask(self, event: Request) -> AnyAnswer:
        match event:
            case InitProducerId(_, name, timeout_ms, producer_id, epoch):
                init = InitProducerIdRequest(name, timeout_ms, producer_id, epoch)
                got = self.send(init, 5, InitProducerIdResponse)
                error = KafkaError(got.error_code)
                return InitProducerIdAnswer(error, got.producer_id, got.producer_epoch)
            case EndTransaction(_, name, producer_id, epoch, commit, version):
                end = EndTxnRequest(name, producer_id, epoch, commit)
                ended = self.send(end, 5 if version >= TV2 else 4, EndTxnResponse)
                error = KafkaError(ended.error_code)
                return EndTransactionAnswer(error, ended.producer_id, ended.producer_epoch)
            case AddPartitions(version=version) if version < TV2:
                return self._add_as_client(event)
            case AddPartitions():
                errors = self._add_as_broker(event, verify=False)
                assert len(set(errors.values())) == 1
                return AddPartitionsAnswer(next(iter(errors.values())))
            case VerifyPartitions(partitions=partitions):
                errors = self._add_as_broker(event, verify=True)
                return VerifyPartitionsAnswer(tuple((p, errors[p]) for p in partitions))
            case Describe(_, name):
                return self._describe(name)
            case _:
                raise NotImplementedError(event)

    def _add_as_client(self, event: AddPartitions) -> AddPartitionsAnswer:
        topics = [AddPartitionsToTxnTopic(TOPIC, [p.partition for p in event.partitions])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=event.transactional_id,
            v3_and_below_producer_id=event.producer_id,
            v3_and_below_producer_epoch=event.epoch,
            v3_and_below_topics=topics,
        )
        response = self.send(request, 3, AddPartitionsToTxnResponse)
        results = response.results_by_topic_v3_and_below[0].results_by_partition
        (code,) = {result.partition_error_code for result in results}
        return AddPartitionsAnswer(KafkaError(code))

    def _add_as_broker(
        self, event: AddPartitions | VerifyPartitions, verify: bool
    ) -> dict[TopicPartition, KafkaError]:
        topics = [AddPartitionsToTxnTopic(TOPIC, [p.partition for p in event.partitions])]
        transaction = AddPartitionsToTxnTransaction(
            event.transactional_id, event.producer_id, event.epoch, verify, topics
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        response = self.send(request, 5, AddPartitionsToTxnResponse)
        assert response.error_code == 0
        results = response.results_by_transaction[0].topic_results[0].results_by_partition
        return {
            TopicPartition(TOPIC, result.partition_index): KafkaError(result.partition_error_code)
            for result in results
        }

    def _describe(self, name: str) -> DescribeAnswer:
        request = DescribeTransactionsRequest([name])
        found = self.send(request, 0, DescribeTransactionsResponse).transaction_states[0]
        return DescribeAnswer(
            error=KafkaError(found.error_code),
            transactional_id=name,
            state=found.transaction_state,
            timeout_ms=found.transaction_timeout_ms,
            producer_id=found.producer_id if not found.error_code else -1,
            epoch=found.producer_epoch if not found.error_code else -1,
            partitions=tuple(
                sorted(TopicPartition(t.topic, n) for t in found.topics for n in t.partitions)
            ),
        )


class Ours:
    """A coordinator in a world in which everything happens at once."""

    def __init__(self, version: int, log: list[TransactionRecord]) -> None:
        self.coordinator = Coordinator(TransactionConfig(transaction_version=version))
        self.log: list[TransactionRecord | Tombstone] = list(log)
        self.coordinator.handle(Load(list(log), 0), 0)

    def ask(self, event: Request, next_producer_id: Callable[[], int]) -> AnyAnswer:
        answers: list[AnyAnswer] = []
        waiting: list[Event] = [event]
        while waiting:
            for effect in self.coordinator.handle(waiting.pop(), 0):
                match effect:
                    case Answer(_, answer):
                        answers.append(answer)
                    case NeedProducerId(token):
                        waiting.append(ProducerIdGranted(token, next_producer_id()))
                    case Append(token, appended):
                        self.log.append(appended)
                        waiting.append(Appended(token))
                    case SendMarkers(token, partitions=partitions):
                        waiting += [MarkersWritten(token, partition) for partition in partitions]
                    case WakeAt():
                        pass
            self.coordinator.check()
        (only,) = answers
        return only

    def describe(self, name: str) -> DescribeAnswer:
        answer = self.ask(Describe("", name), lambda: -1)
        assert isinstance(answer, DescribeAnswer)
        partitions = tuple(sorted(answer.partitions))
        return replace(answer, start_ms=-1, partitions=partitions)


class Walk:
    """What clients do: mostly what makes sense, with the last producer that they know."""

    def __init__(self, random: Random, cluster: int) -> None:
        self.random = random
        # Not both for one id: after TV1, ours knows a zombie from a retry of TV2, and Kafka's not.
        self.versions = dict.fromkeys(IDS, TV2 if cluster >= TV2 else TV1)
        self.versions["right"] = TV1
        self.known: dict[str, list[tuple[int, int]]] = {name: [] for name in IDS}
        self.heard: list[tuple[AnyAnswer, KafkaError | None]] = []
        self.asked: list[str] = []

    def next(self) -> Request:
        random = self.random
        name = random.choice(IDS)
        known = self.known[name]
        if not known or random.random() < 0.12:
            named = known and random.random() < 0.6
            producer = self.producer(name) if named else (-1, -1)
            return InitProducerId("", name, random.choice([600_000, 700_000]), *producer)
        version = self.versions[name]
        partitions = tuple(random.sample(PARTITIONS, random.randint(1, 3)))
        kind = random.choice(["add", "add", "verify", "commit", "abort"])
        if kind == "add":
            return AddPartitions("", name, *self.producer(name), partitions, version)
        if kind == "verify":
            return VerifyPartitions("", name, *self.producer(name), partitions)
        return EndTransaction("", name, *self.producer(name), kind == "commit", version)

    def producer(self, name: str) -> tuple[int, int]:
        """The last, the one before, another's, or one epoch off."""
        known, random = self.known[name], self.random
        chance = random.random()
        if chance < 0.7:
            return known[-1]
        if chance < 0.85:
            return known[-min(2, len(known))]
        if chance < 0.9:
            return random.choice([p for producers in self.known.values() for p in producers])
        producer_id, epoch = known[-1]
        return producer_id, min(max(epoch + random.choice([-2, -1, 1]), 0), 32767)

    def learn(self, name: str, answer: AnyAnswer) -> None:
        self.heard.append((answer, getattr(answer, "error", None)))
        match answer:
            case InitProducerIdAnswer(KafkaError.NONE, producer_id, epoch) | EndTransactionAnswer(
                KafkaError.NONE, producer_id, epoch
            ) if producer_id >= 0:
                self.known[name].append((producer_id, epoch))


@pytest.fixture(scope="module", params=["kafka4", "kafka39"])
def worn_kafka(request: pytest.FixtureRequest) -> Iterator[ApacheKafka]:
    """A broker in whose log we have put a producer that has few epochs left."""
    kafka: ApacheKafka = request.getfixturevalue(request.param)
    kafka.admin.create_topic(TOPIC, len(PARTITIONS))
    await_coordinator(kafka, "anybody")
    kafka.stop(1)
    put_into_log(kafka, replace(WORN, version=transaction_version(kafka)))
    kafka.start(1)
    await_coordinator(kafka, "worn")
    yield kafka
    kafka.admin.delete_topic(TOPIC)


def transaction_version(kafka: ApacheKafka) -> int:
    return TV2 if kafka.jars.version.startswith("4.") else 0


def await_coordinator(kafka: ApacheKafka, name: str) -> None:
    with Theirs(kafka.bootstrap) as theirs:
        until(lambda: theirs.is_ready_for(name), "a transaction coordinator")


def put_into_log(kafka: ApacheKafka, worn: TransactionRecord) -> None:
    root = kafka.data_directory()
    (root / CLEAN_SHUTDOWN).unlink(missing_ok=True)  # so that Kafka looks at what is there
    segment = max((root / "__transaction_state-0").glob("*.log"))
    data = segment.read_bytes()
    headers = [header for header, _ in split(data)]
    now_ms = int(time.time() * 1000)
    key, value = transaction_log.to_bytes(
        replace(worn, last_update_ms=now_ms), transaction_version(kafka)
    )
    appended = batch(
        record(key=key, value=value),
        base_offset=headers[-1].next_offset if headers else int(segment.stem),
        partition_leader_epoch=headers[-1].partition_leader_epoch if headers else 0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
    )
    segment.write_bytes(data + appended)


def test_the_same_requests_get_the_same_answers(worn_kafka: ApacheKafka) -> None:
    version = transaction_version(worn_kafka)
    before = len(records_of(worn_kafka))
    ours = Ours(version, [replace(WORN, version=version)])
    walk = Walk(Random(SEED), version)
    walk.known["worn"].append((WORN.producer_id, WORN.producer_epoch))
    with Theirs(worn_kafka.bootstrap) as theirs:
        for _ in range(STEPS):
            compare(theirs, ours, walk)
    worn_kafka.stop(1)
    written = [_timeless(found) for found in records_of(worn_kafka)[before:]]
    assert written == [_timeless(_stored(found, version)) for found in ours.log[1:]]
    worn_kafka.start(1)
    assert len({(type(answer), error) for answer, error in walk.heard}) >= 10
    assert any(found.producer_id != WORN.producer_id for found in history(ours, "worn"))


def compare(theirs: Theirs, ours: Ours, walk: Walk) -> None:
    """One request; both must answer it alike, and come to the same state."""
    request = walk.next()
    assert not isinstance(request, List)
    name = request.transactional_id
    answer = theirs.ask_when_loaded(request)
    if getattr(answer, "error", None) is KafkaError.UNKNOWN_SERVER_ERROR:
        # Kafka's "Cannot allocate any more producer epochs": a zombie that names itself to a
        # producer at its last epoch. Nothing has happened; ours tells it that it is fenced.
        assert isinstance(request, InitProducerId)
        return
    walk.asked.append(f"{request}\n  {answer}")
    story = "\n".join(line for line in walk.asked if f"'{name}'" in line)
    assert ours.ask(request, partial(chosen_by, theirs, name, answer)) == answer, story
    wanted = ours.describe(name)
    until(
        lambda: theirs.ask(Describe("", name)) == wanted,
        "the same state",
        explain=lambda: f"{story}\nours {wanted}\ntheirs {theirs.ask(Describe('', name))}",
    )
    walk.learn(name, answer)


def history(ours: Ours, name: str) -> list[TransactionRecord]:
    records = [found for found in ours.log if isinstance(found, TransactionRecord)]
    return [found for found in records if found.transactional_id == name]


def chosen_by(theirs: Theirs, name: str, answer: AnyAnswer) -> int:
    """The producer id that Kafka has taken; it does not tell those that it fenced."""
    told = getattr(answer, "producer_id", -1)
    if told >= 0:
        return int(told)

    def complete() -> DescribeAnswer | None:
        found = theirs.ask(Describe("", name))
        assert isinstance(found, DescribeAnswer)
        return None if found.state in PREPARED else found

    taken = until(complete, "Kafka's markers").producer_id
    assert taken >= 0, f"ours wants a producer id, but Kafka said {answer} about {name}"
    return taken


def _stored(record: TransactionRecord | Tombstone, version: int) -> TransactionRecord | Tombstone:
    """What is left of it in the log of a cluster of that version."""
    read = transaction_log.from_bytes(*transaction_log.to_bytes(record, version), "ours")
    assert read is not None
    return read


def _timeless(record: TransactionRecord | Tombstone) -> TransactionRecord | Tombstone:
    if isinstance(record, Tombstone):
        return record
    started = min(record.start_ms, 0)
    partitions = tuple(sorted(record.partitions))
    return replace(record, last_update_ms=0, start_ms=started, partitions=partitions)


def records_of(kafka: ApacheKafka) -> list[TransactionRecord | Tombstone]:
    found = []
    for segment in sorted((kafka.data_directory() / "__transaction_state-0").glob("*.log")):
        for row in decode(segment.read_bytes()).records():
            read = transaction_log.from_bytes(row.key, row.value, segment.name)
            assert read is not None
            found.append(read)
    return found
