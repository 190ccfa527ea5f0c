"""Records into the producer's queue; and if one of them is an output that will not be taken, whose?

    put_records   what we write ourselves; waits where the queue is full
    put_outputs   what handlers sent; raises RefusedOutputs for one that librdkafka refuses itself
    Refusing      hears from brokers which outputs they did not take
    Topics        looks for the topics that handlers send to, before the first record of each

librdkafka waits for a topic that does not exist longer than we wait for it, with all that is sent
beside it. Hence the look: one question for each topic, and again after something has failed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient  # type: ignore[attr-defined]

from sexton.retry.messages import Output
from sexton.retry.records_out import OnDelivery, Part, Record
from sexton.retry.refusals import Refusal, What

ROOM_S = 0.05  # until there is room in the producer's queue again
MADE_S = 2.0  # a broker that creates topics by itself has done so by then
LOOK_AGAIN_S = 0.05
REFUSED: Final[dict[int, What]] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "too large",
    KafkaError.RECORD_LIST_TOO_LARGE: "too large",
    KafkaError.INVALID_RECORD: "this one",
    KafkaError._UNKNOWN_PARTITION: "this one",
    KafkaError._UNKNOWN_TOPIC: "the topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic",
    KafkaError.TOPIC_EXCEPTION: "the topic",  # its name is none
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the topic",
}


class RefusedOutputs(Exception):
    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{refusals[0].topic}: {refusals[0].why}")
        self.refusals = refusals


class Refusing:
    """What deliveries say of records that were not delivered."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.code = 0  # of the first of them
        self.found: list[Refusal] = []

    def failed(self, error: Any, message: Any) -> None:
        """Of any record."""
        del message
        if error is not None:
            self.code = self.code or error.code()
            self.errors.append(str(error))

    def output(self, partition: int, output: Output) -> OnDelivery:
        return partial(self._of_output, partition, output)

    def _of_output(self, partition: int, output: Output, error: Any, message: Any) -> None:
        self.failed(error, message)
        if error is not None and error.code() in REFUSED:
            self.found.append(_refusal(partition, output, error))


def put_records(
    producer: Producer, records: Iterable[Record], on_delivery: OnDelivery | None = None
) -> None:
    """`on_delivery` hears of each record that names nobody else."""
    produce = producer.produce
    for topic, value, key, partition, headers, heard in records:
        told = heard or on_delivery
        more: dict[str, Any] = {}
        try:
            if told is not None:
                more = {"on_delivery": told}
            if headers is not None:
                more["headers"] = headers
            if more:
                produce(topic, value, key, partition, **more)
            else:
                produce(topic, value, key, partition)
        except BufferError:
            _put_when_there_is_room(producer, topic, value, key, partition, **more)


def put_outputs(producer: Producer, part: Part, refusing: Refusing | None) -> None:
    """As many as there are messages, so it is done with little ado."""
    of, produce = part.name.partition, producer.produce
    for output in part.outputs:
        topic, value, key, partition, headers, _ = output
        more: dict[str, Any] | None = None
        try:
            try:
                if headers or refusing is not None:
                    more = _more(of, output, refusing)
                    produce(topic, value, key, partition, **more)
                else:
                    produce(topic, value, key, partition)
            except BufferError:
                _put_when_there_is_room(producer, topic, value, key, partition, **(more or {}))
        except KafkaException as error:  # at whichever of the two
            if error.args[0].code() not in REFUSED:
                raise
            raise RefusedOutputs([_refusal(of, output, error.args[0])]) from error


def _put_when_there_is_room(producer: Producer, *record: Any, **more: Any) -> None:
    while True:
        producer.poll(ROOM_S)
        try:
            producer.produce(*record, **more)
            return
        except BufferError:
            continue


def _more(of: int, output: Output, refusing: Refusing | None) -> dict[str, Any]:
    more: dict[str, Any] = {"headers": list(output[4])} if output[4] else {}
    if refusing is not None:
        more["on_delivery"] = refusing.output(of, output)
    return more


def _refusal(partition: int, output: Output, error: KafkaError) -> Refusal:
    return Refusal(partition, output[-1], output[0], REFUSED[error.code()], error.str())


class Topics:
    """Those that handlers send to."""

    def __init__(self, settings: Mapping[str, Any], timeout_s: float) -> None:
        self._settings = {k: v for k, v in settings.items() if not k.startswith("transaction")}
        self._timeout_s = timeout_s
        self._known: set[str] = set()
        self._missed: set[str] = set()  # these were waited for once

    def check(self, producer: Producer, parts: Sequence[Part]) -> None:
        """Or RefusedOutputs."""
        if {output[0] for part in parts for output in part.outputs} <= self._known:
            return
        outputs, refusals = _one_of_each(parts), []
        for topic in outputs.keys() - self._known:
            try:
                error = self._trouble(producer, topic)
            except KafkaException:
                continue  # nobody has answered: the write will tell, and the next one looks again
            if error is None:
                self._known.add(topic)
            elif error.code() in REFUSED:
                refusals.append(_refusal(*outputs[topic], error))
        if refusals:
            raise RefusedOutputs(refusals)

    def forget(self) -> None:
        """What was there may be gone."""
        self._known.clear()

    def not_ours(self, parts: Iterable[Part]) -> list[Refusal]:
        """A transaction was not authorized, but not which of its topics: brokers say (KIP-430)."""
        outputs, found = _one_of_each(parts), []
        admin = AdminClient(self._settings)  # if it went away, so would its answers
        answers = admin.describe_topics(
            TopicCollection(sorted(outputs)),
            include_authorized_operations=True,
            request_timeout=self._timeout_s,
        )
        for topic, answer in answers.items():
            try:
                may = answer.result().authorized_operations
            except KafkaException as error:
                may = [] if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else None
            if may is not None and AclOperation.WRITE not in may:
                partition, output = outputs[topic]
                refusal = Refusal(partition, output[-1], topic, "the topic", "not authorized")
                found.append(refusal)
        return found

    def _trouble(self, producer: Producer, topic: str) -> KafkaError | None:
        """None: the topic is there. An error that is not in REFUSED passes by itself."""
        end = time.monotonic() + (0.0 if topic in self._missed else MADE_S)
        while True:
            topics = producer.list_topics(topic, self._timeout_s).topics
            found: KafkaError | None = topics[topic].error
            if found is None or found.code() not in REFUSED:
                return found
            if time.monotonic() > end:
                self._missed.add(topic)
                return found
            time.sleep(LOOK_AGAIN_S)


def _one_of_each(parts: Iterable[Part]) -> dict[str, tuple[int, Output]]:
    """By topic: an output to it, and the partition of its message."""
    return {output[0]: (part.name.partition, output) for part in parts for output in part.outputs}
