"""Tasks with state that survives a promotion.

    from sexton.stores import App, Task

    def count(key, value, store):
        total = store.get(key, 0) + 1
        store.put(key, total)
        return [(key, total)]

    task = Task("counts", input="words", output="totals", process=count,
                input_serdes=("str", "bytes"), store_serdes=("str", "int"),
                output_serdes=("str", "int"))
    App("word-counts", [task], bootstrap_servers="localhost:9092").run()

The names below are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.stores.app import App, TaskFailed
    from sexton.stores.serdes import Serde
    from sexton.stores.task import AppConfig, Output, Task
    from sexton.stores.view import Store, View

_HOME = {
    "App": "app",
    "AppConfig": "task",
    "Output": "task",
    "Serde": "serdes",
    "Store": "view",
    "Task": "task",
    "TaskFailed": "app",
    "View": "view",
}

__all__ = ["App", "AppConfig", "Output", "Serde", "Store", "Task", "TaskFailed", "View"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
