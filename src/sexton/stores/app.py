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
import logging
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sexton.base.errors import ConfigError, SextonError
from sexton.client.client import Client
from sexton.client.settings import client_config
from sexton.machines.stores_assignment import Share, TaskId
from sexton.machines.stores_events import Role
from sexton.stores import changelog as changelogs
from sexton.stores.changelog import Changelog
from sexton.stores.fetching import Fetcher
from sexton.stores.group import Group, GroupConfig
from sexton.stores.instance_metrics import metrics_text
from sexton.stores.partitioner import Partitioner
from sexton.stores.sayings import Claims
from sexton.stores.serdes import serde_of
from sexton.stores.status import TaskStatus, status_of
from sexton.stores.surroundings import Surroundings
from sexton.stores.task import AppConfig, Task
from sexton.stores.view import View
from sexton.stores.worker import Worker

_TOLD_S = 2.0  # between two lines about a restore
_CLOSING_S = 30.0

log = logging.getLogger("sexton.stores")


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
        self.tasks = {task.name: task for task in tasks}
        if not self.tasks:
            raise ConfigError("tasks", "there are none")
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
        begun.result()

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
        finally:
            await instance.end()
        for id_, why in instance.failures.items():
            raise TaskFailed(f"{id_.task}-{id_.partition}", why)

    # ── asking ──

    def query(self, task: str, partition: int) -> View:
        """The committed state of one partition as this instance has it, active or standby."""
        worker = self._running.workers.get(TaskId(task, partition))
        if worker is None:
            here = ", ".join(f"{t}-{p}" for t, p in sorted(self._running.workers)) or "none"
            raise ConfigError(f"{task}-{partition}", "is not on this instance", f"here: {here}")
        return worker.view()

    def query_key(self, task: str, key: Any) -> View:
        """The same for the partition that a key of the input belongs to."""
        wanted = self.tasks[task]
        raw = serde_of(wanted.input_serdes[0]).encode(key)
        count = self._running.input_partitions[task]
        return self.query(task, Partitioner(count).of(raw))

    def status(self) -> list[TaskStatus]:
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


class Instance:
    """What runs on the event loop."""

    def __init__(self, config: AppConfig, tasks: dict[str, Task]) -> None:
        self.config, self.tasks = config, tasks
        timeouts = {"request.timeout.ms": str(config.request_timeout_ms)}
        known = client_config({**timeouts, **config.settings})
        # A broker answers a connection's questions one by one, and some of them take long.
        self._client = Client(config.bootstrap_servers, known)
        self._fetching = Client(config.bootstrap_servers, known)
        self._joining = Client(config.bootstrap_servers, known)
        self._pool = ThreadPoolExecutor(8, "sexton-stores-task")
        self.workers: dict[TaskId, Worker] = {}
        self.failures: dict[TaskId, str] = {}
        self.input_partitions: dict[str, int] = {}
        self._changelogs: dict[str, Changelog] = {}
        self._failed = asyncio.Event()
        self._owned: set[TaskId] = set()  # as of our last share: what we may say we own
        self._warming: set[TaskId] = set()
        self._background: list[asyncio.Task[None]] = []
        self._around = Surroundings(
            config,
            self._client,
            Fetcher(self._fetching, config.fetch_bytes),
            self._pool,
            lambda: self._group.membership,
            self._task_failed,
            self._caught_up,
        )
        self.numbers = self._around.numbers
        self._group = Group(
            self._joining,
            GroupConfig(
                config.application_id,
                config.instance,
                config.session_timeout_ms,
                config.rebalance_timeout_ms,
                config.heartbeat_interval_ms,
                config.standbys,
            ),
            self._claims,
            self._all_tasks,
            self._shared,
            self._renewed,
            self._lost,
        )

    @property
    def generation(self) -> int:
        return self._group.generation

    # ── from start to end ──

    async def begin(self) -> None:
        try:
            await self._find_topics()
        except BaseException:
            await self.end()
            raise
        await self._open_what_is_there()
        self._background = [
            asyncio.create_task(self._group.run(), name="group"),
            asyncio.create_task(self._tell_restores(), name="restores"),
        ]

    async def until(self, stopping: asyncio.Event) -> None:
        waited: list[asyncio.Future[Any]] = [
            asyncio.create_task(stopping.wait()),
            asyncio.create_task(self._failed.wait()),
            *self._background,
            self._around.fetcher.broken,
        ]
        done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for task in waited[:2]:
            task.cancel()
        for task in done:
            task.result()  # the group's loop ends only by what we did wrong

    async def end(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        workers = list(self.workers.values())
        try:
            async with asyncio.timeout(_CLOSING_S):
                await asyncio.gather(*(each.settle() for each in workers))
        except TimeoutError:
            log.warning("not everything could be committed in time; it will be processed again")
        await asyncio.gather(*(each.close() for each in workers), return_exceptions=True)
        self.workers.clear()
        await self._group.leave()
        await self._around.fetcher.close()
        for client in (self._client, self._fetching, self._joining):
            await client.close()
        self._pool.shutdown(wait=True)

    async def _find_topics(self) -> None:
        topology = await self._client.topology()
        for task in self.tasks.values():
            found = topology.topics.get(task.input)
            if found is None:
                hint = "make it first, with as many partitions as there is to be work in parallel"
                raise ConfigError(task.input, "there is no such topic", hint)
            count = self.input_partitions[task.name] = len(found.partitions)
            if task.output is not None:
                output = topology.topics.get(task.output)
                if output is None:
                    raise ConfigError(task.output, "there is no such topic", "make it first")
                self._around.partitions[task.output] = Partitioner(len(output.partitions))
            self._changelogs[task.name] = await changelogs.ensure(
                self._client,
                self.config.changelog(task.name),
                count,
                self.config.replication_factor,
            )

    async def _open_what_is_there(self) -> None:
        """Copies from an earlier life, to be named when we join."""
        if self.config.store != "rocksdb":
            return
        for id_ in await self._all_tasks():
            if self.config.directory(*id_).is_dir():
                await self._worker(id_)

    async def _worker(self, id_: TaskId) -> Worker:
        worker = self.workers.get(id_)
        if worker is None:
            task = self.tasks[id_.task]
            worker = Worker(id_, task, self._changelogs[id_.task], self._around)
            await worker.open()
            self.workers[id_] = worker
        return worker

    # ── what the group asks and says ──

    async def _claims(self) -> Claims:
        owned = sorted(self._owned)
        copies = {id_: each.position for id_, each in self.workers.items() if each.position > 0}
        return Claims({task.name: task.input for task in self.tasks.values()}, owned, copies)

    async def _all_tasks(self) -> list[TaskId]:
        return [
            TaskId(name, partition)
            for name, count in self.input_partitions.items()
            for partition in range(count)
        ]

    def _renewed(self, generation: int) -> None:
        for id_ in self._owned:
            self.workers[id_].give(Role.ACTIVE, generation)

    async def _shared(self, share: Share) -> bool:
        """True: something was given up, and the group should be told at once."""
        active, standby = set(share.active), set(share.standby)
        self._warming = set(share.warming)
        generation = self._group.generation
        given_up = sorted(self._owned - active)
        await asyncio.gather(*(self.workers[id_].settle() for id_ in given_up))
        for id_ in sorted(set(self.workers) | active | standby):
            if id_.task not in self.tasks:
                continue
            role = _role(id_, active, standby)
            if role is Role.NONE and id_ not in self.workers:
                continue
            try:
                worker = await self._worker(id_)
            except SextonError as error:
                self._task_failed(id_, str(error))
                continue
            worker.give(role, generation)
        self._owned = {id_ for id_ in active if id_ in self.workers}
        about = {"generation": generation, "active": _names(active), "standby": _names(standby)}
        log.info("share of the tasks", extra=about)
        return bool(given_up)

    async def _lost(self) -> None:
        self._owned = set()
        for worker in self.workers.values():
            worker.give(Role.NONE, -1)

    def _caught_up(self, id_: TaskId) -> None:
        """A copy that was made to move its task here is ready."""
        if id_ in self._warming:
            self._warming.discard(id_)
            self._group.ask_again()

    def _task_failed(self, id_: TaskId, why: str) -> None:
        self.failures[id_] = why
        self._failed.set()

    async def _tell_restores(self) -> None:
        while True:
            await asyncio.sleep(_TOLD_S)
            for id_, worker in self.workers.items():
                if worker.restore is not None:
                    about = {"task": f"{id_.task}-{id_.partition}", "how": str(worker.restore)}
                    log.info("restoring", extra=about)


def _role(id_: TaskId, active: set[TaskId], standby: set[TaskId]) -> Role:
    if id_ in active:
        return Role.ACTIVE
    return Role.STANDBY if id_ in standby else Role.NONE


def _names(ids: Iterable[TaskId]) -> str:
    return " ".join(f"{task}-{partition}" for task, partition in sorted(ids)) or "none"
