"""Everything that rounds write, through one producer, in a thread of its own.

    submit(parts) ──▶ begin, produce, offsets with the group's generation, commit ──▶ Receipt
                                         └──▶ CommitFailed: aborted, fenced or unknown

A transaction is open only while it is written, not while handlers run: what handlers send is kept
until they are done. So a process that is stopped inside a handler holds nobody up.

Who we are in the group is asked by the thread that polls, and given along: while it polls, and in
the group's callbacks too, confluent-kafka keeps every other thread from asking the consumer.

Whatever goes wrong, the producer is given up and another one with the same transactional id takes
its place: to initialise it ends the transaction that may still be open, so that whoever starts up
again finds out how it ended. librdkafka may also never come back from a call: it waits for a group
coordinator that has left the metadata, and does not look at the time (its issues 5511 and 5456).
Then the thread is left behind with its producer, which the new one has fenced.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_task import Ended
from sexton.retry.membership import Membership
from sexton.retry.messages import Output
from sexton.retry.records_out import NOT_A_RETRY, Out, Part
from sexton.retry.topics import Names

log = logging.getLogger("sexton.retry")
ROOM_S = 0.05  # until there is room in the producer's queue again
FENCED = frozenset(
    {
        KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH,
    }
)  # fmt: skip

Receipt = dict[int, dict[int, int]]  # by partition: where retry records are, by id


class CommitFailed(Exception):
    """Nothing that was in it may be believed."""

    def __init__(self, how: Ended, why: str) -> None:
        super().__init__(f"{how}: {why}")
        self.how: Ended = how
        self.why = why


class Writer(Protocol):
    def open(self) -> None: ...
    def write(self, parts: Sequence[Part], member: Membership) -> Receipt: ...


@dataclass(frozen=True, slots=True)
class Limits:
    call_s: float = 10.0  # one call to brokers
    commit_s: float = 30.0  # all of it; then the thread is left behind


# ── with transactions ──


class TransactionalWriter:
    def __init__(self, settings: Mapping[str, Any], names: Names, limits: Limits) -> None:
        self._settings = dict(settings)
        self._names = names
        self._limits = limits
        self._producer: Producer | None = None

    def open(self) -> None:
        """Ends whatever the same transactional id had open."""
        producer = Producer(self._settings)
        _patiently(lambda s: producer.init_transactions(s), self._limits)
        self._producer = producer

    def write(self, parts: Sequence[Part], member: Membership) -> Receipt:
        if not member.counts:
            raise CommitFailed("fenced", "the group has no such member at the moment")
        if self._producer is None:
            try:
                self.open()
            except KafkaException as error:
                raise CommitFailed(_how(error), _why(error)) from error
        producer = self._producer
        assert producer is not None
        try:
            return self._transaction(producer, parts, member)
        except KafkaException as error:
            raise self._give_up(producer, error) from error
        except BaseException:
            self._producer = None
            raise

    def _transaction(
        self, producer: Producer, parts: Sequence[Part], member: Membership
    ) -> Receipt:
        names = self._names
        receipt: Receipt = {}
        producer.begin_transaction()
        for part in parts:
            offsets = receipt.setdefault(part.name.partition, {})
            _produce_outputs(producer, part.outputs)
            for stage in (part.first, part.second, part.third):
                _produce(producer, stage(names), offsets)
        offsets_of = [part.offset for part in parts]
        producer.send_offsets_to_transaction(offsets_of, member.metadata, self._limits.call_s)
        if any(part.commit.redirected for part in parts):
            producer.flush(self._limits.call_s)  # tells where retry records are
        _patiently(lambda s: producer.commit_transaction(s), self._limits)
        return receipt

    def _give_up(self, producer: Producer, error: KafkaException) -> CommitFailed:
        """Aborts, or if that is not to be had leaves it to the next producer's initialisation."""
        self._producer = None
        told = error.args[0]
        if told.txn_requires_abort() and not told.fatal():
            try:
                producer.abort_transaction(self._limits.call_s)
            except KafkaException as other:
                log.warning("abort failed", extra={"why": _why(other)})
            else:
                self._producer = producer
        if self._producer is None:
            _leave(producer)
            try:
                self.open()
            except KafkaException as other:
                log.warning("no new producer yet", extra={"why": _why(other)})
        return CommitFailed(_how(error), _why(error))


# ── without ──


class CompensatingWriter:
    """Each stage acknowledged before the next; whatever fails is done again from the offset.

    The offsets are the last one. The consumer commits them itself (`commit_offsets`), in the thread
    that it belongs to.
    """

    def __init__(self, settings: Mapping[str, Any], names: Names, limits: Limits) -> None:
        self._settings = dict(settings)
        self._names = names
        self._limits = limits
        self._producer: Producer | None = None

    def open(self) -> None:
        self._producer = Producer(self._settings)

    def write(self, parts: Sequence[Part], member: Membership) -> Receipt:
        if not member.counts:
            raise CommitFailed("fenced", "the group has no such member at the moment")
        if self._producer is None:
            self.open()
        producer = self._producer
        assert producer is not None
        receipt: Receipt = {part.name.partition: {} for part in parts}
        failed: list[str] = []
        try:
            for stage in ("first", "second", "third"):
                for part in parts:
                    if stage == "first":
                        _produce_outputs(producer, part.outputs, _failing(failed))
                    outs = getattr(part, stage)(self._names)
                    _produce(producer, outs, receipt[part.name.partition], failed)
                if producer.flush(self._limits.call_s) or failed:
                    why = failed[0] if failed else "not acknowledged in time"
                    self._producer = None
                    _leave(producer)
                    raise CommitFailed("unknown", why)
        except KafkaException as error:
            raise CommitFailed(_how(error), _why(error)) from error
        return receipt


def commit_offsets(consumer: Consumer, parts: Sequence[Part]) -> None:
    try:
        done = consumer.commit(offsets=[part.offset for part in parts], asynchronous=False)
    except KafkaException as error:
        raise CommitFailed(_how(error), _why(error)) from error
    for each in done or ():
        if each.error is not None:
            how: Ended = "fenced" if each.error.code() in FENCED else "unknown"
            raise CommitFailed(how, str(each.error))


# ── parts ──


def _produce_outputs(
    producer: Producer, outputs: Sequence[Output], on_delivery: Callable[..., None] | None = None
) -> None:
    """What handlers sent: as many as there are messages, so it is done with little ado."""
    produce = producer.produce
    told: dict[str, Any] = {} if on_delivery is None else {"on_delivery": on_delivery}
    for topic, value, key, partition, headers in outputs:
        while True:
            try:
                if headers:
                    produce(topic, value, key, partition, headers=list(headers), **told)
                else:
                    produce(topic, value, key, partition, **told)
                break
            except BufferError:
                producer.poll(ROOM_S)


def _failing(failed: list[str]) -> Callable[..., None]:
    return _noting({}, NOT_A_RETRY, failed)


def _produce(
    producer: Producer,
    outs: Iterable[Out],
    offsets: dict[int, int],
    failed: list[str] | None = None,
) -> None:
    produce = producer.produce
    for topic, value, key, partition, headers, timestamp_ms, retry_of in outs:
        told: dict[str, Any] = {}
        if headers:
            told["headers"] = list(headers)
        if timestamp_ms:
            told["timestamp"] = timestamp_ms
        if retry_of != NOT_A_RETRY or failed is not None:
            told["on_delivery"] = _noting(offsets, retry_of, failed)
        while True:
            try:
                produce(topic, value, key, partition, **told)
                break
            except BufferError:
                producer.poll(ROOM_S)


def _noting(
    offsets: dict[int, int], id: int, failed: list[str] | None
) -> Callable[[KafkaError | None, Any], None]:
    def note(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            if failed is not None:
                failed.append(str(error))
        elif id != NOT_A_RETRY:
            offsets[id] = message.offset()

    return note


def _patiently(call: Callable[[float], object], limits: Limits) -> None:
    """Again while librdkafka says that one may; its timeouts leave the call under way."""
    end = time.monotonic() + limits.commit_s
    while True:
        try:
            call(limits.call_s)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > end:
                raise


def _how(error: KafkaException) -> Ended:
    told = error.args[0]
    if told.code() in FENCED:
        return "fenced"
    return "aborted" if told.txn_requires_abort() else "unknown"


def _why(error: Exception) -> str:
    told = error.args[0] if error.args else error
    return told.str() if isinstance(told, KafkaError) else str(told)


def _leave(producer: Producer) -> None:
    """To free a producer can take as long as anything else that it does."""
    threading.Thread(target=_free, args=(producer,), name="left producer", daemon=True).start()


def _free(producer: Producer) -> None:
    try:
        producer.purge()
        producer.flush(1.0)
    except (KafkaException, RuntimeError):
        pass  # it is no longer needed


def offset_for(name_topic: str, partition: int, position: int, metadata: str) -> TopicPartition:
    return TopicPartition(name_topic, partition, position, metadata)


# ── the thread ──


Work = tuple[Sequence[Part], Membership]
Job = tuple[Work | None, "Future[Receipt]"]  # None: open the producer


class Committer:
    """One write after the other, beside the main loop."""

    def __init__(self, writer: Callable[[], Writer], name: str) -> None:
        self._make = writer
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        arguments = (self._make(), self._jobs)
        self._thread = threading.Thread(
            target=_commit_all, args=arguments, name=self._name, daemon=True
        )
        self._thread.start()

    def open(self) -> Future[Receipt]:
        return self._put(None)

    def submit(self, parts: Sequence[Part], member: Membership) -> Future[Receipt]:
        return self._put((parts, member))

    def _put(self, work: Work | None) -> Future[Receipt]:
        future: Future[Receipt] = Future()
        self._jobs.put((work, future))
        return future

    def left_behind(self) -> None:
        """The thread does not come back: another one, with another producer."""
        self._jobs.put(None)
        self._begin()

    def close(self, timeout_s: float) -> None:
        self._jobs.put(None)
        self._thread.join(timeout_s)


def _commit_all(writer: Writer, jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        work, future = job
        try:
            if work is None:
                writer.open()
                future.set_result({})
            else:
                future.set_result(writer.write(*work))
        except BaseException as error:  # noqa: BLE001 - whoever waits is to hear of it
            future.set_exception(error)
