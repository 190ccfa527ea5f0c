"""Which consumer groups there are; nothing here changes anything.

Each broker coordinates some of them and knows only those. So all brokers are asked, and one that
cannot be reached is an error: a list without its groups would not be the list. A coordinator that
is still reading its log is waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.retrying import PATIENT, Patience, until_it_works
from sexton.protocol.messages.list_groups import ListGroupsRequest


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str  # empty: the broker is too old to say
    type: str
    coordinator: int


async def list_groups(client: Client, patience: Patience = PATIENT) -> list[GroupListing]:
    found: list[GroupListing] = []
    for node in sorted((await client.topology([])).brokers):
        found += await until_it_works(_asking(client, node), patience)
    return sorted(found, key=lambda each: each.group_id)


def _asking(client: Client, node: int) -> Callable[[], Awaitable[list[GroupListing]]]:
    async def ask() -> list[GroupListing]:
        answer = await (await client.broker(node)).ask(ListGroupsRequest())
        if answer.error_code:
            raise refused(answer.error_code, f"groups of broker {node}")
        return [
            GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type, node)
            for g in answer.groups
        ]

    return ask
