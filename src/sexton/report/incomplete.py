"""What could not be looked at, for people: one line for each reason that many parts share.

    orders-0 on broker 3: is not up
    orders-0 on broker 3, orders-1 on broker 3, orders-2 on broker 3 and 1,202 more: broker 3: ...

A broker that is down is the reason for thousands of replicas. Programs get each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MOST_NAMED = 3  # of what is incomplete for one reason

Part = tuple[str, str]  # what, and why


def by_reason(parts: Iterable[Part]) -> Iterator[Part]:
    """Few of a reason each by itself, as the first of them came; many of it together."""
    reasons: dict[str, list[str]] = {}
    for what, why in parts:
        reasons.setdefault(why, []).append(what)
    for why, named in reasons.items():
        if len(named) > MOST_NAMED:
            first = ", ".join(named[:MOST_NAMED])
            named = [f"{first} and {len(named) - MOST_NAMED:,} more"]
        for what in named:
            yield what, said_once(what, why)


def said_once(what: str, why: str) -> str:
    """`orders-0 on broker 3` needs no reason that begins with `broker 3` again."""
    who, _, rest = why.partition(": ")
    return rest if rest and what.endswith(who) else why
