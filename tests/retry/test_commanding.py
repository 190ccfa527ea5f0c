"""Commands by the thousand: whether they were carried out is found out at the cost of a few."""

from __future__ import annotations

import asyncio

from sexton.client.appending import append
from sexton.client.client import Client
from sexton.machines.retry_records import Command, TaskName
from sexton.retry.commanding import Sent, send, until_done
from sexton.retry.topics import Names
from sexton.testing import EmbeddedCluster

NAMES, COMMANDS = Names.of("orders", "g"), 20


def test_each_partition_is_read_once_however_many_were_sent_to_it(kafka: EmbeddedCluster) -> None:
    kafka.create_topic(NAMES.retry, 2)

    async def ask() -> tuple[list[Sent], list[Sent], int]:
        async with Client(kafka.bootstrap_servers) as client:
            sent = [
                await send(client, NAMES, TaskName("orders", each % 2), Command("redrive", each))
                for each in range(COMMANDS)
            ]
            for each in sent[:5]:
                await append(client, each.at, [(each.key, None)])
            before = client.asked["Fetch"]
            left = await until_done(client, sent, 0.0)
            return sent, left, client.asked["Fetch"] - before

    sent, left, asked = asyncio.run(ask())
    assert left == sent[5:]
    assert asked < COMMANDS
