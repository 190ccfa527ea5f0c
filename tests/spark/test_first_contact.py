"""A query is started with a wrong address, port or certificate: is that told while somebody looks?

And a stream that runs already: does it wait for a broker that only restarts?
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sexton.base.errors import PeerError
from sexton.client.client import Client
from sexton.client.connection import WRONG_PROTOCOL
from sexton.client.retrying import NEWS_MS
from sexton.spark import asking
from sexton.spark.options import SourceOptions, parse
from sexton.spark.planning import plan_ranges, with_client
from sexton.spark.streaming import SextonStreamReader
from sexton.testing.embedded import EmbeddedCluster
from tests.certificates import make_certificates

STANDS = {"orders": {"0": 5}}  # in a checkpoint


def plan(options: SourceOptions) -> None:
    asyncio.run(with_client(options, lambda client: plan_ranges(client, options)))


def wrongly(address: str, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": address, "subscribe": "orders", **more}
    return parse({"kafka.default.api.timeout.ms": "20000", **given}, streaming=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "nobody.invalid"])
def test_a_wrong_address_is_told_soon(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "NEWS_MS", 100)
    options = wrongly(f"{host}:1")
    reader = SextonStreamReader(options)
    contacts = (
        lambda: plan(options),
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        # From a checkpoint, a stream begins with one of these.
        lambda: reader.latestOffset(STANDS, ReadAllAvailable()),
        lambda: reader.partitions(STANDS, STANDS),
        reader.reportLatestOffset,
    )
    for contact in contacts:
        with pytest.raises(PeerError, match=f"^{host}:1: cannot be reached: ") as told:
            contact()
        assert told.value.hint == asking.ARE_THEY_UP


def test_a_stream_that_has_met_its_brokers_waits_for_them() -> None:
    with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 1)
        options = wrongly(cluster.bootstrap_servers)
        reader = SextonStreamReader(options)
        start = reader.latestOffset({}, ReadAllAvailable())
        cluster.kill(1)
        later = threading.Timer(NEWS_MS / 1000 + 1, cluster.restart, [1])
        later.start()
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        later.join()


def test_a_port_that_hangs_up_at_first_is_not_asked_twice_but_a_running_stream_waits() -> None:
    for extra in ({}, {"kafka.security.protocol": "SSL"}):
        told, dials = met_by(None, is_running=False, **extra)
        assert told.hint == WRONG_PROTOCOL and dials == 1
        settings = {"kafka.default.api.timeout.ms": "400", **extra}
        told, dials = met_by(None, is_running=True, **settings)
        assert "not told within 400 ms" in told.why and told.hint == WRONG_PROTOCOL and dials > 1


def test_a_certificate_that_is_not_trusted_is_told_at_once_at_any_time(tmp_path: Path) -> None:
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(make_certificates(tmp_path).server)
    for is_running in (False, True):
        extra = {"kafka.security.protocol": "SSL"}
        told, dials = met_by(theirs, is_running=is_running, **extra)
        assert "certificate verify failed" in told.why.lower().replace("_", " ")
        assert told.hint == WRONG_PROTOCOL and dials == 1


def met_by(
    theirs: ssl.SSLContext | None, *, is_running: bool, **extra: str
) -> tuple[PeerError, int]:
    """What is told of a port where everybody is hung up on, and how often it was dialled."""
    dials = 0

    class HangsUp(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()

    def accept() -> asyncio.Protocol:
        nonlocal dials
        dials += 1
        return HangsUp()

    async def work(_client: Client) -> None:
        raise AssertionError("nobody was there")

    async def meet() -> PeerError:
        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0, ssl=theirs)
        async with server:
            options = wrongly(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", **extra)
            with pytest.raises(PeerError) as told:
                await with_client(options, work, is_running=is_running)
        return told.value

    return asyncio.run(meet()), dials


def test_nobody_at_the_bootstrap_servers_is_told_when_the_time_is_over() -> None:
    options = parse(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1,127.0.0.1:2",
            "kafka.default.api.timeout.ms": "300",
            "subscribe": "orders",
        }
    )
    with pytest.raises(PeerError, match=r"127.0.0.1:1,127.0.0.1:2: not told within 300 ms"):
        plan(options)
