"""What the controller is told about options: those that brokers act on, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.options import Rules
from sexton.node.topic_options import (
    BROKER_OPTIONS,
    BY_SYNONYM,
    LIST,
    TOPIC_OPTIONS,
    check_topic_options,
)


class OptionRules(Rules):
    def check(self, resource: str, options: Mapping[str, str]) -> None:
        if resource == "topic":
            check_topic_options(options)
        elif resource == "broker":
            _check_broker_options(options)
        elif options:
            why = f"a {resource} has no options here: {', '.join(options)}"
            raise Refused(KafkaError.INVALID_CONFIG, why)

    def default_list(self, resource: str, option: str) -> str | None:
        known = (TOPIC_OPTIONS if resource == "topic" else BROKER_OPTIONS).get(option)
        return known.default if known is not None and known.kind == LIST else None


def _check_broker_options(options: Mapping[str, str]) -> None:
    fixed = [name for name in options if name not in BROKER_OPTIONS]
    if fixed:
        raise Refused(
            KafkaError.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {', '.join(fixed)}",
        )
    for name, value in options.items():
        BROKER_OPTIONS[name].check(value)
    of_topics = {name: value for name, value in options.items() if name in BY_SYNONYM}
    check_topic_options({BY_SYNONYM[name].name: value for name, value in of_topics.items()})
