"""What all tasks of one instance share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sexton.client.client import Client
from sexton.machines.stores_assignment import TaskId
from sexton.stores.fetching import Fetcher
from sexton.stores.numbers import Numbers
from sexton.stores.partitioner import Partitioner
from sexton.stores.producing import Membership
from sexton.stores.task import AppConfig

T = TypeVar("T")


@dataclass(slots=True)
class Surroundings:
    config: AppConfig
    client: Client
    fetcher: Fetcher
    pool: ThreadPoolExecutor
    membership: Callable[[], Membership]
    failed: Callable[[TaskId, str, Exception | None], None]
    caught_up: Callable[[TaskId], None]
    partitions: dict[str, Partitioner] = field(default_factory=dict)  # of output topics
    numbers: Numbers = field(default_factory=Numbers)
    left_behind: Callable[[], None] = lambda: None  # a commit was refused in the group's name

    async def thread(self, work: Callable[..., T], *given: Any) -> T:
        """Waited for even by those who are cancelled: nobody else may touch the store meanwhile.

        However often they are: a task is taken away, and then the instance is closed.
        """
        future = asyncio.get_running_loop().run_in_executor(self.pool, work, *given)
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            future.exception()  # looked at, or it is logged as one that nobody looked at
            raise cancelled
        return future.result()
