"""Are all replicas of a topic in sync, and can each that comes back be trusted?

A topic is well when every assigned replica of every partition is in the ISR and none is being added
or moved. A replica in the ISR has every tombstone there is, so from then on cleaning can do no
harm. Two kinds of replicas are in the ISR and still not to be trusted:

  - one that was away, unguarded, for longer than `delete.retention.ms`: the others may have
    forgotten tombstones by then that it never saw. How long it was away at most is the time since
    somebody last saw it in sync.
  - one that was being filled while the leader changed: it may have copied a value from one leader
    and missed the tombstone, which the next one had removed already. A replica whose broker is down
    is not being filled; and one that leads was full before it could be elected.

What brokers say may be old. A partition's leader epoch never goes back, so a view in which it does
is passed over, and one in which it is higher is newer than all before. Within a term nobody can
tell which of two views is the newer one, for a replica comes and goes without a new epoch. Then the
worse counts: that a replica is away at once, that it is back, or not assigned any more, only when
several brokers in a row have said so (`guard_views`). And a topic counts as well only after every
view, from whichever broker, has said so for a while (`guard`).
"""

from __future__ import annotations

from dataclasses import field

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.guard_notes import Doubt
from sexton.machines.guard_views import NEVER

AWAY = "was away, unguarded, for longer than delete.retention.ms"
UNKNOWN = "was away before anybody guarded it, nobody knows for how long"
LEADER_CHANGED = "was being filled when the leader changed"


@dataclass(frozen=True, slots=True)
class PartitionSight:
    partition: int
    leader: int  # -1: nobody
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicSight:
    name: str
    topic_id: str
    partitions: tuple[PartitionSight, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """The name as well: on clusters without topic ids all topics have the same one."""
        return self.name, self.topic_id

    @property
    def replicated(self) -> bool:
        """One replica alone has nobody to disagree with."""
        return any(len(p.replicas) > 1 for p in self.partitions)


Place = tuple[int, int]  # partition, replica


@dataclass(frozen=True, slots=True)
class Moment:
    """When a view was had, and since when it is known what those before it have said."""

    now_ms: int
    known_ms: int  # with this view (`guard_views`)
    known_before_ms: int  # without it, or `NEVER`


@dataclass(slots=True)
class Health:
    """What is known of one topic's replicas."""

    topic_id: str
    places: dict[int, PartitionSight] = field(default_factory=dict)
    # Those that some view has not seen in sync, and that are not surely back: when each was last
    # known to be in sync, or None for one that was being added and never was.
    out: dict[Place, int | None] = field(default_factory=dict)
    moved: dict[Place, None] = field(default_factory=dict)  # filled while the leader changed
    moves_seen: int = 0  # so often, of one replica more than once maybe
    back: dict[Place, int] = field(default_factory=dict)  # since when all views say that it is
    gone: dict[Place, int] = field(default_factory=dict)  # ... that it is not assigned any more

    def see(self, sight: TopicSight, brokers: frozenset[int], at: Moment) -> None:
        for place in sight.partitions:
            before = self.places.get(place.partition)
            newer = before is None or place.leader_epoch > before.leader_epoch
            if before is not None and place.leader_epoch < before.leader_epoch:
                continue
            if before is not None:
                self._notice_move(before, place, brokers)
            self._notice_absence(place, at, newer)
            self._notice_removal(place, at, newer)
            self.places[place.partition] = place

    def _notice_move(
        self, before: PartitionSight, now: PartitionSight, brokers: frozenset[int]
    ) -> None:
        # Two terms later the same leader may have had another one in between.
        stayed = now.leader == before.leader and now.leader_epoch < before.leader_epoch + 2
        if before.leader < 0 or stayed:
            return
        for number, replica in self.out:
            was_filled = number == now.partition and replica != now.leader
            if was_filled and (replica in brokers or replica in now.isr):
                self.moved[number, replica] = None
                self.moves_seen += 1

    def _notice_absence(self, place: PartitionSight, at: Moment, newer: bool) -> None:
        for replica in place.replicas:
            who = place.partition, replica
            self.gone.pop(who, None)
            if replica not in place.isr:
                self.back.pop(who, None)
                if replica in place.adding:
                    self.out.setdefault(who, None)
                elif self.out.get(who) is None:
                    self.out[who] = at.known_before_ms
            elif who in self.out and (newer or self._is_sure(self.back, who, at)):
                self.back.pop(who, None)
                del self.out[who]

    def _notice_removal(self, place: PartitionSight, at: Moment, newer: bool) -> None:
        for who in dict.fromkeys([*self.out, *self.moved]):
            if who[0] != place.partition or who[1] in place.replicas:
                continue
            if newer or self._is_sure(self.gone, who, at):
                for known in (self.out, self.moved, self.back, self.gone):
                    known.pop(who, None)  # it starts empty if it comes back

    def _is_sure(self, since: dict[Place, int], who: Place, at: Moment) -> bool:
        """Have several said so, and nobody anything else?"""
        return since.setdefault(who, at.now_ms) <= at.known_ms

    def changed_in(self, view_ms: int) -> bool:
        """Was that view the first that says of a replica that it is back, or not assigned?"""
        return view_ms in self.back.values() or view_ms in self.gone.values()

    def reasons(self) -> tuple[str, ...]:
        """Why cleaning could do harm now; empty if all is well."""
        found: dict[str, list[int]] = {}
        for place in self.places.values():
            for replica in place.replicas:
                if replica in place.adding or replica in place.removing:
                    found.setdefault(f"replica {replica} is being moved", []).append(
                        place.partition
                    )
                elif replica not in place.isr:
                    where = "offline" if replica in place.offline else "not in sync"
                    found.setdefault(f"replica {replica} is {where}", []).append(place.partition)
                elif replica in place.offline:
                    found.setdefault(f"replica {replica} is offline", []).append(place.partition)
            if place.leader < 0:
                found.setdefault("nobody leads", []).append(place.partition)
        return tuple(f"{why} ({_partitions(numbers)})" for why, numbers in sorted(found.items()))

    def doubts(self, now_ms: int, budget_ms: int, safe_until_ms: int = 0) -> tuple[Doubt, ...]:
        """Replicas that are not to be trusted once they are back, if cleaning stops only now.

        Until `safe_until_ms` it was stopped.
        """
        found = []
        for (partition, replica), since_ms in self.out.items():
            if since_ms is None:
                continue  # while it is added nobody takes it for one that has everything
            if since_ms == NEVER and not safe_until_ms:
                found.append(Doubt(partition, replica, UNKNOWN))
            elif now_ms - max(since_ms, safe_until_ms) >= budget_ms:
                found.append(Doubt(partition, replica, AWAY))
        return tuple(sorted(found, key=_by_place))

    def moves(self) -> tuple[Doubt, ...]:
        return tuple(Doubt(*place, LEADER_CHANGED) for place in sorted(self.moved))

    def holds(self, doubt: Doubt) -> bool:
        """Is that replica still assigned? One that was removed starts empty."""
        place = self.places.get(doubt.partition)
        return place is None or doubt.replica in place.replicas


def _by_place(doubt: Doubt) -> Place:
    return doubt.partition, doubt.replica


def _partitions(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:4]))
    more = f" and {len(numbers) - 4} more" if len(numbers) > 4 else ""
    return f"partition{'s' if len(numbers) > 1 else ''} {shown}{more}"
