"""An instance of an application: tasks shared with the other instances, copies kept warm.

    app = App("word-counts", [task], bootstrap_servers="localhost:9092", standbys=1)
    app.run()                                   until Ctrl-C, or a task fails
    with app: app.query("counts", 3).get("you") in a thread of its own, for a service or a test

Instances with the same application id are one consumer group. Each works on its share of the input
partitions and keeps copies of others; `machines.stores_assignment` says whose. What an instance
leaves in its state directory is used again when it comes back, if it is what it says it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sexton.base.errors import ConfigError, SextonError
from sexton.machines.stores_assignment import TaskId
from sexton.machines.stores_events import Role
from sexton.stores import rights
from sexton.stores.instance import Instance
from sexton.stores.instance_metrics import metrics_text
from sexton.stores.partitioner import Partitioner
from sexton.stores.serdes import serde_of
from sexton.stores.status import TaskStatus, status_of
from sexton.stores.task import AppConfig, Task
from sexton.stores.view import View


class TaskFailed(SextonError):
    """A task cannot go on: `process` raised, or its state could not be restored."""


class App:
    def __init__(
        self,
        application_id: str,
        tasks: Iterable[Task],
        *,
        bootstrap_servers: str,
        state_dir: Path | str = "state",
        standbys: int = 1,
        **options: Any,
    ) -> None:
        """`options` are those of `AppConfig`."""
        self.config = AppConfig(
            application_id, bootstrap_servers, Path(state_dir), standbys, **options
        )
        self.tasks = _by_name(tasks)
        self._instance: Instance | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended: Future[None] | None = None
        self._stopping: asyncio.Event | None = None

    # ── running ──

    def run(self) -> None:
        """Until Ctrl-C or SIGTERM; raises `TaskFailed` when a task cannot go on."""
        try:
            asyncio.run(self._main(Future(), signals=True))
        except KeyboardInterrupt:
            pass

    def start(self) -> None:
        """Runs in a thread; returns when it has begun to join the group."""
        if self._thread is not None:
            raise ConfigError("the application", "runs already")
        begun: Future[None] = Future()
        self._ended = Future()

        def body() -> None:
            assert self._ended is not None
            try:
                asyncio.run(self._main(begun))
                self._ended.set_result(None)
            except BaseException as error:  # noqa: BLE001 - it is told to whoever closes
                if not begun.done():
                    begun.set_exception(error)
                self._ended.set_exception(error)

        name = f"sexton-stores-{self.config.instance}"
        self._thread = threading.Thread(target=body, name=name, daemon=True)
        self._thread.start()
        failed = begun.exception()
        if failed is not None:
            self._thread.join()
            self._thread = None  # it can be started again once the cause is mended
            raise failed

    def close(self) -> None:
        """Commits, leaves the group, closes the stores; raises if a task had failed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None and thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it ended by itself meanwhile
                self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join()
        self._instance = None
        assert self._ended is not None
        self._ended.result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(TaskFailed):
                self.close()

    async def _main(self, begun: Future[None], *, signals: bool = False) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        if signals:  # what is committed and told stays so without this; it is only sooner
            self._loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        instance = Instance(self.config, self.tasks)
        try:
            await instance.begin()
            self._instance = instance
            begun.set_result(None)
            await instance.until(self._stopping)
        except SextonError as error:
            known = await rights.named(self.config, self.tasks.values(), error)
            if known is error:
                raise
            raise known from error
        finally:
            await instance.end()
        for id_, why in instance.failures.items():
            cause = instance.causes[id_]
            remedy = await rights.remedy_of(self.config, self.tasks.values(), cause)
            raise TaskFailed(f"{id_.task}-{id_.partition}", why, remedy) from cause

    # ── asking ──

    def query(self, task: str, partition: int) -> View:
        """The committed state of one partition as this instance has it, active or standby."""
        # What a role that has ended left behind is as old as it is, and grows older.
        used = {
            id_: each for id_, each in list(self._running.workers.items())
            if each.machine.role is not Role.NONE
        }  # fmt: skip
        worker = used.get(TaskId(task, partition))
        if worker is None:
            here = ", ".join(f"{t}-{p}" for t, p in sorted(used)) or "none"
            raise ConfigError(f"{task}-{partition}", "is not on this instance", f"here: {here}")
        return worker.view()

    def query_key(self, task: str, key: Any) -> View:
        """The same for the partition that a key of the input belongs to."""
        wanted = self.tasks[task]
        raw = serde_of(wanted.input_serdes[0]).encode(key)
        count = self._running.input_partitions[task]
        return self.query(task, Partitioner(count).of(raw))

    def status(self) -> list[TaskStatus]:
        """Every task that this instance works on or keeps a copy of."""
        return [status_of(each) for _, each in sorted(self._running.workers.items())]

    def failures(self) -> dict[TaskId, str]:
        """Tasks that cannot go on, and why; `close` raises the first of them."""
        return dict(self._running.failures)

    def metrics(self) -> str:
        """In Prometheus's text format."""
        instance = self._running
        return metrics_text(self.config, instance.numbers, self.status(), instance.generation)

    @property
    def _running(self) -> Instance:
        if self._instance is None:
            raise ConfigError("the application", "does not run", "start() it, or use `with`")
        return self._instance


def _by_name(tasks: Iterable[Task]) -> dict[str, Task]:
    names: dict[str, Task] = {}
    inputs: dict[str, str] = {}
    for task in tasks:
        if task.name in names:
            hint = "give each a name of its own: changelog and stores are called by it"
            raise ConfigError("tasks", f"two are called {task.name}", hint)
        # The group has one offset for a partition, and each of them would commit it.
        if task.input in inputs:
            why = f"{inputs[task.input]} and {task.name} both read {task.input}"
            hint = "make them one task with several outputs, or an App with another name"
            raise ConfigError("tasks", why, hint)
        names[task.name], inputs[task.input] = task, task.name
    if not names:
        raise ConfigError("tasks", "there are none")
    return names
