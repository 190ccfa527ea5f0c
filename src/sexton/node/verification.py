"""Is a partition part of the producer's transaction?

The transaction's coordinator knows, and is asked before the first batch of a transaction is written
to a partition, be it records or a group's offsets. Otherwise nobody would write a marker behind it,
and whoever reads committed records would wait for one for ever. A producer that speaks TV2
(KIP-890) leaves it to us to add the partition: then asking is adding.

    first batch ──▶ ask ──▶ verified ──▶ append
                     └── a marker comes in between: what was verified is over

Or another broker leads in between: then the marker may have come there. What was asked in an
earlier term is asked again.

What comes while the coordinator is being asked the same question waits for its answer, and is told
in its turn. Another epoch is another question: a zombie must not be let in on the word that its
successor got, nor its successor be sent away on the zombie's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.node.replica import Replica

Verified = Callable[[KafkaError], None]
Verify = Callable[[str, int, int, TopicPartition, bool, Verified], None]
# (transactional id, producer id, epoch, partition, whether to add it, what to do then)


@dataclass(frozen=True, slots=True)
class Question:
    """About a producer's transaction, from a request of a certain version."""

    transactional_id: str
    producer_id: int
    epoch: int
    adds: bool  # the producer leaves it to us to add the partition
    knows_abortable: bool  # its client has heard of TRANSACTION_ABORTABLE


@dataclass(slots=True)
class _Asked:
    waiting: list[Verified] = field(default_factory=list)  # in the order they came
    ended_meanwhile: bool = False  # a marker came: the word is about a transaction that is over


class Verification:
    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._asked: dict[tuple[TopicPartition, Question], _Asked] = {}

    def ended(self, partition: TopicPartition, producer_id: int) -> None:
        """A marker was appended: what the coordinator is being asked about is over."""
        for (at, question), asked in self._asked.items():
            if at == partition and question.producer_id == producer_id:
                asked.ended_meanwhile = True

    def ask(self, replica: Replica, question: Question, then: Verified) -> None:
        """Goes on at once if the transaction is known to be open here, else asks first."""
        key = (replica.partition, question)
        if key in self._asked:
            self._asked[key].waiting.append(then)
            return
        if is_open(replica, question.producer_id, question.epoch):
            then(KafkaError.NONE)
            return
        asked = self._asked[key] = _Asked([then])
        term = replica.leader_epoch

        def verified(error: KafkaError) -> None:
            del self._asked[key]
            told = _in_words_of_the_log(error, asked, question)
            if told == KafkaError.NONE and replica.leader_epoch != term:
                told = KafkaError.NOT_LEADER_OR_FOLLOWER
            for waiting in asked.waiting:
                waiting(told)

        self._verify(
            question.transactional_id, question.producer_id, question.epoch, replica.partition,
            question.adds, verified,
        )  # fmt: skip


def is_open(replica: Replica, producer_id: int, epoch: int) -> bool:
    """Has this producer a transaction in this partition? Then the coordinator was asked before."""
    producer = replica.log.producers.known.get(producer_id)
    return (
        producer is not None and producer.open_first_offset is not None and producer.epoch == epoch
    )


def _in_words_of_the_log(error: KafkaError, asked: _Asked, question: Question) -> KafkaError:
    """What the coordinator said, as a log would that knew by itself, which all clients know."""
    over = error == KafkaError.NONE and asked.ended_meanwhile
    too_new = error == KafkaError.TRANSACTION_ABORTABLE and not question.knows_abortable
    if over or too_new:
        return KafkaError.INVALID_TXN_STATE
    if error == KafkaError.PRODUCER_FENCED:
        return KafkaError.INVALID_PRODUCER_EPOCH
    return error
