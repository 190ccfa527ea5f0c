"""What an instance does: a worker for each task and each copy, and a member of the group.

    group ──share──▶ instance ──give(role)──▶ worker ──▶ (machines.stores decides)
          ◀─claims──          ◀──failed, caught up──

Beside that it tells people how restores go and how warm copies are. A call of `process` that does
not come back cannot be stopped; the instance then leaves the group, so that others have its tasks,
and whatever the call returns at last is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from sexton.base.errors import ConfigError, PeerError, Refused, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.agreeing import known
from sexton.client.client import Client
from sexton.client.settings import client_config
from sexton.machines.stores_assignment import Share, TaskId
from sexton.machines.stores_events import Role
from sexton.stores import changelog as changelogs
from sexton.stores import disks
from sexton.stores.changelog import Changelog
from sexton.stores.fetching import Fetcher
from sexton.stores.group import Group, GroupConfig
from sexton.stores.partitioner import Partitioner
from sexton.stores.sayings import Claims
from sexton.stores.surroundings import Surroundings
from sexton.stores.task import AppConfig, Task
from sexton.stores.warmth import Telling
from sexton.stores.watching import Watch
from sexton.stores.worker import Worker

_TOLD_S = 2.0  # between two lines about a restore, two words about copies, two looks at topics
_QUIET_S = 60.0  # after Kafka refused to listen to those
_CLOSING_S = 30.0

log = logging.getLogger("sexton.stores")


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
        self.causes: dict[TaskId, Exception | None] = {}  # of these; None: nothing was raised
        self.input_partitions: dict[str, int] = {}
        self._changelogs: dict[str, Changelog] = {}
        self._input_ids: dict[str, bytes] = {}  # of each task
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
            left_behind=lambda: self._group.ask_again(),
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
            self._partitions,
            self._shared,
            self._renewed,
            self._lost,
            self._hindered,
        )
        self._telling = Telling(self._client, config.application_id, config.instance)
        self._watch = Watch(self._client, self._around.partitions)

    @property
    def generation(self) -> int:
        return self._group.generation

    # ── from start to end ──

    async def begin(self) -> None:
        try:
            if self.config.store == "rocksdb":
                disks.must_be_installed()
            await self._find_topics()
        except BaseException:
            await self.end()
            raise
        await self._open_what_is_there()
        self._background = [
            asyncio.create_task(self._group.run(), name="group"),
            asyncio.create_task(self._tell_restores(), name="restores"),
            asyncio.create_task(self._tell_copies(), name="copies"),
            asyncio.create_task(self._look_at_topics(), name="topics"),
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
        if not self._watch.is_changed:
            await self._settle(workers)
        await self._group.leave()
        closing = [asyncio.create_task(each.close()) for each in workers]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSING_S)
            if (why := self._busy_for(0)) is not None:
                log.error("this instance ends when process() returns: %s", why, extra={"why": why})
            await asyncio.gather(*closing, return_exceptions=True)
        self.workers.clear()
        await self._around.fetcher.close()
        for client in (self._client, self._fetching, self._joining):
            await client.close()
        self._pool.shutdown(wait=True)

    async def _settle(self, workers: list[Worker]) -> None:
        try:
            async with asyncio.timeout(_CLOSING_S):
                await asyncio.gather(*(each.settle() for each in workers))
        except TimeoutError:
            log.warning("not everything could be committed in time; it will be processed again")

    async def _find_topics(self) -> None:
        # By name: a list of all topics would silently lack those that we may not see.
        topics = {
            each for task in self.tasks.values() for each in (task.input, task.output) if each
        }
        there = (await known(self._client, topics)).topics
        for task in self.tasks.values():
            found = there.get(task.input)
            if found is None:
                hint = "create it first, with as many partitions as there is to be parallel work"
                raise ConfigError(task.input, "there is no such topic", hint)
            count = self.input_partitions[task.name] = len(found.partitions)
            self._input_ids[task.name] = found.topic_id
            self._watch.input(found)
            if task.output is not None:
                output = there.get(task.output)
                if output is None:
                    raise ConfigError(task.output, "there is no such topic", "create it first")
                self._around.partitions[task.output] = Partitioner(len(output.partitions))
            name = self.config.changelog(task.name)
            found_log = self._changelogs[task.name] = await changelogs.ensure(
                self._client, name, count, self.config.replication_factor
            )
            self._watch.changelog(name, found_log.lineage.topic_id)

    async def _open_what_is_there(self) -> None:
        """Copies from an earlier life, to be named when we join."""
        if self.config.store != "rocksdb":
            return
        for name, count in self.input_partitions.items():
            for id_ in (TaskId(name, partition) for partition in range(count)):
                if self.config.directory(*id_).is_dir():
                    await self._worker(id_)

    async def _worker(self, id_: TaskId) -> Worker:
        worker = self.workers.get(id_)
        if worker is None:
            task = self.tasks[id_.task]
            input_id = self._input_ids[id_.task]
            worker = Worker(id_, task, self._changelogs[id_.task], self._around, input_id)
            await worker.open()
            self.workers[id_] = worker
        return worker

    # ── what the group asks and says ──

    async def _claims(self) -> Claims:
        owned = sorted(self._owned)
        workers = {id_: w for id_, w in self.workers.items() if w.position > 0 and not w.is_old}
        copies = {id_: each.position for id_, each in workers.items()}
        lags = {id_: each.missing for id_, each in workers.items() if each.missing is not None}
        return Claims({task.name: task.input for task in self.tasks.values()}, owned, copies, lags)

    async def _partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """One that only others read is looked up; one that we may not see is left out."""
        ours = {task.input: self.input_partitions[task.name] for task in self.tasks.values()}
        found = dict(ours)
        for topic in sorted(set(topics) - set(ours)):
            try:
                found[topic] = len((await self._joining.topology([topic])).topic(topic).partitions)
            except Refused as error:
                about = {"topic": topic, "why": str(error)}
                log.warning("%s: its tasks stay where they are: %s", topic, error, extra=about)
        return found

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
                self._task_failed(id_, str(error), error)
                continue
            worker.give(role, generation)
        self._owned = {id_ for id_ in active if id_ in self.workers}
        about = {"generation": generation, "active": _names(active), "standby": _names(standby)}
        text = "share of the tasks in generation %s: %s; copies: %s"
        log.info(text, *about.values(), extra=about)
        return bool(given_up)

    async def _lost(self) -> None:
        """Returns when no call works for what is gone: what we are given next begins at once."""
        self._owned = set()
        for worker in self.workers.values():
            worker.give(Role.NONE, -1)
        while True:
            try:
                async with asyncio.timeout(self.config.max_poll_interval_ms / 1000):
                    await asyncio.gather(*(each.heard() for each in self.workers.values()))
                return
            except TimeoutError:
                why = self._busy_for(0) or "a task does not let go"
                log.error("out of the group until process() returns: %s", why, extra={"why": why})

    def _hindered(self) -> str | None:
        return self._busy_for(self.config.max_poll_interval_ms / 1000)

    def _busy_for(self, most_s: float) -> str | None:
        """A call of `process` that takes longer."""
        for id_, worker in self.workers.items():
            busy_s = worker.calling.busy_s()
            if busy_s > most_s:
                where = f"{id_.task}-{id_.partition}, input {worker.calling.at_input}"
                return f"process() takes {busy_s:.0f} s: {where}"
        return None

    def _caught_up(self, id_: TaskId) -> None:
        """A copy that was made to move its task here is ready."""
        if id_ in self._warming:
            self._warming.discard(id_)
            self._group.ask_again()

    def _task_failed(self, id_: TaskId, why: str, error: Exception | None) -> None:
        self.failures[id_], self.causes[id_] = why, error
        self._failed.set()

    async def _look_at_topics(self) -> None:
        while True:
            await asyncio.sleep(_TOLD_S)
            with suppress(PeerError, Refused):  # the next look may go better
                await self._watch.look()

    async def _tell_restores(self) -> None:
        while True:
            await asyncio.sleep(_TOLD_S)
            for worker in self.workers.values():
                if worker.restore is not None:
                    about = {"task": str(worker), "how": str(worker.restore)}
                    log.info("%s: restoring: %s", *about.values(), extra=about)

    async def _tell_copies(self) -> None:
        """For people who look from outside; whatever is in the way of it, work goes on."""
        while True:
            await asyncio.sleep(_TOLD_S)
            copies = {
                TopicPartition(self.config.changelog(id_.task), id_.partition): each.warmth
                for id_, each in self.workers.items()
                if each.state == "standby" and each.lag >= 0
            }
            try:
                await self._telling.tell(copies.items())
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing hangs on it
                why = str(error)
                log.info("cannot tell how warm copies are: %s", why, extra={"why": why})
                await asyncio.sleep(_QUIET_S)


def _role(id_: TaskId, active: set[TaskId], standby: set[TaskId]) -> Role:
    if id_ in active:
        return Role.ACTIVE
    return Role.STANDBY if id_ in standby else Role.NONE


def _names(ids: Iterable[TaskId]) -> str:
    return " ".join(f"{task}-{partition}" for task, partition in sorted(ids)) or "none"
