"""When does a coordinator's machine hear that time has passed? At the earliest time it asked for.

A machine asks to be woken, and asks again when something is due earlier. Whenever it is woken it
asks for the next time. So if every wish led to a tick, each earlier one would bring one tick more
for ever: it asks for the next time, as the others do. One wish is kept for each machine:

    asks for 100 ───────────────────────── (forgotten)
         asks for 50 ──▶ tick, asks for 100 ──▶ tick

A later wish that comes after an earlier one is of a step that the earlier one interrupted: it may
be forgotten as well, for the tick brings the next wish.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.partitions import TopicPartition
from sexton.node.site import Site


class Waking:
    def __init__(self, site: Site, tick: Callable[[TopicPartition], None]) -> None:
        self._site = site
        self._tick = tick
        self._wishes: dict[TopicPartition, tuple[int, int]] = {}  # when, and its number
        self._count = 0

    def after(self, partition: TopicPartition, delay_ms: int) -> None:
        outside, delay_ms = self._site.outside, max(delay_ms, 0)
        at_ms, known = outside.clock_ms + delay_ms, self._wishes.get(partition)
        if known is not None and known[0] <= at_ms:
            return
        self._count += 1
        wish = self._wishes[partition] = at_ms, self._count

        def wake() -> None:
            if self._wishes.get(partition) == wish:
                del self._wishes[partition]
                self._tick(partition)

        outside.after(delay_ms, wake)

    def forget(self, partition: TopicPartition) -> None:
        """Its machine is gone, and the next one has its own wishes."""
        self._wishes.pop(partition, None)
