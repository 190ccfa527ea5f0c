"""The controller's log: every decision is in it, whatever its size, or the controller ends."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from sexton.base.errors import CorruptLog, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.log.incoming import crc_matches
from sexton.log.memory_disk import MemoryDisk
from sexton.log.names import LOG, segment_file
from sexton.machines import controller as admin
from sexton.machines.controller import ControllerConfig
from sexton.machines.metadata import NO_LEADER
from sexton.node import controller as module
from sexton.node import metadata_cleaning
from sexton.node.controller import METADATA, ControllerNode
from sexton.node.outside import Answer, Asked, Halt, Ran, Run, Woken
from sexton.records.layout import HEADER_BYTES, BatchHeader, headers_in
from tests.patching import patching

NODES = (1, 2, 3)
MOST_PARTITIONS = 10_000


class Alone:
    """A controller whose brokers are played by the test."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.now_ms = 1_000
        self.jobs: list[Run] = []
        self.node = ControllerNode(
            self.disk, ControllerConfig(cluster_id="this"), self.now_ms, self.now_ms
        )

    def tell(self, request: object) -> object:
        """What is answered at once, if anything is."""
        effects = self.node.handle(Asked(request, request), self.now_ms, self.now_ms)
        self.node.check()
        self.jobs += [effect for effect in effects if isinstance(effect, Run)]
        answers = [effect for effect in effects if isinstance(effect, Answer)]
        return next((answer.response for answer in answers if answer.caller is request), None)

    def register(self) -> None:
        for node in NODES:
            self.tell(admin.RegisterBroker(None, node, f"life of {node}"))
        for node in NODES:
            epoch = self.node.machine.image.brokers[node].broker_epoch
            end = self.node.machine.ledger.end
            self.tell(admin.Heartbeat(None, node, epoch, end))

    def create(self, name: str, partitions: int, replicas: int) -> object:
        topic_id = uuid.uuid5(uuid.NAMESPACE_OID, name).hex
        return self.tell(admin.CreateTopic(None, name, topic_id, partitions, replicas))

    def wait_a_second(self) -> None:
        self.now_ms += 1_000
        self.node.handle(Woken(), self.now_ms, self.now_ms)

    def run(self, job: Run) -> None:
        try:
            result = job.job()
        except OSError as error:
            result = error
        self.node.handle(Ran(job.token, result), self.now_ms, self.now_ms)

    def size_bytes(self) -> int:
        names = self.disk.names(str(METADATA))
        logs = [f"{METADATA}/{name}" for name in names if name.endswith(".log")]
        return sum(len(self.disk.read(path)) for path in logs)

    def again(self) -> Alone:
        return Alone(self.disk)


def test_a_decision_about_ten_thousand_partitions_is_in_the_log() -> None:
    """Each of these steps is one batch of several megabytes."""
    alone = Alone()
    alone.register()
    assert isinstance(alone.create("large", MOST_PARTITIONS, 3), admin.TopicCreated)
    image = alone.node.machine.image
    while image.active(1):  # nobody calls any more: all are fenced in one step
        alone.wait_a_second()
    assert all(partition.leader == NO_LEADER for partition in image.partitions.values())
    assert alone.again().node.machine.image == image


def test_a_decision_that_is_not_written_ends_the_controller() -> None:
    """It has been decided all the same: whoever is asked next would be told of it."""
    with patching() as patch:
        patch(module, "_CONFIG", replace(module._CONFIG, max_message_bytes=10_000))
        alone = Alone()
        alone.register()
        with pytest.raises(Halt, match="could not be written: MESSAGE_TOO_LARGE") as caught:
            alone.create("large", 1_000, 3)
    assert caught.value.hint == "start the cluster again: it goes on from what is written"
    after = alone.again()
    assert not after.node.machine.image.topics
    after.register()
    assert isinstance(after.create("small", 1, 3), admin.TopicCreated)


def test_a_full_disk_is_said_to_be_one() -> None:
    alone = Alone()
    alone.register()
    alone.disk.room_bytes = 10
    with pytest.raises(Refused, match="no space left on device") as caught:
        alone.create("t", 1, 3)
    assert caught.value.error is KafkaError.KAFKA_STORAGE_ERROR


def test_a_log_that_has_grown_is_compacted_and_says_the_same() -> None:
    """Also with what is decided while the pass is under way; brokers go on where they were."""
    with patching() as patch:
        patch(metadata_cleaning, "LEAST_BYTES", 200_000)
        alone = Alone()
        alone.register()
        alone.create("kept", 50, 3)
        alone.create("gone", 50, 3)
        alone.tell(admin.DeleteTopic(None, "gone"))
        machine = alone.node.machine
        grow = admin.AllocateProducerIds(None, 1, machine.image.brokers[1].broker_epoch)
        while not alone.jobs:
            alone.tell(grow)
        (job,) = alone.jobs
        alone.create("meanwhile", 1, 3)
        end, before = machine.ledger.end, alone.size_bytes()
        _start, missed, snapshot = machine.ledger.since(end - 10)
        alone.run(job)
        assert alone.size_bytes() < before / 2
        assert machine.ledger.since(end - 10) == (end - 10, missed, snapshot)
        alone.tell(grow)
        after = alone.again().node.machine
        assert (after.image, after.ledger.end) == (machine.image, end + 1)
        assert alone.jobs == [job], "the next pass is due when it has grown again"


def test_a_pass_that_fails_leaves_the_controller_as_it_was() -> None:
    with patching() as patch:
        patch(metadata_cleaning, "LEAST_BYTES", 20_000)
        alone = Alone()
        alone.register()
        alone.create("large", 100, 3)
        alone.disk.room_bytes = 0
        alone.run(alone.jobs.pop())
        alone.disk.room_bytes = None
        assert isinstance(alone.create("next", 1, 3), admin.TopicCreated)
        assert alone.again().node.machine.image == alone.node.machine.image
        alone.create("larger", 200, 3)
        assert len(alone.jobs) == 1, "it is tried again when the log has grown as much again"


def three_topics() -> Alone:
    alone = Alone()
    alone.register()
    for name in ("first", "second", "third"):
        alone.create(name, 1, 3)
    return alone


@pytest.mark.parametrize("clean", [True, False])
def test_a_bit_that_turned_over_does_not_cost_the_decisions_behind_it(clean: bool) -> None:
    """Brokers would delete every topic that the controller had forgotten."""
    alone = three_topics()
    if clean:
        alone.node.close(alone.now_ms)
    path = f"{METADATA}/{segment_file(0, LOG)}"
    sound = alone.disk.read(path)
    start = sound.index(b'"first"') - HEADER_BYTES - 50
    for position in range(start, start + 200, 3):
        alone.disk.flip(path, position, position % 8)
        flipped = alone.disk.read(path)
        if any(not is_whole(flipped, found) for found in headers_in(sound, path)):
            with pytest.raises(CorruptLog, match="decisions of the controller are lost"):
                alone.again()
            assert alone.disk.read(path) == flipped, "it is as it was found"
        alone.disk.flip(path, position, position % 8)
    assert sorted(alone.again().node.machine.image.topics) == ["first", "second", "third"]


def is_whole(data: bytes, found: tuple[int, BatchHeader]) -> bool:
    """All but the leader's epoch, which nobody minds, is as it was."""
    position, header = found
    now = BatchHeader.unpack(data, position)._replace(partition_leader_epoch=0)
    return now == header and crc_matches(data, position, header)


def test_a_decision_that_a_crash_left_unfinished_was_never_made() -> None:
    alone = three_topics()
    path = f"{METADATA}/{segment_file(0, LOG)}"
    *_, (last, _header) = headers_in(alone.disk.read(path), path)
    for rest in (b"", b"\0" * 200, alone.disk.read(path)[last:-1]):
        file = alone.disk.open(path)
        file.truncate(last)
        file.append(rest)
        assert "second" in alone.again().node.machine.image.topics
