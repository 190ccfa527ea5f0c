"""The main loop: polls the group, lets rounds run, has them committed.

    consumer ──▶ begin (machines.retry_task) ──▶ pool ──▶ finish ──▶ committer ──▶ confirmed
       ▲                                                                              │
       └───────────────── polled all the while, paused when it takes long ────────────┘

All decisions are the machine's and all of them are taken in this one thread, the group's callbacks
included: librdkafka calls them from within a poll. So when a partition is taken away, what runs is
cut short, waited for and committed before the group hears that we have let go. One rule carries the
proof of fencing: *no commit is under way when a callback returns*, so the generation that a commit
carries is always that of a time at which all of its partitions were ours.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from sexton.base.errors import ConfigError, PeerError, Refused, SextonError
from sexton.client.settings import client_config
from sexton.machines.retry_records import TaskName
from sexton.machines.retry_task import Ended, Task
from sexton.report.serving import Server
from sexton.retry.background import Background
from sexton.retry.commits import Commits, done
from sexton.retry.config import RetryConfig
from sexton.retry.doubts import ask_new_leaders, start_again
from sexton.retry.handlers import Handling, Plan
from sexton.retry.inflow import Inflow
from sexton.retry.membership import Membership, membership
from sexton.retry.metrics import Counters, Standing
from sexton.retry.owned import Owned
from sexton.retry.pool import Pool
from sexton.retry.producing import (
    Committer,
    CompensatingWriter,
    Limits,
    TransactionalWriter,
    Writer,
    commit_offsets,
)
from sexton.retry.records_out import Part
from sexton.retry.rights import Rights
from sexton.retry.rounds import Begun, CalmOne, Entry, Rounds, Running, now, part_of
from sexton.retry.starting import StartedUp
from sexton.retry.tasks_io import TasksIo
from sexton.retry.telling import Telling
from sexton.retry.topics import Shape
from sexton.retry.watching import Watch

log = logging.getLogger("sexton.retry")

IDLE_S = 0.2  # at most, before the loop looks whether anybody wants it to stop
EAGER_S = 0.01  # while something else than a message is waited for
QUIET_S = 1.0  # so long a round may take before the group is polled meanwhile


class Service:
    """One life of an instance, from joining the group to leaving it."""

    def __init__(self, config: RetryConfig, handling: Handling) -> None:
        self.config = config
        self.counters = Counters(config.names.main, config.group)
        self.stopping = threading.Event()
        self.joined = threading.Event()  # was assigned something, or nothing
        self._handling = handling
        self._telling = Telling()
        self._owned: dict[int, Owned] = {}
        self._running: Running | None = None
        self._watch = Watch()
        self._transactional_id = config.transactional_id()
        self._limits = Limits()
        self._stops_s: float | None = None  # when handlers that still run are left to themselves
        self.beside: Server | None = None  # serves metrics

    # ── from beginning to end ──

    def run(self) -> None:
        config = self.config
        name = f"sexton-retry {config.group}"
        client = client_config({"client.id": "sexton-retry", **config.settings})
        self.background = Background(config.settings["bootstrap.servers"], client, f"{name} io")
        self._rights = Rights(self.background, config)
        self._io = TasksIo(self.background, config, self._rights.check)
        try:
            if self.beside is not None:
                self.background.submit(self.beside.start()).result()
            shape = self._prepared()
            if shape is None:
                return
            self._shape: Shape = shape
            self._committer = Committer(self._writer, f"{name} commits")
            self._commits = Commits(
                self._committer, self._limits, self._member, self._offsets(), self.counters,
                self._handling.refusals, self._confirmed, self._failed,
                self._rights.check, self._telling,
            )  # fmt: skip
            self._rounds = Rounds(self._handling, self._io, self.counters)
            self._pool = Pool(self._handling, config.workers, config.max_batch, f"{name} handler")
            try:
                self._join()
                while not self.stopping.is_set():
                    self._step()
            finally:
                self._leave()
        finally:
            if self.beside is not None:
                self.background.submit(self.beside.stop()).result()
            self.background.close()

    def _prepared(self) -> Shape | None:
        """None: we are to stop. A coordinator that is away is waited for, but not then."""
        preparing = self._io.prepare()
        is_done = done(preparing)
        while not is_done(0.1):
            if self.stopping.is_set():
                return None
        try:
            return preparing.result()
        except Refused as error:
            self._rights.check(error)
            raise

    def _join(self) -> None:
        self.consumer = Consumer(self.config.consumer(), logger=log)
        most, denied = self.config.max_batch, self._rights.check
        self._inflow = Inflow(self.consumer, self._owned, most, denied)
        opening, end_s = self._committer.open(), time.monotonic() + 2 * self._limits.commit_s
        is_done = done(opening)
        while not is_done(0.1) and time.monotonic() < end_s:
            if self.stopping.is_set():
                return
        try:
            opening.result(0)
        except (KafkaException, NotYet) as error:
            self.consumer.close()
            if isinstance(error, KafkaException):
                self._rights.check(error.args[0].code())
            why = f"cannot begin to write: {error}"
            hint = 'brokers without transactions: mode="compensating"'
            raise PeerError(self.config.settings["bootstrap.servers"], why, hint) from error
        self.consumer.subscribe(
            [self.config.names.main],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )
        self._say(logging.INFO, "joins")

    def _leave(self) -> None:
        self.stopping.set()
        try:
            self._settle()
            self.consumer.close()  # calls `_revoked`
        except (RuntimeError, AttributeError):
            pass  # it never opened
        finally:  # a commit that is refused for good is told so, and ends nobody's duties
            self._pool.close()
            self._committer.close(1.0)
        self._telling.tell_rest(at_once=True)
        self._say(logging.INFO, "left")

    def _writer(self) -> Writer:
        is_transactional = self.config.machine.mode == "transactional"
        writer = TransactionalWriter if is_transactional else CompensatingWriter
        settings = self.config.producer(self._transactional_id, self._shape.most_bytes)
        settings["logger"] = log
        return writer(settings, self.config.names, self._limits)

    def _member(self) -> Membership:
        return membership(self.consumer.consumer_group_metadata())

    def _offsets(self) -> Callable[[Sequence[Part]], None] | None:
        if self.config.machine.mode == "transactional":
            return None
        return lambda parts: commit_offsets(self.consumer, parts)

    # ── one turn ──

    def _step(self) -> None:
        start_again(self._owned, self._settle, self._start)
        self._take_started()
        self._take_tails()
        self._telling.tell_rest()
        under_way = self._commits.is_under_way
        polled = self._inflow.take(0.0 if under_way else self._idle_s())
        ask_new_leaders(self._io, self._owned, polled, self._wait)
        if not polled and under_way:
            self._settle()
            return
        calm = self._rounds.calm(self._all(), polled) if self._pool.in_order else []
        rounds: list[Begun] = []
        if polled or not calm or self._rounds.is_any_due(self._owned.values()):
            self._settle()
            rounds = self._with_payloads(self._rounds.begin(self._all(), polled))
        calm = [each for each in calm if each[0].task is each[1]]  # of those that are still ours
        if rounds or calm:
            self._handle(rounds, calm)
            self._go_on_after(calm)
            self._complete()

    def _all(self) -> list[Owned]:
        return list(self._owned.values())

    def _handle(self, rounds: list[Begun], calm: list[CalmOne]) -> None:
        plan = Plan([of for _, _, of in rounds], [each for _, _, each in calm])
        self._run(Running(rounds, calm, self._pool.run(plan)))

    def _run(self, running: Running) -> None:
        self._running = running
        try:
            self._wait(running.execution.wait)
        except BaseException:
            if running.execution.error is not None:
                self._running = None  # nothing of it is committed
            raise
        finally:
            self._watch.over()

    def _go_on_after(self, calm: list[CalmOne]) -> None:
        """Where the calm has ended, the rest of what was polled is a round of the machine."""
        running = self._running
        if running is None or running.is_cut or all(each.failed is None for _, _, each in calm):
            return
        self._settle()
        if self._running is not running:
            return  # a callback has completed it meanwhile
        rounds: list[Begun] = []
        left: list[CalmOne] = []
        for owned, task, each in calm:
            if each.failed is None or owned.task is not task:
                left.append((owned, task, each))
            else:
                self.counters.count("attempts", each.done, outcome="done")
                of = self._rounds.after_calm(owned, task, each, all_of_it=True)
                rounds.append((owned, task, of))
        plan = Plan([of for _, _, of in rounds])
        self._run(Running([*running.rounds, *rounds], left, self._pool.run(plan)))

    def _idle_s(self) -> float:
        wait_s, now_ms = IDLE_S, now()
        for owned in self._owned.values():
            if owned.task is None:
                wait_s = min(wait_s, EAGER_S)
            elif (wake_ms := owned.task.wake_at_ms(now_ms)) is not None:
                wait_s = min(wait_s, (wake_ms - now_ms) / 1000)
        return wait_s

    def _with_payloads(self, begun: list[Begun]) -> list[Begun]:
        """Reads back what is not in memory; a task whose messages are not there starts again."""
        for each, future in self._rounds.missing(begun):
            self._wait(done(future))
            owned, task, _ = each
            if not self._rounds.is_complete(each, future) and owned.task is task:
                self._failed(owned, task, "unknown", "a waiting message cannot be found")
        ours = [(owned, task, of) for owned, task, of in begun if owned.task is task]
        return self._rounds.checked(ours)

    def _wait(self, is_done: Callable[[float], bool]) -> None:
        """Until it is; the group is polled meanwhile, and given no messages."""
        if is_done(QUIET_S):
            return
        self._inflow.pause(each for each in self._all() if not each.is_paused)
        while not is_done(0.1):
            if self._running is not None:
                self._watch.look(self._running)
            if self.stopping.is_set() and self._running is not None and self._gives_up():
                break
            if not self._callback:
                self._inflow.keep(self.consumer.poll(0))
        self._inflow.resume(each for each in self._all() if not each.is_paused)

    _callback = False  # inside one of the group's, nobody may poll

    def _complete(self) -> None:
        """What was handled is committed; harmless a second time."""
        if self._running is not None:
            if not self._callback and self._commits.is_under_way:
                self._inflow.poll_ahead()  # for the round after this one, while that one ends
            self._settle()  # the commit before; a callback may complete this one meanwhile
        running, self._running = self._running, None
        if running is None:
            return
        entries = self._rounds.entries(running)
        self._inflow.put_back(running)
        if entries:
            self._commit(entries)

    def _commit(self, entries: list[Entry]) -> None:
        waits = self._commits.submit(entries)
        if self._callback or self.stopping.is_set():
            self._settle()
        elif waits:
            self._inflow.poll_ahead()
            self._settle()

    def _settle(self) -> None:
        self._commits.settle(self._wait)

    def _confirmed(self, owned: Owned, task: Task) -> None:
        """Says what the task has to say, and does what it wants."""
        for report in task.take_reports():
            self.counters.count("reports", code=report.code)
            told = {"task": str(task.name), "code": report.code, "id": report.id}
            about = task.name if report.id is None else task.name.id_of(report.id).decode()
            log.warning("%s: %s: %s", about, report.code, report.text, extra=told)
        if owned.gone or owned.task is not task:
            return
        if task.restart is not None:
            self._start(owned, "asked")
        elif task.reads_main == owned.is_paused:
            owned.is_paused = not task.reads_main
            (self._inflow.resume if task.reads_main else self._inflow.pause)([owned])

    def _failed(self, owned: Owned, task: Task, how: Ended, why: str) -> None:
        extra = {"task": str(task.name), "how": how, "why": why}
        log.warning("%s: a round is not committed (%s): %s", *extra.values(), extra=extra)
        is_ours = not owned.gone and self._owned.get(owned.partition) is owned
        if task.failed(how, is_ours) == "start up again" and owned.task is task:
            self._start(owned, how)

    # ── starts ──

    def _start(self, owned: Owned, why: str) -> None:
        pause_s = owned.restart() if why != "assigned" else 0.0
        self._inflow.forget({owned.partition}, moved=False)
        if not owned.is_paused:
            owned.is_paused = True
            self._inflow.pause([owned])
        owned.starting = self._io.start_up(owned.name, pause_s)
        self.counters.count("starts", why=why)

    def _take_started(self) -> None:
        entries: list[Entry] = []
        if any(each.starting or each.started for each in self._owned.values()):
            self._settle()
        for owned in list(self._owned.values()):
            if owned.starting is not None and owned.starting.done():
                self._take(owned, owned.starting)
            if owned.started is not None and self._seek(owned, owned.started.position):
                task = owned.started
                commit = task.reap()
                owned.ready(task)
                about = {
                    "task": str(task.name), "position": task.position,
                    "pending": len(task.pending), "barrier_s": round(owned.barrier_s, 3),
                }  # fmt: skip
                text = "%s: ready at %d, %d messages wait, it took %.3f s"
                log.info(text, *about.values(), extra=about)
                if commit is not None:
                    entries.append((owned, task, part_of(owned, task, commit, None)))
                else:
                    self._confirmed(owned, task)
        if entries:
            self._commit(entries)

    def _take(self, owned: Owned, starting: Future[StartedUp]) -> None:
        owned.starting = None
        try:
            owned.has_started(starting.result())
        except CancelledError:
            pass
        except ConfigError:
            raise
        except SextonError as error:
            self._rights.check(error)
            about = {"task": str(owned.name), "why": str(error)}
            log.warning("%s: cannot start: %s", *about.values(), extra=about)
            self._start(owned, "failed start")

    def _seek(self, owned: Owned, position: int) -> bool:
        """False: librdkafka is not ready for it."""
        topic, partition = owned.name.topic, owned.partition
        try:
            self.consumer.seek(TopicPartition(topic, partition, position))
        except KafkaException:
            return False
        self._inflow.forget({partition}, moved=False)
        return True

    def _take_tails(self) -> None:
        tails = self._io.tails(self._owned.values())
        if tails:
            self._settle()
        for name, rows, position in tails:
            owned = self._owned.get(name.partition)
            if owned is not None and owned.task is not None and position > owned.tail_at:
                owned.tail_at = position
                owned.task.tail(rows)
                self._confirmed(owned, owned.task)

    # ── the group ──

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._inflow.forget({at.partition for at in partitions}, moved=True)
        for at in partitions:
            # Where to begin is found out at the start. librdkafka, left alone, would ask for the
            # group's offset, and for ever wait if the coordinator moves then (its issue 5586). It
            # may come back to this offset after the seek: see `inflow` why it is not the end.
            at.offset = OFFSET_BEGINNING
        if self.config.incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        if partitions:
            consumer.pause(partitions)
        self._rounds.generation = self._member().generation
        for at in partitions:
            owned = Owned(TaskName(at.topic, at.partition))
            self._owned[at.partition] = owned
            self._start(owned, "assigned")
        self.joined.set()
        self._say(logging.INFO, "assigned", partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._callback = True
        try:
            if self._running is not None:
                self._running.execution.plan.cut = True
                while not self._running.execution.wait(0.1):
                    self._watch.look(self._running)
                    if self.stopping.is_set() and self._gives_up():
                        break
                self._complete()
            self._settle()
        finally:
            self._callback = False
        self._forget(partitions)
        if self.config.incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self._say(logging.INFO, "revoked", partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Somebody else has them already: nothing is committed any more."""
        self._callback = True
        try:
            if self._running is not None:
                self._running.execution.plan.cut = True
            self._forget(partitions)
            self._settle()
        finally:
            self._callback = False
        if self.config.incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        self._say(logging.WARNING, "lost", partitions)

    def _gives_up(self) -> bool:
        """We are to stop: nothing more is begun, and what runs is not waited for for ever."""
        assert self._running is not None
        self._running.execution.plan.cut = True
        self._stops_s = self._stops_s or time.monotonic() + self.config.shutdown_timeout_s
        if time.monotonic() < self._stops_s:
            return False
        log.error("a handler does not end; its message will be handled again")
        for owned, *_ in (*self._running.rounds, *self._running.calm):
            owned.leave()
        return True

    def _forget(self, partitions: list[TopicPartition]) -> None:
        gone = {at.partition for at in partitions}
        for partition in gone:
            owned = self._owned.pop(partition, None)
            if owned is not None:
                owned.leave()
        self._inflow.forget(gone, moved=True)

    # ── for others ──

    def standings(self) -> list[Standing]:
        now_ms, owned = now(), list(self._owned.values())
        return [
            each.standing(now_ms, self._watch.seconds(each.name))
            for each in sorted(owned, key=lambda o: o.partition)
        ]

    def _say(self, level: int, what: str, partitions: Sequence[TopicPartition] = ()) -> None:
        """In the text as well: most formats of log lines leave out what is beside it."""
        group, topic = self.config.group, self.config.names.main
        about: dict[str, object] = {"group": group, "topic": topic}
        which = ""
        if partitions:
            about["partitions"] = numbers = [at.partition for at in partitions]
            which = " " + ", ".join(map(str, numbers))
        log.log(level, "%s on %s: %s%s", group, topic, what, which, extra=about)
