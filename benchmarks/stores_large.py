"""A store of a gigabyte: how fast is it filled from its changelog, and how soon does a copy work?

A      reads the input into its store, and goes
B      comes with nothing: restores all of it, and works       the cold restore
A      comes back, with what it had, as B's copy
B      goes: A is promoted                                      the warm promotion
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Measure
from benchmarks.stores_inputs import VALUE_BYTES, fill
from sexton.stores import App, Store, Task

TIMEOUT_S = 1_800.0


def keep(key: bytes, value: bytes, store: Store) -> None:
    store.put(key, value)


def cold_and_warm(bootstrap: str, home: Path, size: int) -> tuple[Measure, Measure]:
    records = max(1, size // VALUE_BYTES)
    fill(bootstrap, "large", records, records, VALUE_BYTES)
    with _app(bootstrap, home / "a") as filling:
        _until(lambda: any(each.input_position == records for each in filling.status()))
    with _app(bootstrap, home / "b") as cold:
        _until(lambda: _promoted(cold))
        restored = _numbers(cold)
        first = Measure(
            int(restored["restored_records_total"]),
            0.0,
            restored["promotion_seconds_max"],
            int(restored["restored_bytes_total"]),
        )
        warm = _app(bootstrap, home / "a")
        warm.start()
        _until(lambda: any(each.state == "standby" and each.lag == 0 for each in warm.status()))
    _until(lambda: _promoted(warm))
    took_s = _numbers(warm)["promotion_seconds_max"]
    warm.close()
    return first, Measure(1, took_s, took_s)


def _app(bootstrap: str, directory: Path) -> App:
    task = Task("large", input="large", process=keep)
    return App(
        "large", [task], bootstrap_servers=bootstrap, state_dir=directory,
        instance=directory.name, heartbeat_interval_ms=200,
    )  # fmt: skip


def _numbers(app: App) -> dict[str, float]:
    lines = [line for line in app.metrics().splitlines() if not line.startswith("#")]
    return {
        line.split("{")[0].removeprefix("sexton_stores_"): float(line.rsplit(" ", 1)[1])
        for line in lines
    }


def _promoted(app: App) -> bool:
    return _numbers(app)["promotions_total"] >= 1


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the benchmark's application does not get on")
        time.sleep(0.02)
