"""The counter of the seed: each record adds one to its key, the sum goes to the sink.

As a program it is one instance, for tests that kill it:

    python tests/stores/counting.py '{"bootstrap_servers": ..., "state_dir": ..., ...}'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sexton.stores import App, Output, Store, Task

INPUT, SINK = "numbers", "sums"


def count(key: str, value: bytes, store: Store) -> Iterable[Output]:
    if value == b"forget":
        store.delete(key)
        return [Output(key, 0, SINK, store.partition)]
    total = store.get(key, 0) + 1
    store.put(key, total)
    return [Output(key, total, SINK, store.partition)]


def counter(name: str = "counts") -> Task:
    return Task(
        name,
        input=INPUT,
        output=SINK,
        process=count,
        input_serdes=("str", "bytes"),
        store_serdes=("str", "int"),
        output_serdes=("str", "int64"),
    )


def app(bootstrap_servers: str, state_dir: Path | str, **options: Any) -> App:
    chosen: dict[str, Any] = {
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
        "instance": Path(state_dir).name,
        **options,
    }
    return App(
        "counter", [counter()], bootstrap_servers=bootstrap_servers, state_dir=state_dir, **chosen
    )


if __name__ == "__main__":
    from sexton.broker.logs import configure

    configure("info", as_json=False)
    app(**json.loads(sys.argv[1])).run()
