"""AlterConfigs and IncrementalAlterConfigs: the options of topics and brokers change.

Versions 0 to 2 and 0 to 1. The first sets all options of a resource anew, the second those that it
names. Topics take every option of `topic_options`; brokers, one (by its id) or all (by no name),
what is the default of one of these. Gaps: groups, loggers and client metrics have no options here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines import controller_events as controller
from sexton.node.administration import Administration, outcome
from sexton.node.describe_configs import BROKER, TOPIC
from sexton.node.outside import Caller
from sexton.node.site import Site
from sexton.protocol.messages import alter_configs as plain
from sexton.protocol.messages import incremental_alter_configs as incremental

_RESOURCES = {TOPIC: "topic", BROKER: "broker"}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)  # Kafka's AlterConfigOp.OpType

Resource = TypeVar("Resource", plain.AlterConfigsResource, incremental.AlterConfigsResource)
Outcome = tuple[KafkaError, str | None]


class AlterConfigs:
    def __init__(self, site: Site, administration: Administration) -> None:
        self._site = site
        self._administration = administration

    def handle(self, caller: Caller, request: plain.AlterConfigsRequest, _version: int) -> None:
        def answer(outcomes: list[Outcome]) -> None:
            responses = [
                plain.AlterConfigsResourceResponse(
                    error, message, resource.resource_type, resource.resource_name
                )
                for resource, (error, message) in zip(request.resources, outcomes, strict=True)
            ]
            self._site.outside.answer(caller, plain.AlterConfigsResponse(responses=responses))

        self._alter(request.resources, _replacing, request.validate_only, answer)

    def handle_incremental(
        self, caller: Caller, request: incremental.IncrementalAlterConfigsRequest, _version: int
    ) -> None:
        def answer(outcomes: list[Outcome]) -> None:
            responses = [
                incremental.AlterConfigsResourceResponse(
                    error, message, resource.resource_type, resource.resource_name
                )
                for resource, (error, message) in zip(request.resources, outcomes, strict=True)
            ]
            response = incremental.IncrementalAlterConfigsResponse(responses=responses)
            self._site.outside.answer(caller, response)

        self._alter(request.resources, _changing, request.validate_only, answer)

    def _alter(
        self,
        resources: list[Resource],
        event_for: Callable[[Resource, bool], controller.AlterConfigs],
        validate_only: bool,
        answer: Callable[[list[Outcome]], None],
    ) -> None:
        named = [(each.resource_type, each.resource_name) for each in resources]
        outcomes: dict[int, Outcome] = {}
        events: dict[int, controller.AlterConfigs] = {}
        for number, resource in enumerate(resources):
            try:
                if named.count(named[number]) > 1:
                    raise Refused(KafkaError.INVALID_REQUEST, "a resource is named once")
                _check_name(resource.resource_type, resource.resource_name)
                events[number] = event_for(resource, validate_only)
            except Refused as refused:
                outcomes[number] = refused.error, refused.why

        def told(answers: Sequence[controller.AnswerBody]) -> None:
            outcomes.update(zip(events, map(outcome, answers), strict=True))
            answer([outcomes[number] for number in range(len(resources))])

        timeout_ms = self._site.config.request_timeout_ms
        self._administration.ask(list(events.values()), told, timeout_ms)


def _check_name(kind: int, name: str) -> None:
    if kind not in _RESOURCES:
        raise Refused(KafkaError.INVALID_REQUEST, f"there are no options of resource type {kind}")
    if kind == BROKER and name and not (name.isascii() and name.isdigit()):
        why = f"a broker is named by its node.id, or not at all, and not {name!r}"
        raise Refused(KafkaError.INVALID_REQUEST, why)


def _replacing(
    resource: plain.AlterConfigsResource, validate_only: bool
) -> controller.AlterConfigs:
    chosen: list[tuple[str, str]] = []
    for config in resource.configs:
        if config.value is None:
            why = f"Null value not supported for : {config.name}"
            raise Refused(KafkaError.INVALID_REQUEST, why)
        chosen.append((config.name, config.value))
    return controller.AlterConfigs(
        None, _RESOURCES[resource.resource_type], resource.resource_name, tuple(chosen),
        validate_only=validate_only, replaces=True,
    )  # fmt: skip


def _changing(
    resource: incremental.AlterConfigsResource, validate_only: bool
) -> controller.AlterConfigs:
    names = [config.name for config in resource.configs]
    changes: dict[int, list[tuple[str, str]]] = {_SET: [], _DELETE: [], _APPEND: [], _SUBTRACT: []}
    for config in resource.configs:
        if names.count(config.name) > 1:
            why = f"Error due to duplicate config keys: {config.name}"
            raise Refused(KafkaError.INVALID_REQUEST, why)
        if config.config_operation not in changes:
            why = f"{config.name}: there is no operation {config.config_operation}"
            raise Refused(KafkaError.INVALID_REQUEST, why)
        if config.value is None and config.config_operation != _DELETE:
            why = f"Null value not supported for : {config.name}"
            raise Refused(KafkaError.INVALID_REQUEST, why)
        changes[config.config_operation].append((config.name, config.value or ""))
    return controller.AlterConfigs(
        None, _RESOURCES[resource.resource_type], resource.resource_name, tuple(changes[_SET]),
        tuple(name for name, _ in changes[_DELETE]), validate_only,
        tuple(changes[_APPEND]), tuple(changes[_SUBTRACT]),
    )  # fmt: skip
