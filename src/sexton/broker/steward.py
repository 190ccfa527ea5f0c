"""What can be asked of a running cluster beyond Kafka's protocol, and done to it.

    status    the cluster and its brokers          offsets   every replica's, with the four of
    addresses where clients reach it                         coordinated compaction
    kill      as by kill -9                        isolate   cut off from all other brokers
    restart   stop if it runs, then start          heal      put an end to that, or to all of it
    pause     as by SIGSTOP     resume             clean     now, dirty enough or not

Requests and answers are JSON objects (`broker.control`). A key that a request does not have is an
error: whoever misspells `broker` must not kill them all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from sexton.base.errors import ConfigError, PeerError, no_such_topic
from sexton.base.partitions import TopicPartition
from sexton.broker.cluster import LocalCluster
from sexton.broker.control import Json
from sexton.machines.metadata import NO_LEADER
from sexton.node.describe_replicas import offsets_of
from sexton.node.messages import CleanNow, CleanNowAnswer, ConferNow
from sexton.node.outside import CONTROLLER

PATIENCE_S = 30.0
LOOK_AGAIN_S = 0.1


class Steward:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._began = time.time()
        self._asks: dict[str, tuple[Callable[..., Awaitable[Json]], dict[str, type]]] = {
            "status": (self.status, {}),
            "addresses": (self.addresses, {}),
            "offsets": (self.offsets, {"topics": list, "internal": bool}),
            "kill": (self.kill, {"broker": int}),
            "restart": (self.restart, {"broker": int}),
            "pause": (self.pause, {"broker": int}),
            "resume": (self.resume, {"broker": int}),
            "isolate": (self.isolate, {"broker": int}),
            "heal": (self.heal, {"broker": int}),
            "clean": (self.clean, {"broker": int, "topics": list}),
        }

    async def handle(self, request: Json) -> Json:
        """The answer to one request; SextonError if there is none."""
        arguments = dict(request)
        what = arguments.pop("ask", None)
        if not isinstance(what, str) or what not in self._asks:
            raise ConfigError(f"ask {what!r}", "is not known", f"known: {', '.join(self._asks)}")
        verb, kinds = self._asks[what]
        for name, value in arguments.items():
            if name not in kinds:
                raise ConfigError(f"{what}: {name}", "is not known")
            if type(value) is not kinds[name]:  # True is an int, and no broker
                raise ConfigError(f"{what}: {name}", f"is not of type {kinds[name].__name__}")
            if isinstance(value, list) and not all(isinstance(each, str) for each in value):
                raise ConfigError(f"{what}: {name}", "holds something else than names")
        if "broker" in kinds and "broker" not in arguments and what not in ("heal", "clean"):
            raise ConfigError(f"{what}: broker", "is not given")
        return await verb(**arguments)

    # ── looking ──

    async def addresses(self) -> Json:
        cluster = self._cluster
        return {
            "bootstrap_servers": cluster.bootstrap_servers,
            "data": str(cluster.data),
            "cluster_id": cluster.cluster_id or None,
        }

    async def status(self) -> Json:
        cluster = self._cluster
        image = cluster.image
        partitions = image.partitions.values()
        return {
            **await self.addresses(),
            "up_seconds": round(time.time() - self._began, 3),
            "controller": "up" if cluster.controller_is_up else "down",
            "compaction_policy": cluster.config.broker.log.compaction_policy,
            "brokers": [self._broker(number) for number in cluster.numbers],
            "topics": len(image.topics),
            "partitions": len(image.partitions),
            "under_replicated": sum(1 for p in partitions if len(p.isr) < len(p.replicas)),
            "leaderless": sum(1 for p in partitions if p.leader == NO_LEADER),
            "reassigning": sum(1 for p in partitions if p.reassigning),
        }

    def _broker(self, number: int) -> Json:
        cluster = self._cluster
        image, broker = cluster.image, cluster.broker(number)
        known = image.brokers.get(number)
        logs = [] if broker is None else list(broker.site.directory.logs.values())
        return {
            "broker": number,
            "host": cluster.config.advertised_host or cluster.config.host,
            "port": cluster.listeners[number].port,
            "state": self.state(number),
            "active": known is not None and known.active,
            "leaders": sum(1 for p in image.partitions.values() if p.leader == number),
            "replicas": len(image.hosted_by(number)),
            "in_sync": sum(1 for p in image.partitions.values() if number in p.isr),
            "connections": cluster.listeners[number].connection_count,
            "size_bytes": sum(log.size for log in logs),
        }

    def state(self, number: int) -> str:
        host = self._cluster.hosts[number]
        if host.node is None:
            return "down"
        if host.paused:
            return "paused"
        return "isolated" if self._cluster.switchboard.is_cut(number, CONTROLLER) else "up"

    async def offsets(self, topics: list[str] | None = None, internal: bool = False) -> Json:
        image = self._cluster.image
        rows = []
        for partition, record in sorted(image.partitions.items()):
            topic = image.topics.get(partition.topic)
            is_internal = topic is not None and topic.internal
            if partition.topic not in topics if topics else is_internal and not internal:
                continue
            for number in record.replicas:
                broker = self._cluster.broker(number) if number in self._cluster.hosts else None
                replica = None if broker is None else broker.replicas.by_partition.get(partition)
                found = None if replica is None else offsets_of(replica)
                row = {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "broker": number,
                    "role": "away" if found is None else found.role,
                    "in_sync": number in record.isr,
                    "leader_epoch": record.leader_epoch,
                }
                rows.append(row | {name: getattr(found, name, None) for name in _OFFSETS})
        return {"replicas": rows}

    # ── doing ──

    async def kill(self, broker: int) -> Json:
        self._cluster.kill_broker(broker)
        return self._now(broker)

    async def restart(self, broker: int) -> Json:
        await self._cluster.retire_broker(broker)
        self._cluster.start_broker(broker)
        await self._until_active(broker)
        return self._now(broker)

    async def pause(self, broker: int) -> Json:
        self._must_run(broker)
        self._cluster.pause_broker(broker)
        return self._now(broker)

    async def resume(self, broker: int) -> Json:
        self._must_run(broker)
        self._cluster.resume_broker(broker)
        return self._now(broker)

    async def isolate(self, broker: int) -> Json:
        self._cluster.isolate(broker)
        return self._now(broker)

    async def heal(self, broker: int | None = None) -> Json:
        cluster = self._cluster
        if broker is None:
            cluster.switchboard.mend_all()
            return {"brokers": [self._now(number) for number in cluster.numbers]}
        cluster.broker(broker)  # is there one?
        for other in cluster.hosts:
            cluster.switchboard.mend(broker, other)
        return self._now(broker)

    async def clean(self, broker: int | None = None, topics: list[str] | None = None) -> Json:
        """One pass over each compacted log, on one broker or on each that runs."""
        cluster = self._cluster
        self._must_exist(topics)
        if broker is not None:
            self._must_run(broker)
        numbers = cluster.numbers if broker is None else [broker]
        rows: list[Json] = []
        for number in self._working(numbers):
            chosen = None if topics is None else self._partitions(topics)
            answer = await self._ask(number, CleanNow(chosen))
            if not isinstance(answer, CleanNowAnswer):
                raise PeerError(f"broker {number}", "went away before it had cleaned its logs")
            rows += [_pass(number, at, until, None) for at, until in answer.cleaned]
            rows += [_pass(number, at, None, why) for at, why in answer.failed]
        # Leaders ask now, or the groups would hear of it with the next round only.
        for number in self._working(cluster.numbers):
            await self._ask(number, ConferNow())
        return {"passes": rows}

    # ── parts ──

    def _now(self, number: int) -> Json:
        return {"broker": number, "state": self.state(number)}

    async def _ask(self, number: int, request: object) -> object:
        """The answer, or None if the broker is killed or paused before it has one."""
        host = self._cluster.hosts[number]
        life = host.life
        asking = asyncio.ensure_future(self._cluster.ask(number, request))
        while host.life == life and not host.paused and not asking.done():
            await asyncio.wait({asking}, timeout=LOOK_AGAIN_S)
        if asking.done():
            return asking.result()
        asking.cancel()
        return None

    def _working(self, numbers: list[int]) -> list[int]:
        return [number for number in numbers if self.state(number) in ("up", "isolated")]

    def _must_run(self, number: int) -> None:
        if self._cluster.broker(number) is None:
            raise ConfigError(f"broker {number}", "is down", f"`sexton cluster restart {number}`")

    def _must_exist(self, topics: list[str] | None) -> None:
        for topic in topics or ():
            if topic not in self._cluster.image.topics:
                raise no_such_topic(topic)

    def _partitions(self, topics: list[str]) -> tuple[TopicPartition, ...]:
        of = self._cluster.image.partitions_of
        return tuple(TopicPartition(t, number) for t in topics for number in sorted(of(t)))

    async def _until_active(self, number: int) -> None:
        """A broker that was isolated may have to wait for that to end: it starts all the same."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.state(number) == "up":
            known = self._cluster.image.brokers.get(number)
            if known is not None and known.active:
                return
            await asyncio.sleep(0.005)


_OFFSETS = (
    "log_start", "last_stable", "high_watermark", "log_end", "mcco", "mtro", "mxfo", "mxro",
    "size_bytes", "policy", "uncleanable",
)  # fmt: skip


def _pass(number: int, at: TopicPartition, until: int | None, why: str | None) -> Json:
    return {
        "topic": at.topic, "partition": at.partition, "broker": number, "cleaned_until": until,
        "failed": why,
    }  # fmt: skip
