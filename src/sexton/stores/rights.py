"""Which ACL does an application lack? Asked when it ends because something is not authorized."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sexton.base.errors import Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.rights import CREATE, DENIED, DESCRIBE_CONFIGS, READ, WRITE, Acl, lacking
from sexton.client.settings import client_config
from sexton.stores.producing import RefusedForGood
from sexton.stores.task import AppConfig, Task

_DENIED: Final = {each.name for each in DENIED}
_IDS: Final = KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name
_UNKNOWN: Final = "see its rights: topics, group and transactional ids of the application"


async def named(config: AppConfig, tasks: Iterable[Task], error: SextonError) -> SextonError:
    """The error with the ACL that is missing; as it was if that is not why."""
    if not isinstance(error, Refused | RefusedForGood):
        return error
    remedy = await remedy_of(config, tasks, error)
    return error if remedy is None else RefusedForGood(error.subject, error.why, remedy)


async def remedy_of(
    config: AppConfig, tasks: Iterable[Task], error: BaseException | None
) -> str | None:
    """None: nothing was denied."""
    if not isinstance(error, SextonError) or error.subject not in _DENIED:
        return None
    if error.subject == _IDS:
        found = [Acl(WRITE, f"transactional ids {config.application_id}-...")]
    else:
        found = await _lacking(config, tasks)
    return f"no ACL allows this user {', '.join(map(str, found))}" if found else _UNKNOWN


async def _lacking(config: AppConfig, tasks: Iterable[Task]) -> list[Acl]:
    try:
        async with Client(config.bootstrap_servers, client_config(config.settings)) as client:
            return await lacking(client, _needs(config, tasks), config.application_id)
    except SextonError:
        return []


def _needs(config: AppConfig, tasks: Iterable[Task]) -> Mapping[str, tuple[str, ...]]:
    """One task may read what another one writes."""
    needs: dict[str, tuple[str, ...]] = {}

    def need(topic: str, *operations: str) -> None:
        needs[topic] = (*needs.get(topic, ()), *operations)

    for task in tasks:
        need(config.changelog(task.name), READ, WRITE, DESCRIBE_CONFIGS, CREATE)
        need(task.input, READ)
        if task.output is not None:
            need(task.output, WRITE)
    return needs
