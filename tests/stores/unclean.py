"""An unclean election under an application with state: what broker 1 alone had is gone.

broker 1    leads the topics in question, and has everything; broker 2 is away
A           has processed up to 8, of which 5 to 7 are on broker 1 alone
            ── broker 1 goes, broker 2 comes back and is made the leader ──
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from sexton.base.partitions import TopicPartition
from sexton.client.admin import UNCLEAN, elect
from sexton.client.client import Client
from sexton.stores import App, TaskFailed
from sexton.stores.fetching import Fetcher, Reader
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import until
from tests.stores.counting import app
from tests.stores.harness import wait_until_done, write


def counts_to_8(three: EmbeddedCluster, directory: Path, *topics: str) -> App:
    """It runs; the last three of these topics are on broker 1 alone."""
    servers = three.bootstrap_servers
    one = app(servers, directory)
    one.start()
    write(servers, [(0, "kept")] * 5)
    wait_until_done(one, 5)
    for topic in ("__consumer_offsets", "__transaction_state"):
        three.elect(topic, 0, 3)
    three.kill(2)
    for topic in topics:
        three.wait_for(topic, 0, lambda state: state.isr == (1,))
    write(servers, [(0, "lost")] * 3)
    wait_until_done(one, 8)
    return one


def changed_history(three: EmbeddedCluster, *topics: str) -> None:
    """Broker 2 leads, with what it had before it went away."""

    three.kill(1)
    three.wait_for(topics[0], 0, lambda state: state.leader == -1)
    three.restart(2)
    made_leader(three, *topics)


def made_leader(three: EmbeddedCluster, *topics: str) -> None:
    """Who is there, whatever it has."""

    async def ask() -> None:
        async with Client(three.bootstrap_servers) as client:
            partitions = [TopicPartition(topic, 0) for topic in topics]
            for election in await elect(client, partitions, UNCLEAN):
                assert election.elected, election

    asyncio.run(ask())


def slow(monkeypatch: pytest.MonkeyPatch, topic: str) -> threading.Event:
    """While it is set, nothing of the topic comes, nor that there is none."""
    right, is_slow = Fetcher._came, threading.Event()

    def came(fetcher: Fetcher, reader: Reader, *given: Any) -> None:
        if not (is_slow.is_set() and reader.at.topic == topic):
            right(fetcher, reader, *given)

    monkeypatch.setattr(Fetcher, "_came", came)
    return is_slow


def fails(one: App, why: str) -> None:
    assert one._ended is not None
    until(one._ended.done, "it ends", 120)
    with pytest.raises(TaskFailed, match=why):
        one.close()
