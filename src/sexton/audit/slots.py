"""How large is a table of keys? A power of two of slots, so that a hash finds its slot by a mask.

In a table that is too full every key is looked for in many places: whoever makes one says how full
it may be.
"""

from __future__ import annotations

LEAST_SLOTS = 1 << 14


def slots_for(keys: int, load: float) -> int:
    """The fewest that `keys` fill at most by `load`."""
    slots = LEAST_SLOTS
    while slots * load < keys:
        slots *= 2
    return slots
