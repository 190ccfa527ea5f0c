"""librdkafka's transactions, of the first protocol version: commit, abort, fence, expire."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.clients.librdkafka import (
    PATIENCE_S,
    consuming,
    everything,
    make_consumer,
    make_producer,
    take,
    transactional,
    values,
)

# If both come in one poll, confluent-kafka raises a fatal error while it calls `on_delivery`; then
# Python says that the callback has returned with an exception set.
FENCED = (KafkaException, SystemError)


def send(producer: Producer, topic: str, *words: str) -> None:
    """Sends, and waits until the broker has them."""
    failed: list[KafkaError] = []

    def done(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for word in words:
        producer.produce(topic, word, partition=0, on_delivery=done)
    assert producer.flush(PATIENCE_S) == 0
    if failed:
        raise KafkaException(failed[0])


def test_only_committed_records_are_read(cluster: EmbeddedCluster, topic: str) -> None:
    producer = transactional(cluster, topic)
    for word, commit in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        send(producer, topic, word)
        if commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    assert values(everything(cluster, topic)) == ["a", "c"]
    assert values(everything(cluster, topic, "read_uncommitted")) == ["a", "b", "c"]
    # Each transaction takes an offset more, for its marker.
    assert [m.offset() for m in everything(cluster, topic)] == [0, 4]


def test_an_open_transaction_holds_back_whoever_reads_committed(
    cluster: EmbeddedCluster, topic: str
) -> None:
    producer = transactional(cluster, topic)
    producer.begin_transaction()
    send(producer, topic, "open")
    send(make_producer(cluster), topic, "behind it")
    assert values(everything(cluster, topic)) == []
    assert values(everything(cluster, topic, "read_uncommitted")) == ["open", "behind it"]
    producer.commit_transaction(PATIENCE_S)
    assert values(everything(cluster, topic)) == ["open", "behind it"]


def test_a_transaction_spans_partitions_and_topics(cluster: EmbeddedCluster, topic: str) -> None:
    cluster.create_topic(f"{topic}-other", 3)
    producer = transactional(cluster, topic)
    for commit in (False, True):
        producer.begin_transaction()
        for name, partitions in ((topic, 2), (f"{topic}-other", 3)):
            for partition in range(partitions):
                producer.produce(name, str(commit), partition=partition)
        if commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    assert values(everything(cluster, topic)) == ["True"] * 2
    assert values(everything(cluster, f"{topic}-other")) == ["True"] * 3


def test_a_topic_comes_to_be_in_a_transaction(cluster: EmbeddedCluster, topic: str) -> None:
    """Its leader knows of it, or the producer does, before the coordinator may."""
    producer = transactional(cluster, topic)
    for number in range(10):
        producer.begin_transaction()
        send(producer, topic, str(number))
        send(producer, f"{topic}-{number}", str(number))
        producer.commit_transaction(PATIENCE_S)
        assert values(everything(cluster, f"{topic}-{number}")) == [str(number)]


def test_a_second_producer_of_the_same_name_fences_the_first(
    cluster: EmbeddedCluster, topic: str
) -> None:
    zombie = transactional(cluster, topic)
    zombie.begin_transaction()
    send(zombie, topic, "of the zombie")
    heir = transactional(cluster, topic)  # aborts what the zombie began
    heir.begin_transaction()
    send(heir, topic, "of the heir")
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(PATIENCE_S)
    error = raised.value.args[0]
    assert error.code() == KafkaError._FENCED, error
    assert error.fatal()
    heir.commit_transaction(PATIENCE_S)
    assert values(everything(cluster, topic)) == ["of the heir"]


def test_a_fenced_producer_cannot_write(cluster: EmbeddedCluster, topic: str) -> None:
    zombie = transactional(cluster, topic)
    zombie.begin_transaction()
    send(zombie, topic, "first")
    transactional(cluster, topic)
    with pytest.raises(FENCED):
        send(zombie, topic, "late")
    assert values(everything(cluster, topic, "read_uncommitted")) == ["first"]


def test_a_transaction_that_takes_too_long_is_aborted(cluster: EmbeddedCluster, topic: str) -> None:
    producer = transactional(cluster, topic, transaction_timeout_ms=1000)
    producer.begin_transaction()
    send(producer, topic, "slow")
    send(make_producer(cluster), topic, "behind it")
    until(lambda: values(everything(cluster, topic)) == ["behind it"], "the coordinator aborts", 30)
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction(PATIENCE_S)
    assert raised.value.args[0].code() in (
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    )


def test_consume_process_produce_does_each_record_once(
    cluster: EmbeddedCluster, topic: str
) -> None:
    """Every third transaction is aborted and done again; offsets go with the records."""
    into = f"{topic}-into"
    cluster.create_topic(into, 1)
    send(make_producer(cluster), topic, *map(str, range(30)))
    producer = transactional(cluster, topic)
    round_number = 0
    done = 0
    while done < 30:
        round_number += 1
        with consuming(cluster, topic, topic, isolation_level="read_committed") as consumer:
            batch = take(consumer, 5)[:5]
            producer.begin_transaction()
            for message in batch:
                producer.produce(into, message.value(), partition=0)
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, done + len(batch))],
                consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
            if round_number % 3 == 0:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
                done += len(batch)
    assert values(everything(cluster, into)) == [str(number) for number in range(30)]
    assert round_number == 8
    consumer = make_consumer(cluster, topic)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)
    assert committed.offset == 30
    consumer.close()


def test_offsets_of_an_open_transaction_are_not_there_yet(
    cluster: EmbeddedCluster, topic: str
) -> None:
    send(make_producer(cluster), topic, "a", "b")
    producer = transactional(cluster, topic)
    with consuming(cluster, topic, topic) as consumer:
        take(consumer, 2)

        def committed() -> int:
            # librdkafka asks with `require stable` only for read_committed, its default.
            reader = make_consumer(cluster, topic, isolation_level="read_uncommitted")
            (found,) = reader.committed([TopicPartition(topic, 0)], PATIENCE_S)
            reader.close()
            return int(found.offset)

        for commit, expected in ((False, -1001), (True, 2)):
            producer.begin_transaction()
            send(producer, topic, "c")
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, 2)], consumer.consumer_group_metadata(), PATIENCE_S
            )
            assert committed() == -1001
            if commit:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
            assert committed() == expected


def test_a_failed_member_cannot_commit_offsets_in_a_transaction(
    cluster: EmbeddedCluster, topic: str
) -> None:
    """The group has moved on: TxnOffsetCommit names a generation that is over."""
    producer = transactional(cluster, topic)
    send(make_producer(cluster), topic, "a")
    with consuming(cluster, topic, topic) as old:
        take(old, 1)
        metadata = old.consumer_group_metadata()
    with consuming(cluster, topic, topic) as new:
        take(new, 1)
        producer.begin_transaction()
        with pytest.raises(KafkaException) as raised:
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, 1)], metadata, PATIENCE_S
            )
        error = raised.value.args[0]
        assert error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
        assert error.txn_requires_abort()
        producer.abort_transaction(PATIENCE_S)
