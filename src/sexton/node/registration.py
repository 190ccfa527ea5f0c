"""This broker's place in the cluster: it registers, sends heartbeats, and hears what has changed.

    RegisterBroker ──▶ broker epoch ──▶ Heartbeat ⇄ records of the metadata log ──▶ may stop

The controller keeps a heartbeat until there is news, so a change arrives as soon as it is made.
Whoever is told that its registration has been replaced, or was away for so long that it was fenced,
registers again or goes on; its replicas do what the records say in any case.

A broker that is about to be stopped says so with its heartbeats (Kafka's controlled shutdown): the
controller has others lead what it leads and takes it out of every ISR, and tells it when everybody
knows.

Before it does anything to its logs it looks whether this is the cluster they are of (`owner`), and
whether the controller still knows what it once decided about them.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.findings import Finding
from sexton.base.partitions import TopicPartition
from sexton.machines.controller_events import (
    Heartbeat,
    HeartbeatAnswer,
    RegisterBroker,
    Registered,
    StaleBroker,
)
from sexton.machines.metadata import ConfigRecord, Image, Record, Removed
from sexton.node import owner
from sexton.node.messages import LeaveCluster, LeaveClusterAnswer
from sexton.node.outside import CONTROLLER, Caller, Halt, is_of_disk
from sexton.node.replicas import Replicas
from sexton.node.site import Site


class Registration:
    def __init__(self, site: Site, replicas: Replicas, changed: Callable[[], None]) -> None:
        self._site = site
        self._replicas = replicas
        self._changed = changed  # called after every change of the image
        self._incarnation = f"{site.random.getrandbits(64):016x}"
        self.fenced = True
        self._heartbeats = 0  # sent; only the answer to the last one counts
        self._leaving: list[Caller] | None = None  # who waits until it has left
        self._has_left = False
        self.joined: Callable[[], None] = lambda: None  # called while it is not fenced
        self._owner = owner.load(site.directory.disk)
        self.strays: Callable[[list[Finding]], None] = lambda _findings: None  # were set aside
        replicas.strays = lambda findings: self.strays(findings)

    def register(self) -> None:
        request = RegisterBroker(
            None, self._site.node, self._incarnation, self._replicas.found(),
            self._site.config.endpoint, self._site.config.rack,
        )  # fmt: skip
        self._site.ask_controller(request, self._registered)

    def leave(self, caller: Caller, _request: LeaveCluster, _version: int) -> None:
        """Answers when this broker may be stopped without anybody waiting for it."""
        if self._has_left:
            self._site.outside.answer(caller, LeaveClusterAnswer())
        elif self._leaving is not None:
            self._leaving.append(caller)
        else:
            self._leaving = [caller]
            if self._heartbeats:  # else it says so with the first one
                self._heartbeat()

    def _registered(self, answer: object | None) -> None:
        if isinstance(answer, Registered):
            self._site.broker_epoch = answer.broker_epoch
            self._heartbeat()
        else:
            self._site.outside.after(self._site.config.broker_heartbeat_interval_ms, self.register)

    def _heartbeat(self) -> None:
        config = self._site.config
        request = Heartbeat(
            None, config.node_id, self._site.broker_epoch, self._site.metadata_end,
            self._replicas.high_watermarks(), self._leaving is not None,
        )  # fmt: skip
        timeout = config.broker_heartbeat_interval_ms + config.broker_session_timeout_ms // 2
        self._heartbeats = number = self._heartbeats + 1
        self._site.outside.ask(
            CONTROLLER, request, lambda answer: self._heard(answer, number), timeout
        )

    def _heard(self, answer: object | None, number: int) -> None:
        if number != self._heartbeats:
            if answer is None:
                self._replicas.forget_what_was_told()
            return  # the one that was sent since will be answered, too
        if isinstance(answer, StaleBroker):
            self._incarnation = f"{self._site.random.getrandbits(64):016x}"
            self.register()
            return
        if not isinstance(answer, HeartbeatAnswer):
            self._replicas.forget_what_was_told()
            pause = self._site.config.broker_heartbeat_interval_ms // 4
            self._site.outside.after(pause, self._heartbeat)
            return
        self.fenced = answer.fenced
        try:
            self._follow(answer)
        except Exception as error:
            if isinstance(error, Halt) or is_of_disk(error):
                raise
            why = f"cannot be brought to where the controller wants it: {error}"
            hint = "fix what it names, then start this broker again"
            raise Halt(self._site.config.log_dir, why, hint) from error
        if answer.may_stop:
            self._left()
            return
        if not self.fenced:
            self.joined()
        self._heartbeat()

    def _follow(self, answer: HeartbeatAnswer) -> None:
        """All of it, or this is the end: with half of it, we would lead what others lead by now."""
        if answer.snapshot:
            self._start_from(answer.records)
        elif answer.start == self._site.metadata_end:
            self._take(answer.records)
        self._site.metadata_end = answer.end
        if answer.records:
            self._changed()

    def _left(self) -> None:
        """It is out of the cluster, and whoever asked for that stops it now."""
        self._has_left = True
        for caller in self._leaving or ():
            self._site.outside.answer(caller, LeaveClusterAnswer())
        self._leaving = []

    def _start_from(self, records: tuple[Record, ...]) -> None:
        before, self._site.image = self._site.image, Image.of(records)
        image = self._site.image
        self._recognise()
        self._check_memory()
        stray = [p for p in self._site.directory.logs if p not in image.partitions]
        for partition in dict.fromkeys([*image.changed_since(before), *stray]):
            self._replicas.obey(partition)
        for topic in image.topics:
            self._replicas.reconfigure(topic)

    def _recognise(self) -> None:
        """Ends this broker if its logs are of another cluster, or of another broker."""
        site = self._site
        found = owner.Owner(site.image.cluster.cluster_id, site.node)
        if not found.cluster_id or found == self._owner:
            return  # a cluster without an id is known by nothing, and is a simulated one
        why = owner.objection(self._owner, found)
        if why is not None:
            raise Halt(site.config.log_dir, why, owner.HINT)
        self.strays(self._replicas.set_strangers_aside())
        owner.keep(site.directory.disk, found)
        self._owner = found

    def _check_memory(self) -> None:
        """Ends this broker if the controller has forgotten what it once decided.

        Its directory is an older copy then, and topics that were created since would be deleted
        here. Assignments are numbered: one here has a number that it has yet to give out.
        """
        site = self._site
        if not site.image.cluster.cluster_id:
            return
        for found in self._replicas.found():
            if found.assignment >= site.image.counters.next_assignment:
                at = TopicPartition(found.topic, found.partition)
                why = f"holds {at}, and the controller is of before it gave that to this broker"
                raise Halt(site.config.log_dir, why, owner.HINT)

    def _take(self, records: tuple[Record, ...]) -> None:
        changed: dict[TopicPartition, None] = {}
        for record in records:
            for partition in self._site.image.apply(record):
                changed[partition] = None
        self._recognise()
        if self._site.metadata_end == 0:
            self._check_memory()
        for partition in changed:
            self._replicas.obey(partition)
        for record in records:
            if isinstance(record, ConfigRecord | Removed) and record.key[0] == "config":
                self._reconfigure(*map(str, record.key[1:]))

    def _reconfigure(self, resource: str, name: str) -> None:
        """Options of a topic have changed, or of a broker, which give topics their defaults."""
        if resource == "topic":
            self._replicas.reconfigure(name)
        elif resource == "broker" and name in ("", str(self._site.node)):
            for topic in self._site.image.topics:
                self._replicas.reconfigure(topic)
