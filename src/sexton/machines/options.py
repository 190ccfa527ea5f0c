"""How things are to behave: the options of topics, brokers and groups, and how they change.

The controller keeps options as text. Which ones there are, and what they may be, is known to those
who act on them; they lend the controller their `Rules`. What it judges itself is the one option
that it acts on, `unclean.leader.election.enable`.

A change names what to set, what goes back to its default, and for lists what to add and take away.
It is judged by what the options would be after it. Where a topic's `compaction.policy` changes,
each of its partitions begins a new term, in which leader and followers go by the new one together.
"""

from __future__ import annotations

from collections.abc import Mapping

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.machines.controller_events import AlterConfigs
from sexton.machines.ledger import UNCLEAN, Ledger
from sexton.machines.metadata import ConfigRecord, Image, Removed

POLICY = "compaction.policy"
_RESOURCES = ("topic", "broker", "group")


def is_independent(image: Image, topic: str) -> bool:
    """Does the topic itself say that each replica cleans as it likes? Defaults are brokers' own."""
    return image.options_of("topic", topic).get(POLICY) == "independent"


class Rules:
    """Without anybody to ask, every option is as good as any other."""

    def check(self, resource: str, options: Mapping[str, str]) -> None:
        """Refuses what cannot be."""
        check_unclean(options)
        del resource

    def default_list(self, resource: str, option: str) -> str | None:
        """What a list is while nobody sets it; None if the option is no list."""
        del resource, option
        return ""


def check_unclean(options: Mapping[str, str]) -> None:
    value = options.get(UNCLEAN, "false")
    if value.lower() not in ("true", "false"):
        raise Refused(KafkaError.INVALID_CONFIG, f"{UNCLEAN} is true or false, not {value!r}")


def alter(ledger: Ledger, event: AlterConfigs, rules: Rules) -> list[str]:
    """Changes the options; returns which are others now."""
    if event.resource not in _RESOURCES:
        raise Refused(
            KafkaError.INVALID_REQUEST,
            f"{event.resource} has no options; they belong to a {', '.join(_RESOURCES)}",
        )
    if event.resource == "topic":
        ledger.check_topic(event.name)
    before = ledger.image.options_of(event.resource, event.name)
    after = _after(before, event, rules)
    rules.check(event.resource, after)
    if event.validate_only or after == before:
        return []
    record = ConfigRecord(event.resource, event.name, tuple(sorted(after.items())))
    ledger.write(record if after else Removed(record.key))
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _after(before: dict[str, str], event: AlterConfigs, rules: Rules) -> dict[str, str]:
    after = {} if event.replaces else dict(before)
    after.update(event.set)
    for option in event.delete:
        after.pop(option, None)
    for option, value in event.append:
        parts = _parts(after, event.resource, option, rules)
        after[option] = ",".join(dict.fromkeys([*parts, *_split(value)]))
    for option, value in event.subtract:
        gone = _split(value)
        parts = _parts(after, event.resource, option, rules)
        after[option] = ",".join(part for part in parts if part not in gone)
    return after


def _parts(options: dict[str, str], resource: str, option: str, rules: Rules) -> list[str]:
    default = rules.default_list(resource, option)
    if default is None:
        raise Refused(
            KafkaError.INVALID_CONFIG,
            f"{option} is not a list: set it, there is nothing to add or take away",
        )
    return _split(options.get(option, default))


def _split(value: str) -> list[str]:
    return [part for part in map(str.strip, value.split(",")) if part]
