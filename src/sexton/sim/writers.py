"""Those who write: keyed values and deletes, one by one; `transactors` write several at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from sexton.records.few import KeyAndValue
from sexton.sim.checks import Checks
from sexton.sim.clients import (
    TRY_AGAIN,
    Client,
    Sequence,
    Traffic,
    batch_of,
    produce_request,
    produced,
)
from sexton.sim.world import World


@dataclass(frozen=True, slots=True)
class Habits:
    """What a writer writes, and how often."""

    partitions: tuple[TopicPartition, ...]
    keys: int
    pause_ms: int  # between two writes, on average
    deletes: float  # the share of tombstones
    rest_ms: int = 0  # between bursts; 0: it never rests
    burst: int = 20


class Writer(Client):
    """Common to both kinds: choosing what to write, and when."""

    def __init__(
        self, world: World, checks: Checks, traffic: Traffic, number: int, seed: str, habits: Habits
    ) -> None:
        super().__init__(world, checks, traffic, number, seed)
        self.habits = habits
        self.count = 0

    def soon(self, action: Callable[[], None]) -> None:
        """After the usual pause; after a burst, after a long one."""
        habits = self.habits
        mean = habits.pause_ms
        if habits.rest_ms and self.count and self.count % habits.burst == 0:
            mean = habits.rest_ms
        self.after(max(1, int(self.random.expovariate(1 / mean))), action)

    def record(self) -> KeyAndValue:
        self.count += 1
        key = f"k{self.random.randrange(self.habits.keys)}".encode()
        if self.random.random() < self.habits.deletes:
            self.traffic.deletes += 1
            return key, None
        self.traffic.writes += 1
        return key, f"{-self.address}.{self.count}".encode()

    @property
    def excused(self) -> bool:
        """Has something been lost that promises rest on?"""
        return False

    def promised(
        self, partition: TopicPartition, offset: int, records: list[KeyAndValue], epoch: int
    ) -> None:
        """The cluster has acknowledged these: they must be in the truth, as they were written."""
        if self.excused:
            return
        truth = self.checks.group(partition).truth
        for place, (key, value) in enumerate(records, offset):
            entry = truth.entries.get(place)
            if entry is None and (truth.losses > epoch or place >= truth.end):
                if truth.losses == epoch:
                    what = f"offset {place} of {partition} was acknowledged above all watermarks"
                    self.checks.fail("acknowledged-early", str(partition), what)
                continue  # lost since, and declared so
            if truth.losses == epoch and (
                entry is None or (entry.key, entry.value) != (key, value)
            ):
                what = f"offset {place} was acknowledged as {key!r}={value!r} and is {entry}"
                self.checks.fail("acknowledged-lost", str(partition), what)


class KeyedWriter(Writer):
    """An idempotent producer that writes one batch at a time."""

    def start(self) -> None:
        self._sequences: dict[TopicPartition, Sequence] = {}
        self.soon(self._write)

    def _write(self) -> None:
        partition = self.random.choice(self.habits.partitions)
        sequence = self._sequences.get(partition)
        if sequence is None:
            self._init(partition)
            return
        records = [self.record() for _ in range(self.random.choice((1, 1, 1, 2, 4)))]
        batch = batch_of(records, sequence, self.world.now_ms)
        losses = self.checks.group(partition).truth.losses

        def then(response: object) -> KafkaError:
            result = produced(response)
            error = KafkaError(result.error_code)
            if error == KafkaError.NONE:
                sequence.next += len(records)
                self.promised(partition, result.base_offset, records, losses)
                self.soon(self._write)
            elif error not in TRY_AGAIN:
                # Its state at the broker is gone (expired, or lost): it starts over.
                del self._sequences[partition]
                self.soon(self._write)
            return error

        self.ask_leader(partition, produce_request(partition, batch), then, 11)

    def _init(self, partition: TopicPartition) -> None:
        def then(response: object) -> KafkaError:
            assert isinstance(response, InitProducerIdResponse)
            error = KafkaError(response.error_code)
            if error == KafkaError.NONE:
                fresh = Sequence(response.producer_id, response.producer_epoch)
                self._sequences[partition] = fresh
                self._write()
            return error

        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        self.ask_leader(partition, request, then, 5)
