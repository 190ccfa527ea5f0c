"""What everything rests on that one does to an embedded cluster: to ask, to act, to wait.

It runs on the cluster's own event loop, so that nothing moves between a look and an act.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.partitions import TopicPartition
from sexton.broker.cluster import LocalCluster
from sexton.machines import controller as admin
from sexton.machines.metadata import PartitionRecord
from sexton.node.broker import Broker
from sexton.node.outside import CONTROLLER, Action, Woken
from sexton.testing.waiting import TimedOut

Seen = TypeVar("Seen")

LOOK_AGAIN_S = 0.001


class Ground:
    def __init__(self, cluster: LocalCluster, noticed_after_ms: int | None = None) -> None:
        self._cluster = cluster
        self._noticed_after_ms = noticed_after_ms

    async def running(self) -> list[int]:
        """The brokers that run, paused ones too."""
        return [node for node in self._cluster.numbers if self._cluster.broker(node) is not None]

    def _is_paused(self, node: int) -> bool:
        return self._cluster.hosts[node].paused

    async def _order(self, request: object) -> None:
        """Has the controller do something; Refused if it does not."""
        answer = await self._cluster.ask(CONTROLLER, request)
        if answer is None:
            raise PeerError("the controller", "did not answer")
        if isinstance(answer, admin.Failed):
            raise Refused(answer.error, answer.message)

    def _record(self, at: TopicPartition) -> PartitionRecord | None:
        return self._cluster.image.partitions.get(at)

    def _broker_or_raise(self, node: int) -> Broker:
        broker = self._cluster.broker(node)
        if broker is None:
            raise ConfigError(f"broker {node}", "does not run", f"restart({node}) starts it")
        return broker

    def _listening(self) -> list[Broker]:
        """Brokers that hear what the controller says."""
        found = []
        for node in self._cluster.numbers:
            broker = self._cluster.broker(node)
            heard = not self._cluster.switchboard.is_cut(CONTROLLER, node)
            if broker is not None and heard and not self._is_paused(node):
                found.append(broker)
        return found

    async def _everyone_knows(self, partitions: list[TopicPartition]) -> None:
        def known() -> bool:
            images = [broker.site.image for broker in self._listening()]
            return all(
                i.partitions.get(at) == self._record(at) for i in images for at in partitions
            )

        names = ", ".join(map(str, partitions[:3]))
        await self._until(known, f"news of {names} with every broker")

    def _act(self, node: int, broker: Broker, action: Action) -> None:
        """Has a node do something as if a timer of its own had come."""
        broker.site.outside.after(0, action)
        self._cluster.switchboard.deliver(self._cluster.hosts[node], Woken())

    async def _until(
        self,
        ask: Callable[[], Seen | None],
        what: str,
        timeout_s: float = 30.0,
        explain: Callable[[], str] = lambda: "",
    ) -> Seen:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            answer = ask()
            if answer:
                return answer
            if loop.time() > deadline:
                raise TimedOut(what, f"not within {timeout_s:g} s{explain()}")
            await asyncio.sleep(LOOK_AGAIN_S)
