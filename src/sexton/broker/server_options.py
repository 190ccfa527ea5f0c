"""The server.properties that people have, for all brokers of one cluster.

    {"log.retention.hours": "24", "num.io.threads": "8"}  ──▶  ClusterConfig, and notes

`broker.options` sets what a broker here acts on. A file that was written for Apache Kafka holds
more. An option that means nothing here (threads, buffers, the layout of a quorum) is named and
passed over, so that one may bring the file along; what contradicts how a cluster is run here is an
error that says what to do instead; and what Kafka does not know either stays an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexton.base.errors import ConfigError, Refused
from sexton.base.lazy_dataclass import dataclass
from sexton.broker.cluster import ClusterConfig
from sexton.broker.options import known_options, with_options
from sexton.node.topic_options import BY_SYNONYM

_MS_PER_MINUTE = 60 * 1000
_MS_PER_HOUR = 60 * _MS_PER_MINUTE
# Coarser spellings of an option in milliseconds; the finer one wins, as in Kafka.
_COARSER = {
    "log.retention.ms": (("minutes", _MS_PER_MINUTE), ("hours", _MS_PER_HOUR)),
    "log.roll.ms": (("hours", _MS_PER_HOUR),),
    "log.roll.jitter.ms": (("hours", _MS_PER_HOUR),),
}

INSTEAD = {
    "advertised.listeners": "use --advertised-host",
    "controller.listener.names": "the controller has no listener: leave it out",
    "controller.quorum.bootstrap.servers": "the controller runs beside the brokers: leave it out",
    "controller.quorum.voters": "the controller runs beside the brokers: leave it out",
    "broker.id": "brokers are numbered from 1: leave it out",
    "broker.rack": "all brokers share this machine: leave it out",
    "listeners": "use --host and --port",
    "log.dir": "use --data",
    "log.dirs": "use --data",
    "metadata.log.dir": "use --data",
    "node.id": "brokers are numbered from 1: leave it out",
    "process.roles": "one process runs the controller and all brokers: leave it out",
    "zookeeper.connect": "there is no ZooKeeper: leave it out",
}

WITHOUT_EFFECT = frozenset({
    "background.threads", "controlled.shutdown.enable",
    "initial.broker.registration.timeout.ms", "inter.broker.listener.name",
    "inter.broker.protocol.version", "leader.imbalance.per.broker.percentage",
    "listener.security.protocol.map", "log.cleaner.enable", "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.threads",
    "log.flush.offset.checkpoint.interval.ms", "log.flush.scheduler.interval.ms",
    "log.message.format.version", "metadata.log.segment.bytes",
    "metric.reporters", "metrics.num.samples", "num.io.threads", "num.network.threads",
    "num.recovery.threads.per.data.dir", "num.replica.fetchers", "queued.max.requests",
    "replica.socket.receive.buffer.bytes", "replica.socket.timeout.ms",
    "socket.connection.setup.timeout.ms", "socket.listen.backlog.size",
    "socket.receive.buffer.bytes", "socket.send.buffer.bytes",
    "zookeeper.connection.timeout.ms",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Understood:
    config: ClusterConfig
    without_effect: tuple[str, ...]  # options that were given and mean nothing here


def understand(options: Mapping[str, str], base: ClusterConfig) -> Understood:
    """`base` with these options; ConfigError for what cannot be honoured."""
    finest = {name: value.strip() for name, value in _finest(options).items()}
    known = set(known_options())
    kept = WITHOUT_EFFECT | set(BY_SYNONYM)
    for name, value in finest.items():
        if name in INSTEAD:
            raise ConfigError(name, "is not set by option here", INSTEAD[name])
        _check(name, value)
    ignored = tuple(name for name in finest if name not in known and name in kept)
    chosen = {name: value for name, value in finest.items() if name not in ignored}
    return Understood(with_options(base, chosen), ignored)


def _finest(options: Mapping[str, str]) -> dict[str, str]:
    """Hours and minutes become milliseconds."""
    finest = dict(options)
    for name, units in _COARSER.items():
        for unit, factor in units:
            coarse = name.removesuffix("ms") + unit
            value = finest.pop(coarse, None)
            if value is not None and name not in finest:
                number = _whole(coarse, value)
                finest[name] = str(number * factor if number >= 0 else -1)
    return finest


def _check(name: str, value: str) -> None:
    if name == "log.cleaner.enable" and value.lower() == "false":
        raise ConfigError(name, "the cleaner cannot be turned off")
    option = BY_SYNONYM.get(name)
    if option is not None:
        try:
            option.check(value)
        except Refused as error:
            raise ConfigError(name, error.why) from None


def _whole(option: str, value: str) -> int:
    try:
        return int(value.strip())
    except ValueError:
        raise ConfigError(option, f"is {value.strip()!r}, a whole number is needed") from None
