"""Real brokers and a controller on the simulator's network, disks and clock, without faults."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from sexton.log.config import LogConfig
from sexton.log.partition import PartitionLog
from sexton.machines.controller import Controller, ControllerConfig
from sexton.machines.metadata import Image
from sexton.node.broker import Broker
from sexton.node.config import BrokerConfig
from sexton.node.outside import CONTROLLER
from sexton.protocol.codec import decode, encode
from sexton.protocol.wire import Request, Response
from sexton.records.few import few_records
from sexton.sim.world import World

R = TypeVar("R", bound=Response)

CLIENT = -101
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class SmallCluster:
    def __init__(
        self,
        brokers: int = 3,
        log: LogConfig | None = None,
        start: int | None = None,
        cluster_id: str = CLUSTER_ID,
        **config: Any,
    ) -> None:
        defaults: dict[str, Any] = {
            "transaction_state_log_num_partitions": 2,
            "offsets_topic_num_partitions": 2,
        }
        configs = [
            BrokerConfig(
                node,
                log or LogConfig(),
                endpoint=("localhost", str(9091 + node)),
                rack=f"rack-{node % 2}",
                **(defaults | config),
            )
            for node in range(1, brokers + 1)
        ]
        self.world = World(configs, ControllerConfig(cluster_id=cluster_id), 1, 10**12)
        self.world.start(CONTROLLER)
        for node in range(1, (start or brokers) + 1):
            self.world.start(node)
        self.wait(15_000)
        self.random = Random(1)

    def wait(self, ms: int) -> None:
        self.world.run_until(self.world.now_ms + ms)

    def broker(self, node: int) -> Broker:
        broker = self.world.processes[node].broker
        assert broker is not None
        return broker

    @property
    def controller(self) -> Controller:
        node = self.world.processes[CONTROLLER].node
        assert node is not None and not isinstance(node, Broker)
        return node.machine

    @property
    def image(self) -> Image:
        return self.controller.image

    def ask(self, request: Request[R], version: int, node: int = 1) -> R:
        """One request, by way of its bytes; the answer as a client would read it."""
        sent = decode(type(request), encode(request, version), version)
        answers: list[object | None] = []
        self.world.send(CLIENT, node, sent, answers.append, 60_000, version)
        for _ in range(10_000):
            if answers:
                break
            self.wait(10)
        answer = answers[0]
        assert isinstance(answer, Response), f"no answer to {request}"
        return decode(type(answer), encode(answer, version), version)  # type: ignore[return-value]

    def tell(self, request: object, wait_ms: int) -> None:
        """One request to the controller, and time for all to hear of it."""
        self.world.send(CLIENT, CONTROLLER, request, lambda _: None, 1_000, 0)
        self.wait(wait_ms)

    def kill(self, node: int) -> None:
        self.world.kill(node)
        self.wait(30_000)


def last_values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    """What a log says of each key; None: it was deleted."""
    found: dict[bytes | None, bytes | None] = {}
    for segment, position, header in log.batches(0):
        for record in few_records(segment.log.read_at(position, header.size), ""):
            found[record.key] = record.value
    return found
