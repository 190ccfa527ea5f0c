"""`sexton up`: a whole cluster in one process, until Ctrl-C."""

from __future__ import annotations

import gc
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sexton.base.errors import ConfigError, SextonError
from sexton.cli.announcing import announce
from sexton.cli.failures import failure_of, print_failure
from sexton.cli.options import FormatOption, must_be_a_directory
from sexton.cli.properties import load_properties
from sexton.cli.up_options import (
    AdvertisedHostOption,
    BrokersOption,
    ConfigOption,
    DataOption,
    HostOption,
    InsecureOption,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    MetricsHostOption,
    MetricsPortOption,
    PolicyOption,
    PortOption,
    SetOption,
)
from sexton.cli.writers import Ending, Format
from sexton.report.tables import Column, number

if TYPE_CHECKING:
    from sexton.broker.cluster import ClusterConfig
    from sexton.broker.serve import Ready

EXAMPLES = (
    ("Start three brokers, or as many as last time", "sexton up"),
    (
        "Start one broker on any free port, with its data elsewhere",
        "sexton up --brokers 1 --port 0 --data ./kafka",
    ),
    (
        "Clean as Apache Kafka does, every second, to see replicas diverge",
        "sexton up --policy independent --set log.cleaner.backoff.ms=1000",
    ),
    ("Use the broker options you have", "sexton up --config server.properties"),
    (
        "Start it from a program that waits for one line of JSON",
        "sexton up --format json --port 0 --metrics-port 0 --log-format json",
    ),
)


# Where Kafka's defaults are made for another size. Three brokers whose topics have one replica
# would be of little use, too: `default.replication.factor` is 3, or the number of brokers.
FOR_ONE_MACHINE = {
    "group.initial.rebalance.delay.ms": "0",  # as in the server.properties that Kafka ships
    "offsets.topic.num.partitions": "10",  # 50 in Kafka: a start opens a log for each replica
    "transaction.state.log.num.partitions": "10",
}


def command(
    brokers: BrokersOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = None,
    data: DataOption = None,
    policy: PolicyOption = None,
    settings: SetOption = None,
    config: ConfigOption = None,
    advertised_host: AdvertisedHostOption = None,
    insecure: InsecureOption = False,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    log_format: LogFormatOption = LogFormat.text,
    log_level: LogLevelOption = LogLevel.info,
    format: FormatOption = Format.table,
) -> None:
    """Run a replicated, transactional, compacting Kafka cluster in this process until Ctrl-C.

    Every Kafka client can use it. Topics and records survive: the next `sexton up` continues where
    this one ended, at the same addresses. `sexton cluster` inspects it and injects faults. With
    --format json, one line of JSON says that it is ready, or why it cannot be.
    """
    try:
        chosen = read_options(config, settings)
        if policy is not None:
            chosen["log.compaction.policy"] = policy.value
        _up(
            brokers=brokers, host=host, port=port, data=data, options=chosen,
            advertised_host=advertised_host, insecure=insecure, metrics_port=metrics_port,
            metrics_host=metrics_host, log_format=log_format, log_level=log_level, said=format,
        )  # fmt: skip
    except SextonError as error:
        if format is Format.table:
            raise
        failure = failure_of(error)
        ending = Ending(exit_code=failure.exit_code, failure=failure)
        announce("up", format, ending, ("brokers", BROKERS, ()))
        print_failure(failure, error, sys.stderr)
        raise typer.Exit(failure.exit_code) from None


def _up(
    *,
    brokers: int | None,
    host: str,
    port: int | None,
    data: Path | None,
    options: dict[str, str],
    advertised_host: str | None,
    insecure: bool,
    metrics_port: int | None,
    metrics_host: str,
    log_format: LogFormat,
    log_level: LogLevel,
    said: Format,
) -> None:
    with _nothing_collected():
        import asyncio
        from dataclasses import replace

        from sexton.broker import logs
        from sexton.broker.home import Home, choose_ports, default_home
        from sexton.broker.serve import MetricsAddress, serve

    logs.configure(log_level.value, as_json=log_format is LogFormat.json)
    directory = (data or default_home()).absolute()
    must_be_a_directory(directory, "--data")
    home = Home(directory)
    wanted = _wanted(options, home.number_of_brokers(brokers), host, advertised_host)
    _keep_strangers_out(wanted, insecure, metrics_host if metrics_port is not None else None)
    metrics = None if metrics_port is None else MetricsAddress(metrics_host, metrics_port)
    home.take()
    try:
        ports = choose_ports(host, wanted.brokers, port, home.addresses())

        def settle(ready: Ready) -> None:
            gc.freeze()  # what there is now stays: to look through it would only hold clients up
            if said is Format.table:
                _announce(ready)
            else:
                _announce_to_programs(ready, said)

        asyncio.run(serve(home, replace(wanted, ports=ports), metrics, settle))
    finally:
        home.leave()


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """For imports: of what they make nearly all stays, and the collector would look at it often."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def read_options(config: Path | None, settings: list[str] | None) -> dict[str, str]:
    """Broker options from a file, and those given one by one, which win."""
    options = load_properties(config) if config else {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            hint = "as in --set num.partitions=6"
            raise ConfigError(f"--set {setting}", "is not OPTION=VALUE", hint)
        options[name.strip()] = value
    return options


def _wanted(
    options: dict[str, str], brokers: int, host: str, advertised_host: str | None
) -> ClusterConfig:
    from sexton.broker.cluster import ClusterConfig
    from sexton.broker.server_options import understand

    defaults = {"default.replication.factor": str(min(brokers, 3)), **FOR_ONE_MACHINE}
    base = ClusterConfig(brokers=brokers, host=host, advertised_host=advertised_host)
    understood = understand(defaults | options, base)
    for name in understood.without_effect:
        logging.getLogger("sexton.cluster").warning(
            "an option has no effect here", extra={"option": name}
        )
    return understood.config


def _keep_strangers_out(wanted: ClusterConfig, insecure: bool, metrics_host: str | None) -> None:
    from sexton.broker.exposure import refuse_exposure, refuse_nowhere

    known = wanted.listener.authenticates
    refuse_exposure(wanted.host, authenticated=known, insecure=insecure, option="--host")
    if metrics_host is not None:  # whoever asks for metrics is never asked who they are
        refuse_exposure(
            metrics_host, authenticated=False, insecure=insecure, option="--metrics-host"
        )
    refuse_nowhere(
        wanted.host, wanted.advertised_host, option="--host", advertised="--advertised-host"
    )


# ── what is said when it is ready ──


def _announce(ready: Ready) -> None:
    from sexton.broker.home import default_home

    cluster = ready.cluster
    count = len(cluster.numbers)
    plural = "broker" if count == 1 else "brokers"
    policy = cluster.config.broker.log.compaction_policy
    first = cluster.bootstrap_servers.split(",")[0]
    usual = cluster.data == default_home().absolute()
    elsewhere = "" if usual else f" --data {shlex.quote(str(cluster.data))}"
    lines = [
        f"{count} {plural} ready in {ready.seconds:.2f} s, compaction is {policy}",
        "",
        f"  bootstrap servers  {cluster.bootstrap_servers}",
        f"  data               {cluster.data}",
    ]
    login = ""
    if cluster.config.listener.protocol != "PLAINTEXT":
        lines.append(f"  security.protocol  {cluster.config.listener.protocol}")
        login = " --command-config client.properties"
    if ready.metrics is not None:
        lines.append(f"  metrics            {ready.metrics}")
    lines += [
        "",
        "  In another terminal:",
        f"    sexton cluster status{elsewhere}",
        f"    sexton cluster offsets --watch{elsewhere}",
        f"    kafka-topics.sh --bootstrap-server {first} --list{login}",
        "",
        "Ctrl-C stops it; topics and records stay.",
    ]
    typer.echo("\n".join(lines))


BROKERS = (number("broker"), Column("host"), number("port"))


def _announce_to_programs(ready: Ready, said: Format) -> None:
    cluster = ready.cluster
    host = cluster.config.advertised_host or cluster.config.host
    ending = Ending()
    ending.summary = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": cluster.config.listener.protocol,
        "data": str(cluster.data),
        "compaction_policy": cluster.config.broker.log.compaction_policy,
        "metrics": ready.metrics,
        "ready_seconds": round(ready.seconds, 3),
    }
    rows = [(each, host, cluster.listeners[each].port) for each in cluster.numbers]
    announce("up", said, ending, ("brokers", BROKERS, rows))
