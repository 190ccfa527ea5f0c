"""Writes docs/reference/broker-options.md: every option of a broker, a listener and a topic here.

The options are fields of the config dataclasses, and their words are the comments beside them; so
the page has what the code has. `make docs` runs this, and a test compares.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from sexton.broker.limits import Limits
from sexton.broker.listener import ListenerConfig
from sexton.broker.options import known_options
from sexton.machines.controller import ControllerConfig
from sexton.node.config import BrokerConfig
from sexton.node.topic_options import BY_SYNONYM, TOPIC_OPTIONS
from sexton.testing.embedded import FOR_TESTS
from tools.public_names import Class, public

PAGE = Path(__file__).parent.parent / "docs/reference/broker-options.md"
HEAD = """\
# Broker and topic options

`sexton up --set OPTION=VALUE`, `--config FILE` and `EmbeddedCluster(options={...})` take these, by
Kafka's names; where nothing is said of one, it means what it means in Kafka. What Kafka has beyond
them is named and passed over if it has no meaning in one process, or refused with what to do
instead; what Kafka does not have either is an error. [Limits](limits.md) says more about listeners,
and [Run a cluster](../how-to/run-a-cluster.md#options) which defaults `sexton up` changes.
"""


def page() -> str:
    """The whole page."""
    known = set(known_options())
    of_nodes = _rows((BrokerConfig, ControllerConfig), known)
    of_listeners = _rows((ListenerConfig, Limits), known - of_nodes.keys())
    inherited = sorted(known - of_nodes.keys() - of_listeners.keys())
    return "\n".join([
        HEAD,
        "## Brokers and controller\n",
        _table("| option | default | |", of_nodes.values()),
        "## Listeners and their limits\n",
        _table("| option | default | |", of_listeners.values()),
        "## What topics inherit\n",
        "Each is the default of a topic's option.\n",
        _table("| option | of a topic |", [_inherited(name) for name in inherited]),
        "## Topics\n",
        "`create_topic(..., configs)`, and what any admin client sets.\n",
        _table("| option | default | |", [_topic_row(name) for name in sorted(TOPIC_OPTIONS)]),
        "## In tests\n",
        "`EmbeddedCluster` begins with these: nothing is waited for longer than it has to be.\n",
        _table("| option | there |", [f"| `{n}` | `{v}` |" for n, v in FOR_TESTS.items()]),
    ]).rstrip() + "\n"  # fmt: skip


def _table(head: str, rows: Any) -> str:
    ruler = "| --- " * (head.count("|") - 1) + "|"
    return "\n".join([head, ruler, *rows]) + "\n"


def _rows(configs: tuple[type[Any], ...], known: set[str]) -> dict[str, str]:
    rows: dict[str, str] = {}
    for config in configs:
        told = public(config.__module__, config.__name__)
        assert isinstance(told, Class)
        about = {field.name: field.about for field in told.fields}
        for field in fields(config):
            name = field.name.replace("_", ".")
            if name in known and name not in rows:
                words = about.get(field.name, "").replace("|", "\\|")
                rows[name] = f"| `{name}` | {_default(field)} | {words} |"
    return dict(sorted(rows.items()))


def _default(field: Any) -> str:
    if field.default is MISSING:
        return ""
    return "none" if field.default in (None, "", ()) else f"`{_spelled(field.default)}`"


def _spelled(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inherited(name: str) -> str:
    option = BY_SYNONYM.get(name)
    return f"| `{name}` | `{option.name if option else name}` |"


def _topic_row(name: str) -> str:
    option = TOPIC_OPTIONS[name]
    default = f"`{option.default}`" if option.default else "none"
    return f"| `{name}` | {default} | {option.about} |"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"docs: wrote {PAGE.relative_to(PAGE.parents[2])}")


if __name__ == "__main__":
    main()
