"""What a test, a scenario or a demonstration may expect of a Kafka cluster, whichever it is.

`EmbeddedCluster` and `ApacheKafka` both are one, so that whoever writes a scenario writes it once
and sees it happen on either. Brokers go by number, from 1 on. A call returns when it has taken
effect where a client would see it; on Apache Kafka not that of an option which is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sexton.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as its controller sees it: who leads, who has a replica, who is in sync."""

    leader: int  # -1 when there is none
    replicas: tuple[int, ...]  # in order of preference
    isr: tuple[int, ...]


class Cluster(Protocol):
    @property
    def bootstrap_servers(self) -> str:
        """For any Kafka client: `host:port,host:port`."""

    @property
    def node_ids(self) -> list[int]:
        """Every broker's number, whether it runs or not."""

    # ── topics ──

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]] | int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """`assignment` is a number of partitions, or the replicas of each; None: `num.partitions`.

        With a number each cluster has its own way: one replica on Apache Kafka, on an embedded
        cluster three if there are so many brokers, three in the simulator. Where it matters, name
        them.
        """

    def alter_topic(self, topic: str, configs: Mapping[str, object | None]) -> None:
        """Sets a topic's options; None takes one back to its default."""

    def partition(self, topic: str, partition: int = 0) -> PartitionState | None:
        """Who leads and who follows; None while nobody has heard of the partition."""

    def wait_for(
        self,
        topic: str,
        partition: int,
        good: Callable[[PartitionState], bool],
        timeout_s: float = 60.0,
    ) -> PartitionState:
        """Waits until `good` says yes to a partition's state."""

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Who leads now; waits while nobody does."""

    def elect(self, topic: str, partition: int, node: int) -> None:
        """Makes a replica the leader, once it is in sync."""

    def begin_reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Starts to move a partition to these replicas."""

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Moves a partition and waits until all of these are in sync."""

    # ── brokers ──

    def kill(self, node: int) -> None:
        """As by kill -9."""

    def stop(self, node: int) -> None:
        """In good order."""

    def restart(self, node: int) -> None:
        """Stops it if it runs, starts it again on the same files, waits until it is back."""

    def pause(self, node: int) -> None:
        """It keeps its connections and answers nothing."""

    def resume(self, node: int) -> None:
        """It goes on where it stood still."""

    def slow_down(self, node: int) -> None:
        """From now on this broker's replicas copy a little at a time; the broker is well."""

    def speed_up(self, node: int) -> None:
        """This broker's replicas copy as fast as they can again."""

    def hold_back(self, node: int) -> None:
        """For a moment this broker copies nothing: it must be let go before its session ends."""

    def let_go(self, node: int) -> None:
        """It copies again what it missed, if who has that is still there."""

    def data_directory(self, node: int) -> Path:
        """Where a broker has one directory for each partition."""

    # ── time ──

    def let_time_pass(self, ms: int) -> None:
        """Time passes, and every broker that runs does what cleaning is due."""
