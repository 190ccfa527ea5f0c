"""What three real brokers do when one of them is away, told as text: see testdata/*.txt.

The nodes are those that a cluster runs; network, disks and clock are the simulator's, without any
faults but those that the story names. `delete.retention.ms` is an hour.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.node.broker import Broker
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.node.outside import CONTROLLER
from sexton.node.replica import Replica
from sexton.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sexton.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from sexton.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from sexton.records.control import ControlType
from sexton.sim.clients import TRY_AGAIN, Sequence, batch_of, produce_request, produced
from sexton.sim.options import Options
from sexton.sim.truth import batches, look_at
from sexton.sim.world import World
from tests.datadriven import Case, datadriven, run_file

HOUR_MS = 3_600_000
MEANWHILE_MS = 10 * 60_000  # sessions end, ISRs shrink and grow, within this
PARTITION = TopicPartition("orders", 0)
STATE = TopicPartition(TRANSACTION_STATE, 0)
CLIENT = -101


class Story:
    def run(self, case: Case) -> str:
        return str(getattr(self, "do_" + case.command.replace("-", "_"))(case) or "ok")

    # ── what a story can say ──

    def do_cluster(self, case: Case) -> str:
        options = Options(
            seed=1, policy=case.option("policy", "coordinated"), segment_bytes=100, dirty_ratio=0.0
        )
        plain = [options.broker(node) for node in (1, 2, 3)]
        brokers = [
            replace(config, log=replace(config.log, delete_retention_ms=HOUR_MS))
            for config in plain
        ]
        self.world = World(brokers, options.controller(), 1, 10**12)
        self.producers: dict[str, Sequence] = {}
        for address in self.world.processes:
            self.world.start(address)
        self._wait(MEANWHILE_MS)
        for number, topic in enumerate(("orders", TRANSACTION_STATE, CONSUMER_OFFSETS)):
            self._order(admin.CreateTopic(None, topic, f"{number + 1:032x}", -1, -1, ((1, 2, 3),)))
        self._wait(MEANWHILE_MS)
        return self.do_cluster_is(case)

    def do_cluster_is(self, _case: Case) -> str:
        record = self._controller.image.partitions[PARTITION]
        in_sync = ",".join(map(str, record.isr))
        return f"broker {record.leader} leads, in sync: {in_sync}"

    def do_write(self, case: Case) -> str:
        """`write k:v` or `write -k`; each a batch of its own."""
        for word in case.words:
            self._produce([_record(word)], Sequence(), None)
        return self._end()

    def do_transact(self, case: Case) -> str:
        """`transact p1 k:v`: writes and leaves the transaction open."""
        name, *words = case.words
        sequence = self.producers.get(name) or self._init(name)
        self._produce([_record(word) for word in words], sequence, name)
        sequence.next += len(words)
        return self._end()

    def do_commit(self, case: Case) -> str:
        return self._end_transaction(case.words[0], True)

    def do_abort(self, case: Case) -> str:
        return self._end_transaction(case.words[0], False)

    def do_away(self, case: Case) -> str:
        for node in map(int, case.words):
            self.world.kill(node)
        self._wait(MEANWHILE_MS)
        return self.do_cluster_is(case)

    def do_back(self, case: Case) -> str:
        for node in map(int, case.words):
            self.world.start(node)
        self._wait(MEANWHILE_MS)
        return self.do_cluster_is(case)

    def do_hours(self, case: Case) -> str:
        self._wait(int(case.words[0]) * HOUR_MS)
        return self.do_logs(case)

    def do_lead(self, case: Case) -> str:
        """Makes a broker the leader by taking the others away for a moment."""
        chosen = int(case.words[0])
        others = [node for node in (1, 2, 3) if node != chosen]
        for node in others:
            self.world.kill(node)
            self._wait(MEANWHILE_MS)
        for node in others:
            self.world.start(node)
        self._wait(MEANWHILE_MS)
        return self.do_cluster_is(case)

    def do_logs(self, _case: Case) -> str:
        lines = []
        for node in (1, 2, 3):
            replica = self._replica(node)
            lines.append(f"{node}: " + ("away" if replica is None else _text(replica)))
        return "\n".join(lines)

    def do_offsets(self, _case: Case) -> str:
        lines = []
        for node in (1, 2, 3):
            replica = self._replica(node)
            if replica is not None:
                mine, group = replica.progress, replica.removable
                own = f"MCCO {mine.mcco} MXFO {mine.mxfo}"
                lines.append(f"{node}: {own}  MTRO {group.mtro} MXRO {group.mxro}")
        return "\n".join(lines)

    def do_read(self, case: Case) -> str:
        """What a read_committed consumer gets from the leader, or from one broker."""
        leader = self._controller.image.partitions[PARTITION].leader
        node = int(case.words[0]) if case.words else leader
        asked = FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
        shown: dict[str, str] = {}
        aborting: dict[int, None] = {}
        stable = 0
        while True:
            request = FetchRequest(
                isolation_level=1, max_wait_ms=0, topics=[FetchTopic("orders", partitions=[asked])]
            )
            response = self._call(node, request, 12)
            assert isinstance(response, FetchResponse)
            data = response.responses[0].partitions[0]
            stable = data.last_stable_offset
            if not data.records:
                break
            aborted = [(a.first_offset, a.producer_id) for a in data.aborted_transactions or ()]
            asked.fetch_offset = _fold(bytes(data.records), aborted, aborting, shown)
        end = self._replica(node)
        assert end is not None
        waits = "" if stable >= end.log.high_watermark else f"  (stuck at offset {stable})"
        return " ".join(f"{key}={value}" for key, value in sorted(shown.items())) + waits

    # ── how it is done ──

    @property
    def _controller(self) -> admin.Controller:
        node = self.world.processes[CONTROLLER].node
        assert node is not None and not isinstance(node, Broker)
        return node.machine

    def _replica(self, node: int) -> Replica | None:
        broker = self.world.processes[node].broker
        return broker.replicas.by_partition.get(PARTITION) if broker else None

    def _wait(self, ms: int) -> None:
        self.world.run_until(self.world.now_ms + ms)

    def _order(self, request: object) -> None:
        self.world.send(-50, CONTROLLER, request, lambda _answer: None, 10_000, 0)

    def _call(self, target: int, request: object, version: int) -> object | None:
        answers: list[object | None] = []
        self.world.send(CLIENT, target, request, answers.append, 40_000, version)
        for _ in range(1_000):
            if answers:
                return answers[0]
            self._wait(1_000)
        raise AssertionError("a call is answered, if only by a timeout")

    def _ask(self, partition: TopicPartition, request: object, version: int) -> object:
        for _ in range(50):
            record = self._controller.image.partitions[partition]
            answer = self._call(record.leader, request, version) if record.leader >= 0 else None
            if answer is not None and _error(answer) not in TRY_AGAIN:
                assert _error(answer) == KafkaError.NONE, answer
                return answer
            self._wait(200_000)
        raise AssertionError(f"{request} is answered in the end")

    def _produce(
        self, records: list[tuple[bytes, bytes | None]], sequence: Sequence, name: str | None
    ) -> None:
        batch = batch_of(list(records), sequence, self.world.now_ms, transactional=name is not None)
        self._ask(PARTITION, produce_request(PARTITION, batch, name), 12)
        self._wait(200_000)

    def _init(self, name: str) -> Sequence:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=900_000)
        answer = self._ask(STATE, request, 5)
        assert isinstance(answer, InitProducerIdResponse)
        self.producers[name] = Sequence(answer.producer_id, answer.producer_epoch)
        return self.producers[name]

    def _end_transaction(self, name: str, commit: bool) -> str:
        sequence = self.producers[name]
        request = EndTxnRequest(
            transactional_id=name, producer_id=sequence.producer_id, producer_epoch=sequence.epoch,
            committed=commit,
        )  # fmt: skip
        answer = self._ask(STATE, request, 5)
        assert isinstance(answer, EndTxnResponse)
        self.producers[name] = Sequence(answer.producer_id, answer.producer_epoch)
        self._wait(200_000)
        return self._end()

    def _end(self) -> str:
        record = self._controller.image.partitions[PARTITION]
        replica = self._replica(record.leader)
        assert replica is not None
        return f"the log ends at {replica.log.end_offset}"


def _record(word: str) -> tuple[bytes, bytes | None]:
    if word.startswith("-"):
        return word[1:].encode(), None
    key, _, value = word.partition(":")
    return key.encode(), value.encode()


def _error(answer: object) -> KafkaError:
    if hasattr(answer, "responses"):
        return KafkaError(produced(answer).error_code)
    return KafkaError(answer.error_code)  # type: ignore[attr-defined]


def _fold(
    data: bytes, aborted: list[tuple[int, int]], aborting: dict[int, None], shown: dict[str, str]
) -> int:
    """What a consumer does with one answer: returns where it goes on."""
    position, offset = 0, 0
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        batch = look_at(data[position : position + size])
        position, offset = position + size, batch.header.next_offset
        for first, producer_id in aborted:
            if first <= batch.header.last_offset:
                aborting[producer_id] = None
        aborted = [entry for entry in aborted if entry[0] > batch.header.last_offset]
        if batch.ends == ControlType.ABORT:
            aborting.pop(batch.header.producer_id, None)
        if batch.header.is_transactional and batch.header.producer_id in aborting:
            continue
        for record in batch.records:
            key = (record.key or b"").decode()
            if record.value is None:
                shown.pop(key, None)
            else:
                shown[key] = record.value.decode()
    return offset


def _text(replica: Replica) -> str:
    words = []
    for batch in batches(replica.log, 0, replica.log.end_offset):
        header = batch.header
        mark = "@" if header.is_transactional else ""
        if header.is_control:
            words.append(
                f"{header.base_offset}:{batch.ends.name if batch.ends is not None else '()'}"
            )
        elif not batch.records:
            words.append(f"{header.last_offset}:{mark}()")
        for record in batch.records:
            key = (record.key or b"").decode()
            what = f"-{key}" if record.value is None else f"{key}={record.value.decode()}"
            words.append(f"{record.offset}:{mark}{what}")
    return " ".join(words)


@datadriven(__file__, "testdata/*.txt")
def test_stories(path: Path) -> None:
    run_file(path, Story().run)
