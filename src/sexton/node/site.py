"""What the parts of one broker share: its config, its disk, its picture of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from sexton.base.errors import ConfigError
from sexton.log.config import LogConfig
from sexton.log.directory import DataDirectory
from sexton.machines.metadata import Image
from sexton.node.config import BrokerConfig
from sexton.node.outside import CONTROLLER, Outside, Then

# Options of a topic that are not its log's business.
_REPLICATION_OPTIONS = ("min.insync.replicas", "unclean.leader.election.enable")


@dataclass(slots=True)
class Site:
    config: BrokerConfig
    outside: Outside
    directory: DataDirectory
    random: Random
    image: Image
    broker_epoch: int = -1  # given by the controller, anew for each process

    @property
    def node(self) -> int:
        return self.config.node_id

    @property
    def now_ms(self) -> int:
        return self.outside.now_ms

    @property
    def clock_ms(self) -> int:
        return self.outside.clock_ms

    def ask_controller(self, request: object, then: Then) -> None:
        self.outside.ask(CONTROLLER, request, then, self.config.request_timeout_ms)

    def log_config(self, topic: str) -> LogConfig:
        """The broker's defaults with the topic's own options over them."""
        options = self.image.options_of("topic", topic)
        own = {name: value for name, value in options.items() if name not in _REPLICATION_OPTIONS}
        try:
            return self.config.log.with_options(own)
        except ConfigError:
            return self.config.log  # the controller let a bad value in: behave, and say so there

    def min_insync_replicas(self, topic: str) -> int:
        own = self.image.options_of("topic", topic).get("min.insync.replicas")
        return self.config.min_insync_replicas if own is None else int(own)

    def address_of(self, node: int) -> tuple[str, int]:
        """Where clients reach a broker: the host and port that it registered with."""
        broker = self.image.brokers.get(node)
        if broker is None or len(broker.endpoint) < 2:
            return "", -1
        return broker.endpoint[0], int(broker.endpoint[1])
