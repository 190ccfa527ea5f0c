"""What does this guard know of one topic by its own eyes?

Nobody is believed alone. A broker that is cut off from its controller goes on to answer, with what
it knew before: replicas in sync that are not, options that were changed since. So each round asks
another broker, a topic counts as well only after several rounds in a row said so, and its options
are what two brokers show alike. Where only one can be reached, for some time, it has to do: if it
is the one that is cut off, no change goes through it either.
"""

from __future__ import annotations

from dataclasses import field

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.guard_events import Options
from sexton.machines.guard_health import Health, TopicSight
from sexton.machines.guard_views import SEVERAL


@dataclass(frozen=True, slots=True)
class Look:
    """A topic's options, as one broker has them."""

    by: str
    options: Options


@dataclass(slots=True)
class Watched:
    """What this guard knows of one topic by its own eyes."""

    sight: TopicSight
    health: Health
    rounds: int = 0  # so many looks in a row have seen this very topic
    reasons: tuple[str, ...] = ()  # why cleaning could do harm
    well_since_ms: int | None = None
    well_rounds: int = 0  # so many looks in a row said so, each at another broker
    options: Options | None = None
    described_ms: int | None = None
    looks: list[Look] = field(default_factory=list)  # of this round
    alone_rounds: int = 0  # so many in a row in which one broker alone could be asked
    failed: str | None = None  # why they could not be
    differs_since_ms: int | None = None  # the options are not what the notes say
    unfrozen_since_ms: int | None = None  # somebody else has unfrozen it
    bare_since_ms: int | None = None  # a replica is or may be away, and it is not frozen
    refused: str | None = None  # what Kafka said to the last change
    not_before_ms: int = 0  # the next attempt after that
    unsure_ms: int | None = None  # when a change of ours was not answered
    altered_round: int = -1  # the round of our last change
    # The last audit that we knew of when we saw a replica away, or one that was filled while the
    # leader changed: it counts no more, whatever came of the note that says so.
    outdated: tuple[int, int] | None = None  # cycle, offset

    def begin_round(self, sight: TopicSight, brokers: int) -> None:
        self.sight = sight
        self.rounds += 1
        if len(self.looks) >= SEVERAL:
            alone = len({look.by for look in self.looks}) == 1
            self.alone_rounds = self.alone_rounds + 1 if alone else 0
        if brokers == 1:
            self.alone_rounds = SEVERAL
        self.looks = []

    def add(self, look: Look) -> None:
        self.looks.append(look)
        self.options = self.agreement() or look.options

    def agreement(self) -> Options | None:
        """What two brokers show alike; or one, if for some time no other could be reached."""
        for at, look in enumerate(self.looks):
            for other in self.looks[:at]:
                if look.by != other.by and look.options.own == other.options.own:
                    return look.options
        alone = len(self.looks) >= SEVERAL and len({look.by for look in self.looks}) == 1
        return self.looks[-1].options if alone and self.alone_rounds >= SEVERAL else None

    @property
    def fresh(self) -> bool:
        """Were the options looked at in this round?"""
        return bool(self.looks)
