"""What may a member have next, on its way to its target?

A partition is never with two members at once: what is not in the target is taken away first, and
the member stays where it is until it says that it let go; what others still hold waits. So

    keep     = has ∩ target
    revoke   = has − keep                     the member has to let go of it
    give     = target − keep − with others    goes to the member in the same step that it advances

and only if there is nothing to revoke does the member reach the target's epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.group_assignors import Partitions, TopicId
from sexton.machines.group_consumer_state import Held, Member, MemberState

Owned = dict[TopicId, frozenset[int]]


@dataclass(frozen=True, slots=True)
class Way:
    """Where a member is to go, and what is known about it."""

    epoch: int
    target: Partitions
    topics: frozenset[TopicId]  # that it subscribes to
    owned: Owned | None  # what it says that it owns; None: it does not say
    taken: Callable[[TopicId, int], bool]  # by anybody
    subscription_changed: bool = False


def next_step(member: Member, way: Way) -> Member:
    match member.state:
        case MemberState.STABLE if member.epoch != way.epoch:
            return _advance(member, way)
        case MemberState.STABLE:
            return _drop_unsubscribed(member, way) if way.subscription_changed else member
        case MemberState.UNREVOKED if _holds_on(member.revoking, way.owned):
            return _drop_unsubscribed(member, way) if way.subscription_changed else member
        case _:
            return _advance(member, way)


def _holds_on(revoking: Held, owned: Owned | None) -> bool:
    """Does it own what it should let go? Who does not say might."""
    if owned is None:
        return True
    return any(
        partition in owned.get(topic, ()) for topic, ps in revoking.items() for partition in ps
    )


def _drop_unsubscribed(member: Member, way: Way) -> Member:
    """It stays in its epoch, but must not go on reading what it does not want any more."""
    gone = {topic: ps for topic, ps in member.assigned.items() if topic not in way.topics}
    if not gone:
        return member
    assigned = {topic: ps for topic, ps in member.assigned.items() if topic in way.topics}
    revoking = {
        topic: {**member.revoking.get(topic, {}), **gone.get(topic, {})}
        for topic in sorted({*member.revoking, *gone})
    }
    moved = replace(member, previous_epoch=member.epoch, assigned=assigned)
    if _holds_on(revoking, way.owned):
        return replace(moved, state=MemberState.UNREVOKED, revoking=revoking)
    return moved


def _advance(member: Member, way: Way) -> Member:
    keep: Held = {}
    revoke: Held = {}
    give: Held = {}
    waits = False
    for topic in sorted({*way.target, *member.assigned}):
        target = way.target.get(topic, ()) if topic in way.topics else ()
        has = member.assigned.get(topic, {})
        letting_go = member.revoking.get(topic, {})  # its own: nobody else has taken it
        keep[topic] = {p: epoch for p, epoch in has.items() if p in target}
        revoke[topic] = {p: epoch for p, epoch in has.items() if p not in target}
        wanted = [p for p in target if p not in keep[topic]]
        free = [p for p in wanted if p in letting_go or not way.taken(topic, p)]
        give[topic] = dict.fromkeys(free, way.epoch)
        waits = waits or len(free) < len(wanted)
    revoke = {topic: partitions for topic, partitions in revoke.items() if partitions}
    if revoke and _holds_on(revoke, way.owned):
        return replace(
            member,
            state=MemberState.UNREVOKED,
            previous_epoch=member.epoch,
            assigned={topic: partitions for topic, partitions in keep.items() if partitions},
            revoking=revoke,
        )
    assigned = {topic: dict(sorted({**keep[topic], **give[topic]}.items())) for topic in keep}
    return replace(
        member,
        state=MemberState.UNRELEASED if waits else MemberState.STABLE,
        epoch=way.epoch,
        previous_epoch=member.epoch,
        assigned={topic: partitions for topic, partitions in assigned.items() if partitions},
        revoking={},
    )
