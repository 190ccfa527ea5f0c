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
Then the thread is left behind with its producer, and must not commit any more if it wakes up, for
by then its messages are handled again. Two things see to that, each of them enough:

    a word       asked for after the offsets are sent. Before that a commit never comes; after it
                 whoever starts up waits for these offsets until the transaction has ended
    a fence      the new producer is initialised at once
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_task import Ended
from sexton.retry.membership import Membership
from sexton.retry.pacing import Pacing
from sexton.retry.records_out import Ends, Part
from sexton.retry.refusals import Refusal
from sexton.retry.sending import RefusedOutputs, Refusing, Topics, put_outputs, put_records
from sexton.retry.topics import Names

log = logging.getLogger("sexton.retry")
FENCED = frozenset(
    {
        KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH, KafkaError.FENCED_MEMBER_EPOCH,
    }
)  # fmt: skip

CAREFUL = 100  # transactions, after one that failed: the next may fail for the same reason

Sent = Callable[[], object]


def _nobody() -> None:
    """Wants to hear of it."""


Receipt = dict[int, dict[int, int]]  # by partition: where retry records are, by id


LEFT = "it was left behind, and others may have begun again"


class CommitFailed(Exception):
    """Nothing that was in it may be believed."""

    def __init__(
        self, how: Ended, why: str, refusals: Sequence[Refusal] = (), code: int = 0
    ) -> None:
        super().__init__(f"{how}: {why}")
        self.how: Ended = how
        self.why = why
        self.refusals = refusals  # outputs that would make it fail again
        self.code = code  # Kafka's, if there is one


class Writer(Protocol):
    def open(self) -> None: ...
    def write(self, parts: Sequence[Part], member: Membership, sent: Sent = _nobody) -> Receipt:
        """Calls `sent` when it begins to wait for brokers; not at all if it fails."""

    def leave(self) -> None:
        """By another thread: what is not committed yet is not to be, whenever `write` wakes up."""

    def close(self) -> None:
        """At last, by its own thread: a producer keeps its connections for as long as it lives."""


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
        self._topics = Topics(settings, limits.call_s)
        self._pacing = Pacing()
        self._careful = 0  # so many transactions more, each output tells what became of it
        self._left = threading.Event()

    def leave(self) -> None:
        self._left.set()

    def close(self) -> None:
        self._producer = None

    def open(self) -> None:
        """Ends whatever the same transactional id had open."""
        self._unless_left()  # or it would fence the one that has taken its place
        producer = Producer(self._settings)

        def initialise(timeout_s: float) -> None:
            self._unless_left()
            producer.init_transactions(timeout_s)

        _patiently(initialise, self._limits)
        self._producer = producer

    def write(self, parts: Sequence[Part], member: Membership, sent: Sent = _nobody) -> Receipt:
        if not member.counts:
            raise CommitFailed("fenced", "the group has no such member at the moment")
        if self._producer is None:
            try:
                self.open()
            except KafkaException as error:
                raise CommitFailed(_how(error), _why(error), code=_code(error)) from error
        producer = self._producer
        assert producer is not None
        refusing = Refusing() if self._careful else None
        self._careful = max(0, self._careful - 1)
        try:
            self._topics.check(producer, parts)
        except RefusedOutputs as error:
            raise CommitFailed("aborted", str(error), error.refusals) from error
        try:
            return self._transaction(producer, parts, member, sent, refusing)
        except RefusedOutputs as error:
            self._abort(producer)
            raise CommitFailed("aborted", str(error), error.refusals) from error
        except KafkaException as error:
            refused = refusing.found if refusing is not None else []
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and not refused:
                refused = self._topics.not_ours(parts)
            raise self._give_up(producer, error, refused) from error
        except SystemError as error:
            # confluent-kafka raises a fatal error while it calls `on_delivery`, if both come in one
            # poll; Python then says that the callback has returned with an exception set.
            self._replace(producer)
            raise CommitFailed("unknown", str(error.__cause__ or error)) from error
        except BaseException:
            self._producer = None
            raise

    def _transaction(
        self,
        producer: Producer,
        parts: Sequence[Part],
        member: Membership,
        sent: Sent,
        refusing: Refusing | None,
    ) -> Receipt:
        names = self._names
        ends = [Ends() for _ in parts]
        if wait_s := self._pacing.wait_s():
            sent()
            self._left.wait(wait_s)
        producer.begin_transaction()
        for part, of in zip(parts, ends, strict=True):
            put_outputs(producer, part, refusing)
            put_records(producer, part.first(names))
            put_records(producer, part.second(names, of))
            put_records(producer, part.third(names))
        sent()
        offsets = [part.offset for part in parts]
        producer.send_offsets_to_transaction(offsets, member.metadata, self._limits.call_s)
        self._unless_left()
        began_s = time.monotonic()
        if refusing is not None or any(part.commit.redirected for part in parts):
            producer.flush(self._limits.call_s)  # tells where retry records are
        _patiently(lambda s: producer.commit_transaction(s), self._limits)
        self._pacing.learn(time.monotonic() - began_s)
        return _receipt(parts, ends)

    def _unless_left(self) -> None:
        if self._left.is_set():
            raise CommitFailed("unknown", LEFT)

    def _give_up(
        self, producer: Producer, error: KafkaException, refused: Sequence[Refusal]
    ) -> CommitFailed:
        """Aborts, or if that is not to be had leaves it to the next producer's initialisation."""
        self._topics.forget()
        told = error.args[0]
        if told.txn_requires_abort() and not told.fatal():
            self._careful = CAREFUL
            self._abort(producer)
        else:
            self._replace(producer)
        return CommitFailed(_how(error), _why(error), refused, told.code())

    def _abort(self, producer: Producer) -> None:
        try:
            producer.abort_transaction(self._limits.call_s)
        except (KafkaException, SystemError) as error:
            log.warning("abort failed: %s", _why(error), extra={"why": _why(error)})
            self._replace(producer)

    def _replace(self, producer: Producer) -> None:
        self._producer = None
        _leave(producer)
        try:
            self.open()
        except KafkaException as error:
            log.warning("no new producer yet: %s", _why(error), extra={"why": _why(error)})


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
        self._topics = Topics(settings, limits.call_s)
        self._left = threading.Event()

    def leave(self) -> None:
        self._left.set()

    def close(self) -> None:
        self._producer = None

    def open(self) -> None:
        self._producer = Producer(self._settings)

    def write(self, parts: Sequence[Part], member: Membership, sent: Sent = _nobody) -> Receipt:
        if not member.counts:
            raise CommitFailed("fenced", "the group has no such member at the moment")
        if self._producer is None:
            self.open()
        producer = self._producer
        assert producer is not None
        refusing = Refusing()
        sent()  # it is waiting all the time
        try:
            self._topics.check(producer, parts)
            return self._stages(producer, parts, refusing)
        except RefusedOutputs as error:
            raise CommitFailed("unknown", str(error), error.refusals) from error
        except (KafkaException, SystemError) as error:
            self._leave(producer)
            raise CommitFailed(_how(error), _why(error), code=_code(error)) from error

    def _stages(self, producer: Producer, parts: Sequence[Part], refusing: Refusing) -> Receipt:
        names, heard = self._names, refusing.failed
        ends = [Ends(heard) for _ in parts]
        for part in parts:
            put_outputs(producer, part, refusing)
            put_records(producer, part.first(names), heard)
        self._acknowledged(producer, refusing)
        for part, of in zip(parts, ends, strict=True):
            put_records(producer, part.second(names, of), heard)
        self._acknowledged(producer, refusing)
        for part in parts:
            put_records(producer, part.third(names), heard)
        self._acknowledged(producer, refusing)
        return _receipt(parts, ends)

    def _acknowledged(self, producer: Producer, refusing: Refusing) -> None:
        left = producer.flush(self._limits.call_s)
        if self._left.is_set():
            raise CommitFailed("unknown", LEFT)
        if left == 0 and not refusing.errors:
            return
        self._leave(producer)
        why = refusing.errors[0] if refusing.errors else "not acknowledged in time"
        raise CommitFailed("unknown", why, refusing.found, refusing.code)

    def _leave(self, producer: Producer) -> None:
        self._topics.forget()
        self._producer = None
        _leave(producer)


def commit_offsets(consumer: Consumer, parts: Sequence[Part]) -> None:
    try:
        done = consumer.commit(offsets=[part.offset for part in parts], asynchronous=False)
    except KafkaException as error:
        raise CommitFailed(_how(error), _why(error), code=_code(error)) from error
    for each in done or ():
        if each.error is not None:
            how: Ended = "fenced" if each.error.code() in FENCED else "unknown"
            raise CommitFailed(how, str(each.error), code=each.error.code())


# ── parts ──


def _receipt(parts: Sequence[Part], ends: Sequence[Ends]) -> Receipt:
    return {
        part.name.partition: of.offsets([item.id for item in part.commit.redirected])
        for part, of in zip(parts, ends, strict=True)
    }


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


def _how(error: KafkaException | SystemError) -> Ended:
    told = error.args[0] if error.args else None
    if not isinstance(told, KafkaError):
        return "unknown"
    if told.code() in FENCED:
        return "fenced"
    return "aborted" if told.txn_requires_abort() else "unknown"


def _code(error: Exception) -> int:
    told = error.args[0] if error.args else None
    return told.code() if isinstance(told, KafkaError) else 0


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
    except (KafkaException, RuntimeError, SystemError):
        pass  # it is no longer needed


def offset_for(
    topic: str, partition: int, position: int, metadata: str, epoch: int
) -> TopicPartition:
    return TopicPartition(topic, partition, position, metadata, epoch)


# ── the thread ──


Work = tuple[Sequence[Part], Membership, Sent]
Job = tuple[Work | None, "Future[Receipt]"]  # None: open the producer


class Committer:
    """One write after the other, beside the main loop."""

    def __init__(self, writer: Callable[[], Writer], name: str) -> None:
        self._make = writer
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._writer = self._make()
        arguments = (self._writer, self._jobs)
        self._thread = threading.Thread(
            target=_commit_all, args=arguments, name=self._name, daemon=True
        )
        self._thread.start()

    def open(self) -> Future[Receipt]:
        return self._put(None)

    def submit(
        self, parts: Sequence[Part], member: Membership, sent: Sent = _nobody
    ) -> Future[Receipt]:
        """`sent` is called when it begins to wait for brokers, or when it is over."""
        future = self._put((parts, member, sent))
        future.add_done_callback(lambda _: sent())
        return future

    def _put(self, work: Work | None) -> Future[Receipt]:
        future: Future[Receipt] = Future()
        self._jobs.put((work, future))
        return future

    def leave_behind(self) -> Future[Receipt]:
        """The thread does not come back: another one, with another producer, which it opens."""
        self._writer.leave()
        self._jobs.put(None)
        self._begin()
        return self.open()

    def close(self, timeout_s: float) -> None:
        self._writer.leave()  # what did not come back in time does not go on behind our back
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
    writer.close()
