"""Everything that can go wrong: one list of all kinds, always in the same order.

    network_faults     lost, late, repeated, cut off
    process_faults     killed, paused, without power, restarted
    disk_faults        old, empty, full, damaged
    clock_faults       off, ahead, behind
    operator_faults    replicas moved, leaders elected, options changed
    store_faults       instances of an application with state stores

A seed takes its mixture from the first five. Those of instances it has on top, if it has instances.
"""

from __future__ import annotations

from sexton.sim import (
    clock_faults,
    disk_faults,
    network_faults,
    operator_faults,
    process_faults,
    store_faults,
)
from sexton.sim.stage import KNOWN, Fault

_OF_CLUSTERS = (network_faults, process_faults, disk_faults, clock_faults, operator_faults)
FAULTS: dict[str, Fault] = {
    name: function
    for module in (*_OF_CLUSTERS, store_faults)
    for name, function in KNOWN.items()
    if function.__module__ == module.__name__
}
OF_INSTANCES = tuple(n for n, f in FAULTS.items() if f.__module__ == store_faults.__name__)


def describe(name: str) -> str:
    return (FAULTS[name].__doc__ or "").strip()
