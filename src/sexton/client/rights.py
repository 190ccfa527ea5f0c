"""Which ACL is missing? What a program needs, less what it is told that it may do.

Kafka says that something is not authorized, and not what would authorize it. But whoever asks is
told what he may do with a topic or a group (KIP-430), and a program knows what it needs: the rest
is what it lacks. Nobody is told what he may do with a transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sexton.base.errors import SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.transacting import GROUP
from sexton.protocol.messages.describe_groups import DescribeGroupsRequest
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest
from sexton.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

DENIED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
READ, WRITE, CREATE, DESCRIBE_CONFIGS = "Read", "Write", "Create", "DescribeConfigs"
_BITS: Final = {READ: 3, WRITE: 4, CREATE: 5, DESCRIBE_CONFIGS: 10}  # Kafka's AclOperation
_NOT_TOLD: Final = -(1 << 31)
_TOLD_OF_TOPICS = range(8, 13)
_TOLD_OF_GROUPS = range(3, 6)
_FIND = range(4, 7)


class NotAllowed(SextonError):
    """This user lacks an ACL, and waits for it in vain."""


class Acl(NamedTuple):
    operation: str  # as Kafka's documentation spells it
    resource: str  # `topic orders`, `group billing`

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource}"


def not_allowed(acls: Sequence[Acl]) -> NotAllowed:
    """For the first of them; the others are in the hint."""
    why = f"this user has no ACL that allows {acls[0].operation} on it"
    others = f", and {', '.join(map(str, acls[1:]))}" if acls[1:] else ""
    hint = f"allow {acls[0]}{others}; docs/concepts/threat-model.md lists all that is needed"
    return NotAllowed(acls[0].resource, why, hint)


async def lacking(client: Client, topics: Mapping[str, Iterable[str]], group: str) -> list[Acl]:
    """Of these operations on topics, and Read on the group, those that are not allowed."""
    found = [*await _of_topics(client, topics), *await _of_group(client, group)]
    # Of a topic that is not there nobody is told anything: Create is what is left as the reason.
    return [each for each in found if each.operation != CREATE] or found


async def _of_topics(client: Client, topics: Mapping[str, Iterable[str]]) -> list[Acl]:
    asked = [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(
        asked, allow_auto_topic_creation=False, include_topic_authorized_operations=True
    )
    found: list[Acl] = []
    for topic in (await client.ask(request, _TOLD_OF_TOPICS)).topics:
        name = topic.name or ""
        may = topic.topic_authorized_operations
        if topic.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            may = 0  # nor may he see it
        elif topic.error_code == KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
            found += [Acl(CREATE, f"topic {name}")] if CREATE in topics[name] else []
            continue
        elif topic.error_code or may == _NOT_TOLD:
            continue
        wanted = [each for each in topics[name] if each != CREATE]
        found += [Acl(each, f"topic {name}") for each in wanted if not may >> _BITS[each] & 1]
    return found


async def _of_group(client: Client, group: str) -> list[Acl]:
    read = [Acl(READ, f"group {group}")]
    find = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
    for coordinator in (await client.ask(find, _FIND)).coordinators:
        if coordinator.error_code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return read
        if coordinator.error_code:
            return []
        request = DescribeGroupsRequest([group], include_authorized_operations=True)
        connection = await client.broker(coordinator.node_id)
        for each in (await connection.ask(request, _TOLD_OF_GROUPS)).groups:
            may = each.authorized_operations
            if each.error_code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                return read
            if not each.error_code and may != _NOT_TOLD and not may >> _BITS[READ] & 1:
                return read
    return []
