"""Is the partition that keeps a group's offsets part of the producer's transaction?

The transaction's coordinator knows, and is asked before the first offset of a transaction is
written; otherwise nobody would write a marker behind it, and it would wait for one for ever. A
producer that speaks TV2 (KIP-890) leaves it to us to add the partition: then asking is adding.

    TxnOffsetCommit ──▶ ask ──▶ verified ──▶ append
                         └── a marker comes in between: what was verified is over
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines import coordinator_errors
from sexton.node.replica import Replica

ABORTABLE_FROM = 4  # the version of TxnOffsetCommit that knows TRANSACTION_ABORTABLE
ADDS_FROM = 5  # the version of TxnOffsetCommit with which a producer speaks TV2

Verified = Callable[[KafkaError], None]
Verify = Callable[[str, int, int, TopicPartition, bool, Verified], None]


@dataclass(slots=True)
class _Asked:
    waiting: list[Verified] = field(default_factory=list)
    ended_meanwhile: bool = False


class GroupVerification:
    def __init__(self, verify: Verify) -> None:
        self._verify = verify
        self._asked: dict[tuple[TopicPartition, int], _Asked] = {}

    def ended(self, partition: TopicPartition, producer_id: int) -> None:
        """A marker is being written."""
        asked = self._asked.get((partition, producer_id))
        if asked is not None:
            asked.ended_meanwhile = True

    def ask(
        self,
        replica: Replica,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        version: int,
        then: Verified,
    ) -> None:
        key = (replica.partition, producer_id)
        if key in self._asked:
            self._asked[key].waiting.append(then)
            return
        producer = replica.log.producers.known.get(producer_id)
        if (
            producer is not None
            and producer.epoch == epoch
            and producer.open_first_offset is not None
        ):
            then(KafkaError.NONE)  # it was asked before
            return
        asked = self._asked[key] = _Asked([then])

        def verified(error: KafkaError) -> None:
            del self._asked[key]
            over = error == KafkaError.NONE and asked.ended_meanwhile
            too_new = error == KafkaError.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM
            if over or too_new:
                error = KafkaError.INVALID_TXN_STATE
            elif error == KafkaError.PRODUCER_FENCED:
                error = KafkaError.INVALID_PRODUCER_EPOCH  # the older word, which all clients know
            for waiting in asked.waiting:
                waiting(coordinator_errors.to_client(error))

        adds = version >= ADDS_FROM
        self._verify(transactional_id, producer_id, epoch, replica.partition, adds, verified)
