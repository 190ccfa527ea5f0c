"""One scenario at one place, watched from its first step to the verdict.

When the damage can be seen, if there is any, each broker leads in turn and a read_committed
consumer reads the topic from it; and an audit says what it makes of the replicas. A scenario ends
as it says if replicas diverge where each forgets by itself, and do not where they ask each other or
a guard looks, and the audit calls it by its name. What a guard has changed must be as before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from sexton.base.errors import SextonError
from sexton.lab.divergences import WHOLE_LIFE, Scenario
from sexton.lab.looking import Consumed
from sexton.lab.places import Place
from sexton.lab.stage import AWAY, Outcome, Watch
from sexton.survey.survey import Survey


class NotAsTold(SextonError):
    """A scenario ran, and ended otherwise than it says."""


@dataclass(frozen=True, slots=True)
class Ending:
    scenario: Scenario
    place: Place
    outcome: Outcome
    survey: Survey
    readers: dict[int, Consumed]  # what a consumer saw, by who led
    seconds: float
    changed_options: tuple[str, ...] = ()  # that a guard has not set back

    @property
    def diverges(self) -> bool:
        """Ought replicas to diverge here?"""
        if self.scenario.finding is None:
            return False
        unhelped = self.place.guard is not None and not self.scenario.guard_helps
        return self.place.forgets_alone or unhelped

    @property
    def step_after(self) -> int | None:
        """The step that came when readers and the audit had looked: brokers clean once more."""
        later = self.outcome.cleaned_up and not self.outcome.forgotten
        return len(self.outcome.story) if later else None

    @property
    def surprises(self) -> list[str]:
        """What is not as the scenario says."""
        found = []
        if self.outcome.diverged != self.diverges:
            found.append("replicas agree" if self.diverges else "replicas diverged")
        expected = [self.scenario.finding] if self.diverges else []
        codes = [finding.code for finding in self.survey.findings]
        if codes != expected:
            said, wanted = (
                ", ".join(filter(None, each)) or "nothing" for each in (codes, expected)
            )
            found.append(f"the audit finds {said}, not {wanted}")
        found += [f"the audit could not read {at}: {why}" for at, _, why in self.survey.unread]
        if self.changed_options:
            found.append(f"the guard has not set back {', '.join(self.changed_options)}")
        if self.outcome.states and self.outcome.states != self._life:
            found.append("the marker was first " + ", then ".join(self.outcome.states))
        return found

    @property
    def _life(self) -> tuple[str, ...]:
        """Before Kafka 4.0 a marker waits for its producer to expire, and then goes at once."""
        first, *_, last = WHOLE_LIFE
        return (first, last) if self.place.bumps is False else WHOLE_LIFE


def perform(
    scenario: Scenario, place: Place, *, early: bool = False, watch: Watch | None = None
) -> Ending:
    place.plays(scenario, early)
    began = time.monotonic()
    hands = place.hands()
    surveys: list[Survey] = []
    readers: dict[int, Consumed] = {}

    def look(topic: str) -> None:
        surveys.append(place.audit(topic))
        for node in (AWAY, 1, 2):
            place.cluster.elect(topic, 0, node)
            readers[node] = hands.consumed(topic)

    outcome = scenario(
        place.cluster,
        look,
        watch=watch,
        early=early,
        hands=hands,
        pace=place.pace(scenario, early),
        bumps=place.bumps,
    )
    (survey,) = surveys
    readers = dict(sorted(readers.items()))
    changed = () if place.guard is None else tuple(place.guard.changed_options(outcome.topic))
    seconds = time.monotonic() - began
    return Ending(scenario, place, outcome, survey, readers, seconds, changed)
