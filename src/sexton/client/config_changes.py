"""Options with where they come from, and changing some of them.

DescribeConfigs tells for each value whether it was set on the topic itself, on one broker, on all
brokers, or nowhere. "Not set" is a state of its own: an option that is set to its default and one
that is not set read the same, until the default changes. IncrementalAlterConfigs sets some options
of several resources, or takes them back to not set, and leaves the others alone; all options of one
resource change together or not at all.

Any broker tells a topic's options as far as it has heard of them; `described` can ask a certain
one. What is set on one broker alone is that broker's business: only it is asked, and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sexton.base.errors import PeerError, Refused
from sexton.client.client import Client
from sexton.client.connection import error_name, refused
from sexton.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from sexton.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sexton.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)

TOPIC, BROKER = 2, 4  # Kafka's ConfigResource.Type
ALL_BROKERS = ""  # the name under which options of all brokers are kept
_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS = 1, 2, 3  # Kafka's ConfigSource
_SET, _DELETE = 0, 1
AT_ONCE = 500

Place = tuple[int, str]  # kind and name of a resource
Changes = Sequence[tuple[str, str | None]]  # option and value; None: back to not set


@dataclass(frozen=True, slots=True)
class OptionValue:
    value: str | None  # what counts
    own: str | None  # what is set on this very resource; None: nothing


@dataclass(frozen=True, slots=True)
class DescribedOptions:
    found: dict[str, dict[str, OptionValue]]  # by resource, by option
    failed: dict[str, Refused | PeerError]


# ── one topic or broker ──


async def described(
    client: Client, place: Place, names: Iterable[str], node: int | None = None
) -> dict[str, OptionValue]:
    """Its options as `node` knows them, or anyone; of all brokers only those that are set."""
    kind, name = place
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, list(names))])
    answer = await _ask(client, place, request, node)
    try:
        result = answer.results[0]
    except IndexError:
        raise PeerError("DescribeConfigs", f"is answered without {_called(place)}") from None
    if result.error_code:
        raise refused(result.error_code, f"options of {_called(place)}", result.error_message)
    return _values(result, _own(place))


async def alter(
    client: Client, place: Place, changes: Changes, *, validate_only: bool = False
) -> None:
    """All of them, or none; `validate_only`: none, but refused if they would be."""
    request = IncrementalAlterConfigsRequest([_resource(place, changes)], validate_only)
    answer = await _ask(client, place, request)
    try:
        result = answer.responses[0]
    except IndexError:
        why = f"is answered without {_called(place)}"
        raise PeerError("IncrementalAlterConfigs", why) from None
    if result.error_code:
        raise refused(result.error_code, f"options of {_called(place)}", result.error_message)


async def _ask(client: Client, place: Place, request: Request[R], node: int | None = None) -> R:
    kind, name = place
    if kind == BROKER and name != ALL_BROKERS:
        node = int(name)
    if node is None:
        return await client.ask(request)
    return await (await client.broker(node)).ask(request)


def _own(place: Place) -> int:
    kind, name = place
    if kind == TOPIC:
        return _OF_TOPIC
    return _OF_ALL_BROKERS if name == ALL_BROKERS else _OF_BROKER


def _called(place: Place) -> str:
    kind, name = place
    if kind == TOPIC:
        return f"the topic {name}"
    return "all brokers" if name == ALL_BROKERS else f"broker {name}"


# ── many topics ──


async def describe_topics(
    client: Client, topics: Iterable[str], names: Sequence[str]
) -> DescribedOptions:
    """These options of these topics; one that may not be seen does not hide the others."""
    asked = list(topics)
    left_out = PeerError("DescribeConfigs", "is answered without this topic")
    all_found = DescribedOptions({}, dict.fromkeys(asked, left_out))
    for at in range(0, len(asked), AT_ONCE):
        resources = [
            DescribeConfigsResource(TOPIC, topic, list(names)) for topic in asked[at : at + AT_ONCE]
        ]
        for result in (await client.ask(DescribeConfigsRequest(resources))).results:
            if result.error_code:
                name, said = result.resource_name, result.error_message
                thing = f"options of the topic {name}"
                all_found.failed[name] = refused(result.error_code, thing, said)
            else:
                all_found.failed.pop(result.resource_name, None)
                all_found.found[result.resource_name] = _values(result, _OF_TOPIC)
    return all_found


async def alter_topics(client: Client, changes: Mapping[str, Changes]) -> dict[str, str | None]:
    """Changes options of several topics; for each None, or why it was refused."""
    resources = [_resource((TOPIC, topic), some) for topic, some in changes.items()]
    answer = await client.ask(IncrementalAlterConfigsRequest(resources))
    outcome: dict[str, str | None] = dict.fromkeys(changes, "the answer does not mention it")
    for each in answer.responses:
        why = None
        if each.error_code:
            name = error_name(each.error_code)
            why = f"{name}: {each.error_message}" if each.error_message else name
        outcome[each.resource_name] = why
    return outcome


def _values(result: DescribeConfigsResult, own: int) -> dict[str, OptionValue]:
    return {
        each.name: OptionValue(each.value, each.value if each.config_source == own else None)
        for each in result.configs
    }


def _resource(place: Place, changes: Changes) -> AlterConfigsResource:
    kind, name = place
    configs = [
        AlterableConfig(option, _DELETE if value is None else _SET, value)
        for option, value in changes
    ]
    return AlterConfigsResource(kind, name, configs)
