"""An event loop beside a thread that works: what it waits for goes on while the thread computes.

Spark calls us in plain functions and takes batches one by one. The client is asynchronous, and asks
for the next chunk while this one is in use; for that its loop has to run, so it has its own thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Self, TypeVar

T = TypeVar("T")
_END = object()


class BackgroundLoop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="sexton-loop", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.ahead(work).result()

    def ahead(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """It goes on while the thread does something else."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def each(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """What an asynchronous generator gives, here; closing this one closes that one."""
        try:
            while True:
                item = self.run(_next(items))
                if item is _END:
                    return
                yield item  # type: ignore[misc]
        finally:
            self.run(_close(items))

    @staticmethod
    async def _cancel_all() -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def _next(items: AsyncGenerator[T, None]) -> T | object:
    return await anext(items, _END)


async def _close(items: AsyncGenerator[T, None]) -> None:
    await items.aclose()
