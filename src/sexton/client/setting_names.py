"""Is that the name of a setting, and one that counts here?

    used          how to reach a cluster: what `settings` makes a `ClientConfig` of
    passed over   all else that a client of Kafka knows, Java's or librdkafka: batches, groups ...
                  and how a JVM goes about what is done here in another way, no less strictly
    unknown       a slip of the pen, or meant for somebody else who reads the same file

Somebody who types an unknown one means it, and is told. A file was written for other programs as
well: there it is only named, unless it is nearly one that counts. To pass that over could mean to
talk to another cluster, or in the clear. With a word before it (`producer.security.protocol`) it is
for a part of such a program, Connect say.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from sexton.base.errors import ConfigError

# What begins so is used, passed over by name, or refused.
SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.")
OF_SECURITY = frozenset({
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "sasl.jaas.config", "ssl.truststore.location", "ssl.truststore.type",
    "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem", "ssl.keystore.location",
    "ssl.keystore.type", "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
    "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification",
    "sasl.oauthbearer.token", "sasl.oauthbearer.token.endpoint.url",
    "sasl.login.callback.handler.class", "ssl.protocol", "ssl.enabled.protocols",
})  # fmt: skip
USED = OF_SECURITY | {
    "bootstrap.servers", "metadata.broker.list", "client.id", "request.timeout.ms",
}  # fmt: skip
# Not to be passed over: without it another cluster would be found, or none.
CONTROLLERS = "bootstrap.controllers"
# As Apache Kafka 3.9 and 4.3 and librdkafka 2.16 list them, without what only a program can give.
PASSED_OVER = frozenset({
    "acks", "allow.auto.create.topics", "api.version.fallback.ms", "api.version.request",
    "api.version.request.timeout.ms", "auto.commit.enable", "auto.commit.interval.ms",
    "auto.include.jmx.reporter", "auto.offset.reset", "batch.num.messages", "batch.size",
    "broker.address.family", "broker.address.ttl", "broker.version.fallback", "buffer.memory",
    "check.crcs", "client.dns.lookup", "client.rack", "compression.codec", "compression.gzip.level",
    "compression.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
    "config.providers", "connections.max.idle.ms", "consume.callback.max.messages",
    "coordinator.query.interval.ms", "debug", "default.api.timeout.ms",
    "delivery.report.only.error", "delivery.timeout.ms", "enable.auto.commit",
    "enable.auto.offset.store", "enable.gapless.guarantee", "enable.idempotence",
    "enable.metrics.push", "enable.partition.eof", "enable.random.seed", "exclude.internal.topics",
    "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.message.max.bytes",
    "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.id",
    "group.instance.id", "group.protocol", "group.protocol.type", "group.remote.assignor",
    "heartbeat.interval.ms", "https.ca.location", "https.ca.pem", "interceptor.classes",
    "isolation.level", "key.deserializer", "key.serializer", "linger.ms", "log.connection.close",
    "log.thread.name", "log_level", "max.block.ms", "max.in.flight",
    "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms",
    "max.poll.records", "max.request.size", "message.copy.max.bytes", "message.max.bytes",
    "message.send.max.retries", "message.timeout.ms", "metadata.max.age.ms", "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "offset.store.method", "offset.store.path", "offset.store.sync.interval.ms",
    "partition.assignment.strategy", "partitioner", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys",
    "plugin.library.paths", "produce.offset.report", "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms",
    "queued.max.messages.kbytes", "queued.min.messages", "queuing.strategy", "receive.buffer.bytes",
    "receive.message.max.bytes", "reconnect.backoff.jitter.ms", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "request.required.acks", "retries", "retry.backoff.max.ms",
    "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms", "share.acknowledgement.mode",
    "share.acquire.mode", "socket.blocking.max.ms", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails",
    "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes",
    "socket.timeout.ms", "statistics.interval.ms", "sticky.partitioning.linger.ms",
    "topic.blacklist", "topic.metadata.propagation.max.ms", "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.sparse", "transaction.timeout.ms",
    "transaction.two.phase.commit.enable", "transactional.id", "value.deserializer",
    "value.serializer",
})  # fmt: skip
# Which of its parts a JVM takes for TLS, when it fetches a new token, and what only GSSAPI needs,
# which is refused as a mechanism: whoever passes these over is let in by nobody who would not be.
OF_A_JVM = frozenset({
    "sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms", "security.providers", "ssl.keymanager.algorithm",
    "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
})  # fmt: skip
# Java's own stores have a password where PEM has none: that is how they are met most.
OF_A_STORE = {
    "ssl.truststore.password": "keytool -list -rfc -keystore store.jks > store.pem",
    "ssl.keystore.password": "openssl pkcs12 -in store.p12 -out store.pem -nodes",
}
NEAR = 0.85
OF_SPARK = "kafka."  # before any of these; whoever writes it here means them
_LISTED = "docs/reference/config.md lists those that count"


def check_typed(name: str, where: str) -> None:
    """ConfigError if no client of Kafka knows it; `where` is what was typed."""
    if name == CONTROLLERS:
        raise _of_controllers(where)
    if not _is_known(name):
        near = _near(name, [*USED, *PASSED_OVER], 0.6)
        raise ConfigError(where, "is not a Kafka client setting", near or _LISTED)


def unknown_in_file(names: Iterable[str], path: str) -> list[str]:
    """Those that no client of Kafka knows; ConfigError for one that surely was to count."""
    found = []
    for name in names:
        if name == CONTROLLERS:
            raise _of_controllers(f"{path}: {name}")
        if _is_known(name):
            continue
        if near := _slip(name):
            raise ConfigError(f"{path}: {name}", "is not a Kafka client setting", near)
        found.append(name)
    return found


def must_count(name: str) -> None:
    """ConfigError for one that says how to reach a cluster, and would be passed over."""
    if name in USED or name in PASSED_OVER or name in OF_A_JVM:
        return
    if name in OF_A_STORE:
        hint = f"convert it, and name the new file without a password: {OF_A_STORE[name]}"
        raise ConfigError(name, "belongs to a JKS or PKCS12 store; only PEM can be read", hint)
    if name.startswith(SECURITY) and name.endswith(".class"):
        raise ConfigError(name, "is a Java class, and none is run here", _LISTED)
    near = _slip(name)
    if near or name.startswith(SECURITY):
        every = f"known: {', '.join(sorted(OF_SECURITY))}"
        raise ConfigError(name, "is not understood", near or every)


def _is_known(name: str) -> bool:
    return name in USED or name in PASSED_OVER or name.startswith(SECURITY)


@cache
def _slip(name: str) -> str | None:
    """What was meant instead, if that is one that counts. (Clients are made often.)"""
    if name.startswith(OF_SPARK) and name.removeprefix(OF_SPARK) in USED:
        return f"did you mean {name.removeprefix(OF_SPARK)}?"
    if any(name.endswith(f".{each}") for each in USED):
        return None
    return _near(name, USED, NEAR)


def _near(name: str, names: Iterable[str], least: float) -> str | None:
    found = difflib.get_close_matches(name.lower(), sorted(names), 1, least)
    return f"did you mean {found[0]}?" if found else None


def _of_controllers(where: str) -> ConfigError:
    return ConfigError(where, "brokers are asked, not controllers", "give bootstrap.servers, or -b")
