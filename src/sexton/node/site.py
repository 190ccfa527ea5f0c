"""What the parts of one broker share: its config, its disk, its picture of the cluster."""

from __future__ import annotations

from dataclasses import field
from random import Random
from typing import TYPE_CHECKING

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.machines.metadata import Image
from sexton.node.config import BrokerConfig
from sexton.node.outside import CONTROLLER, Outside, Then
from sexton.node.topic_options import dynamic_options, log_config

if TYPE_CHECKING:
    from sexton.node.replica import Replica


@dataclass(slots=True)
class Site:
    config: BrokerConfig
    outside: Outside
    directory: DataDirectory
    random: Random
    image: Image
    broker_epoch: int = -1  # given by the controller, anew for each process
    metadata_end: int = 0  # how much of the controller's log the image holds
    stirred: dict[Replica, None] = field(default_factory=dict)  # have news for whoever fetches

    @property
    def node(self) -> int:
        return self.config.node_id

    @property
    def now_ms(self) -> int:
        return self.outside.now_ms

    @property
    def clock_ms(self) -> int:
        return self.outside.clock_ms

    def ask_controller(self, request: object, then: Then, timeout_ms: int | None = None) -> None:
        patience = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        self.outside.ask(CONTROLLER, request, then, patience)

    def topic_name(self, topic_id: bytes) -> str:
        """Of the topic with this id, or nothing."""
        topic = self.image.topic_by_id(topic_id.hex())
        return "" if topic is None else topic.name

    def log_config(self, topic: str) -> LogConfig:
        """The broker's defaults with the topic's own options over them."""
        return log_config(self.config.log, dynamic_options(self.image, self.node, topic))

    def min_insync_replicas(self, partition: TopicPartition) -> int:
        """Asked for every write: three lookups as a rule. Never more than there are replicas."""
        configs = self.image.configs
        for key in (("topic", partition.topic), ("broker", str(self.node)), ("broker", "")):
            config = configs.get(key)
            chosen = None if config is None else dict(config.options).get("min.insync.replicas")
            if chosen is not None:
                return self._at_most_all(partition, int(chosen))
        return self._at_most_all(partition, self.config.min_insync_replicas)

    def _at_most_all(self, partition: TopicPartition, count: int) -> int:
        if count <= 1:
            return count
        record = self.image.partitions.get(partition)
        return count if record is None else min(count, len(record.replicas))

    def address_of(self, node: int) -> tuple[str, int]:
        """Where clients reach a broker: the host and port that it registered with."""
        broker = self.image.brokers.get(node)
        if broker is None or len(broker.endpoint) < 2:
            return "", -1
        return broker.endpoint[0], int(broker.endpoint[1])

    def endpoint_of(self, node: int) -> tuple[int, str, int, str | None] | None:
        """For an answer that names it as a leader (KIP-951); None: it has not registered."""
        host, port = self.address_of(node)
        return None if port < 0 else (node, host, port, self.image.brokers[node].rack)
