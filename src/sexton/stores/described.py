"""An application as the cluster knows it: who works on what, who has copies, how far behind.

Nothing of it is asked of the instances: who owns a task and who keeps a copy is in the group, where
a task stands is in its changelog, and how warm a copy is its instance has told Kafka (`warmth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.retrying import PATIENT
from sexton.client.transacting import GROUP, stable_offset
from sexton.machines.stores_assignment import Share, TaskId
from sexton.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from sexton.stores import changelog as changelogs
from sexton.stores.coordinators import Coordinator
from sexton.stores.group import PROTOCOL
from sexton.stores.sayings import Said, decode_claims, decode_share
from sexton.stores.warmth import Warmth, copies_group, told_by


@dataclass(frozen=True, slots=True)
class Copy:
    instance: str
    warming: bool  # it is there to become the owner
    warmth: Warmth | None  # None: its instance has not said, or not to us


@dataclass(frozen=True, slots=True)
class Described:
    task: str
    partition: int
    owner: str | None
    copies: tuple[Copy, ...]
    offset: int | None  # of the group in the input
    input_lag: int
    changelog_end: int


@dataclass(frozen=True, slots=True)
class Application:
    state: str  # of the group
    instances: tuple[str, ...]
    tasks: tuple[Described, ...]
    unread: tuple[tuple[str, str], ...] = ()  # groups that tell of copies, and why not to us


async def describe(client: Client, application_id: str) -> Application:
    group = await _group(client, application_id)
    members = [
        (decode_claims(each.member_id, each.member_metadata), decode_share(each.member_assignment))
        for each in group.members
    ]
    topics = {task: topic for said, _ in members for task, topic in said.topics.items()}
    warmth, unread = await _warmth(client, application_id, [said.instance for said, _ in members])
    described = [
        await _task(client, application_id, TaskId(task, number), topic, members, warmth)
        for task, topic in sorted(topics.items())
        for number in sorted((await client.topology([topic])).topic(topic).partitions)
    ]
    names = tuple(sorted(said.instance for said, _ in members))
    return Application(group.group_state, names, tuple(described), tuple(unread))


async def _group(client: Client, application_id: str) -> DescribedGroup:
    async def ask(connection: Connection) -> DescribedGroup:
        answer = await connection.ask(DescribeGroupsRequest([application_id]))
        found = answer.groups[0]
        if found.error_code:
            raise refused(found.error_code, f"the group {application_id}")
        # Kafka tells what members said only while a group is stable.
        if found.protocol_data in ("", PROTOCOL) and not all(
            m.member_metadata for m in found.members
        ):
            raise PeerError(application_id, "its instances are sharing out the tasks again")
        return found

    found = await Coordinator(client, GROUP, application_id).until_ready(ask, PATIENT)
    if found.group_state == "Dead" or found.protocol_data not in ("", PROTOCOL):
        why = f"{application_id} is not a group of stores"
        hint = "name the application id"
        raise Refused(KafkaError.GROUP_ID_NOT_FOUND, why, hint)
    return found


async def _warmth(
    client: Client, application_id: str, instances: list[str]
) -> tuple[dict[str, Mapping[TopicPartition, Warmth]], list[tuple[str, str]]]:
    """Told in groups of their own, which not everybody may read who may read the application's."""
    told: dict[str, Mapping[TopicPartition, Warmth]] = {}
    unread = []
    for instance in instances:
        try:
            told[instance] = await told_by(client, application_id, instance)
        except Refused as refused:
            told[instance] = {}
            unread.append((copies_group(application_id, instance), refused.error.name))
    return told, unread


async def _task(
    client: Client,
    application_id: str,
    id_: TaskId,
    topic: str,
    members: list[tuple[Said, Share]],
    warmth: Mapping[str, Mapping[TopicPartition, Warmth]],
) -> Described:
    input_at = TopicPartition(topic, id_.partition)
    changelog_at = TopicPartition(f"{application_id}-{id_.task}-changelog", id_.partition)
    committed = await stable_offset(client, application_id, input_at)
    input_ = await changelogs.bounds(client, input_at)
    # Who never committed begins where the input begins, which is not at 0 after retention.
    next_input = input_.log_start if committed is None else committed.offset
    end = (await changelogs.bounds(client, changelog_at)).high_watermark
    copies = sorted(
        (s.instance, id_ in share.warming) for s, share in members if id_ in share.standby
    )
    owners = [said.instance for said, share in members if id_ in share.active]
    return Described(
        id_.task,
        id_.partition,
        owners[0] if owners else None,
        tuple(Copy(name, warming, warmth[name].get(changelog_at)) for name, warming in copies),
        None if committed is None else committed.offset,
        input_.high_watermark - next_input,
        end,
    )
