"""Time and cleaning in an embedded cluster: the clock moves, and what is due by it is done now.

A pass ends when the replicas have told each other how far they got, as far as they hear each other:
a test that cleans twice removes with the second pass what the first one allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

from sexton.base.errors import ConfigError, PeerError
from sexton.base.partitions import TopicPartition
from sexton.broker.compiling import have_kernels
from sexton.node.broker import Broker
from sexton.node.messages import CleanNow, CleanNowAnswer, ConferNow
from sexton.node.replica import Leading, Replica
from sexton.testing.embedded_ground import Ground
from sexton.testing.waiting import TimedOut

SETTLE_S = 1.0  # for news of what may be forgotten to go round; a network that is cut takes longer


class Cleaning(Ground):
    async def advance_clock(self, by: timedelta | int) -> None:
        """The time of day goes forward, by so much or so many milliseconds.

        It decides about retention, delete horizons, the age of segments and transaction timeouts.
        Sessions, heartbeats and request timeouts go by another clock, which nobody can move.
        """
        ms = int(by.total_seconds() * 1000) if isinstance(by, timedelta) else by
        if ms < 0:
            raise ConfigError("advance_clock", f"by {ms} ms", "time goes forward only")
        self._cluster.clock.ahead_ms += ms

    async def now_ms(self) -> int:
        """The time of day as the brokers have it."""
        return self._cluster.clock.now_ms()

    async def let_time_pass(self, ms: int) -> None:
        """The clock goes forward, and brokers do what is due by it: retention and cleaning."""
        await self.advance_clock(ms)
        for node in self._cluster.numbers:
            broker = self._cluster.broker(node)
            if broker is not None and not self._is_paused(node):
                self._act(node, broker, broker.replicas._retain)
        await self.clean()

    async def clean(self, *nodes: int, force: bool = False) -> None:
        """One pass over every log that is worth it, on these brokers or on all that run.

        Then the replicas tell each other how far they got. With `force` a new segment begins first
        and the dirty ratio does not count, so that everything up to the end is cleaned.
        """
        await asyncio.to_thread(have_kernels)
        # A follower learns of the high watermark with its next fetch, and cleans only below it.
        known = self._high_watermarks()
        await self._calm(
            lambda: all(high >= known.get(at, 0) for at, high in self._in_sync()),
            "news of high watermarks with followers",
        )
        for node in nodes or [n for n in await self.running() if not self._is_paused(n)]:
            await self._clean_broker(node, force)
        await self._confer()

    async def _clean_broker(self, node: int, force: bool) -> None:
        broker = self._broker_or_raise(node)
        if self._is_paused(node):
            raise ConfigError(f"broker {node}", "is paused and cleans nothing", "resume it first")
        if not force:
            await self._clean_what_is_due(node, broker)
            return
        answer = await self._cluster.ask(node, CleanNow())
        if not isinstance(answer, CleanNowAnswer):
            raise ConfigError(f"broker {node}", "went away while it was cleaning")
        for partition, why in answer.failed:
            raise PeerError(f"broker {node}", f"cannot clean {partition}: {why}")

    async def _clean_what_is_due(self, node: int, broker: Broker) -> None:
        """What the broker's own timer does, for each log at once."""

        def idle() -> bool:
            return self._cluster.broker(node) is not broker or not broker.cleaning._busy

        def looked_at(replica: Replica, looks: list[None]) -> bool:
            if not looks and idle():  # its own timer may begin another pass before it hears this
                self._act(node, broker, partial(_begin_pass, broker, replica, looks))
            return bool(looks) or self._cluster.broker(node) is not broker

        for replica in list(broker.replicas.by_partition.values()):
            look = partial(looked_at, replica, [])
            await self._until(look, f"broker {node} done with a pass over {replica.partition}")
            if self._cluster.broker(node) is not broker:
                raise ConfigError(f"broker {node}", "went away while it was cleaning")
        await self._until(idle, f"broker {node} done with its passes")

    async def _confer(self) -> None:
        """A round of the conversation about what may be forgotten, which leaders begin by timer."""
        for node in self._cluster.numbers:
            if self._cluster.broker(node) is not None and not self._is_paused(node):
                await self._cluster.ask(node, ConferNow())
        await self._calm(self._agreed, "replicas agreed on what may be forgotten")

    async def _calm(self, settled: Callable[[], bool], what: str) -> None:
        """Gives the brokers a moment to hear of each other what there is to hear."""
        try:
            await self._until(settled, what, SETTLE_S)
        except TimedOut:
            pass  # somebody does not answer, perhaps on purpose: cleaning goes on with what it has

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        """The highest that anybody has, of every partition."""
        highest: dict[TopicPartition, int] = {}
        for at, known in self._in_sync():
            highest[at] = max(known, highest.get(at, 0))
        return highest

    def _in_sync(self) -> Iterator[tuple[TopicPartition, int]]:
        """The high watermarks of all replicas that are in sync and can be asked."""
        for at, record in self._cluster.image.partitions.items():
            for node in record.isr:
                broker = self._cluster.broker(node)
                replica = broker.replicas.by_partition.get(at) if broker else None
                if replica is not None and not self._is_paused(node):
                    yield at, replica.log.high_watermark

    def _agreed(self) -> bool:
        return all(
            self._agreed_on(replica, role)
            for broker in self._listening()
            for replica in broker.replicas.by_partition.values()
            if isinstance(role := replica.role, Leading)
        )

    def _agreed_on(self, replica: Replica, role: Leading) -> bool:
        talk = role.compaction
        if talk is None:
            return True
        if talk.proposed != talk.removable:
            return False
        for node, report in talk.reports.items():
            broker = self._cluster.broker(node)
            other = broker.replicas.by_partition.get(replica.partition) if broker else None
            if other is None or self._is_paused(node) or not other.state.accepted:
                continue
            if (report.progress, talk.removable) != (other.progress, other.removable):
                return False
        return True


def _begin_pass(broker: Broker, replica: Replica, looks: list[None]) -> None:
    """A pass if the log is worth it, unless another one is under way: `looks` grows if not."""
    if looks or broker.cleaning._busy:
        return
    looks.append(None)
    bounds, now_ms = replica.removable, broker.site.now_ms
    candidate = replica.cleaning.candidate(replica.log, now_ms, bounds.mtro, bounds.mxro)
    if candidate is not None:
        broker.cleaning._clean(replica, candidate)
