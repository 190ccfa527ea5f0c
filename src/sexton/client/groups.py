"""Which consumer groups there are; nothing here changes anything.

Each broker coordinates some of them and knows only those. So all brokers are asked, and one that
cannot be reached is an error, as is a part of the coordinators' log that nobody leads: a list
without its groups would not be the list. A coordinator that is still reading its log is waited for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.retrying import PATIENT, Patience, until_it_works
from sexton.protocol.messages.list_groups import ListGroupsRequest

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    protocol_type: str
    state: str  # empty: the broker is too old to say
    type: str
    coordinator: int


async def list_groups(client: Client, patience: Patience = PATIENT) -> list[GroupListing]:
    await until_it_works(lambda: _all_are_led(client), patience)
    found: list[GroupListing] = []
    for node in sorted((await client.topology([])).brokers):
        found += await until_it_works(_asking(client, node), patience)
    return sorted(found, key=lambda each: each.group_id)


async def _all_are_led(client: Client) -> None:
    try:
        offsets = (await client.topology([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
    except Refused as error:
        if error.error is KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return  # not everybody may know
        raise
    for place in () if offsets is None else offsets.partitions.values():
        if place.leader < 0:
            client.look_elsewhere()
            why = f"nobody leads {place.partition}, whose groups are not known"
            raise Refused(KafkaError.COORDINATOR_NOT_AVAILABLE, why)


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
