"""An event loop in a thread of its own, and a client of the cluster on it.

The main loop belongs to the consumer and must come back to it in time. What may take longer goes
here: start-ups, payloads that are read back, a look at the retry topic, metrics for a visitor.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from sexton.client.client import Client
from sexton.client.connection import ClientConfig

T = TypeVar("T")


class Background:
    def __init__(self, bootstrap_servers: str, config: ClientConfig, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self.client = Client(bootstrap_servers, config)
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Ends whatever is still under way."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.close()
