"""When may a partition join a transaction? As soon as the step that is under way is over.

A coordinator takes one step of a transaction at a time. But the leaders of all the partitions that
a producer writes to ask at once (KIP-890), and the first of them while the markers of the last
transaction are still being written. A leader that is refused with CONCURRENT_TRANSACTIONS refuses
the producer in turn, which tries again after a tenth of a second: longer than all the rest takes.

    leader 1 ── add a-0 ──▶ │         │ ── Ongoing a-0 ──────────▶ log
    leader 2 ── add a-1 ──▶ │ waiting │        (replicated)
    leader 3 ── add a-2 ──▶ │         │ ── Ongoing a-0 a-1 a-2 ──▶ log

Markers may have to wait for a partition that nobody leads, so nobody waits for long.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.kafka_errors import KafkaError
from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.machines import transaction_messages as machine
from sexton.node.site import Site

MOST_WAIT_MS = 100  # Kafka's add.partitions.to.txn.retry.backoff.max.ms, for which a broker retries

Finish = Callable[[KafkaError], None]
Then = Callable[[machine.AnyAnswer], None]
Make = Callable[[Then], machine.Request]
Ask = Callable[[str, Make, Then], KafkaError]  # hands a request to the machine of this id


@dataclass(frozen=True, slots=True)
class Adder:
    """A producer as it calls itself."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int  # of the transaction


@dataclass(slots=True, eq=False)
class _Wish:
    adder: Adder
    partitions: tuple[TopicPartition, ...]
    finish: Finish
    until_ms: int


class Adding:
    def __init__(self, site: Site, ask: Ask) -> None:
        self._site = site
        self._ask = ask
        self._waiting: dict[str, list[_Wish]] = {}  # by transactional id, in the order they came

    def add(self, adder: Adder, partitions: tuple[TopicPartition, ...], finish: Finish) -> None:
        until_ms = self._site.clock_ms + MOST_WAIT_MS
        self._hand_over([_Wish(adder, partitions, finish, until_ms)])

    def stepped(self, transactional_id: str) -> None:
        """A step of this transaction is over: the next one can be taken."""
        wishes = self._waiting.pop(transactional_id, None)
        if wishes is not None:
            # Not from within the machine's own step.
            self._site.outside.after(0, lambda: self._go_on(wishes))

    def _go_on(self, wishes: list[_Wish]) -> None:
        by_adder: dict[Adder, list[_Wish]] = {}
        for wish in wishes:
            by_adder.setdefault(wish.adder, []).append(wish)
        for several in by_adder.values():
            self._hand_over(several)

    def _hand_over(self, wishes: list[_Wish]) -> None:
        """All of one adder, as one request."""
        adder = wishes[0].adder
        partitions = tuple(dict.fromkeys(p for wish in wishes for p in wish.partitions))

        def make(then: Then) -> machine.Request:
            return machine.AddPartitions(
                then, adder.transactional_id, adder.producer_id, adder.epoch, partitions,
                adder.version,
            )  # fmt: skip

        def then(told: machine.AnyAnswer) -> None:
            assert isinstance(told, machine.AddPartitionsAnswer)
            for wish in wishes:
                if told.error == KafkaError.CONCURRENT_TRANSACTIONS:
                    self._wait(wish)
                else:
                    wish.finish(told.error)

        failed = self._ask(adder.transactional_id, make, then)
        if failed:
            for wish in wishes:
                wish.finish(failed)

    def _wait(self, wish: _Wish) -> None:
        left_ms = wish.until_ms - self._site.clock_ms
        if left_ms <= 0:
            wish.finish(KafkaError.CONCURRENT_TRANSACTIONS)
            return
        self._waiting.setdefault(wish.adder.transactional_id, []).append(wish)
        self._site.outside.after(left_ms, lambda: self._give_up(wish))

    def _give_up(self, wish: _Wish) -> None:
        transactional_id = wish.adder.transactional_id
        wishes = self._waiting.get(transactional_id, [])
        if wish in wishes:
            wishes.remove(wish)
            if not wishes:
                del self._waiting[transactional_id]
            wish.finish(KafkaError.CONCURRENT_TRANSACTIONS)
