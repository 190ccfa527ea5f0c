"""`sexton lab run`: one scenario, told step by step."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sexton.base.errors import ConfigError
from sexton.base.extras import need
from sexton.cli.lab_options import (
    EarlyOption,
    FixedOption,
    GuardOption,
    NameArgument,
    OnOption,
    PolicyOption,
    StepOption,
    scenario_names,
)
from sexton.cli.lab_telling import Teller
from sexton.cli.options import FormatOption, Policy
from sexton.cli.output import Output
from sexton.cli.stores_lab import run_story
from sexton.cli.writers import Format

if TYPE_CHECKING:
    from sexton.lab.divergences import Scenario
    from sexton.lab.places import Place

EXAMPLES = (
    (
        "See a deleted key come back, on brokers in this process",
        "sexton lab run tombstone-divergence",
    ),
    (
        "The same on Apache Kafka itself, in any version",
        "sexton lab run tombstone-divergence --on kafka=3.9.2",
    ),
    (
        "See that it does not happen where replicas ask each other",
        "sexton lab run stuck-partition --policy coordinated",
    ),
    (
        "Nor on an unmodified Apache Kafka with a guard beside it",
        "sexton lab run tombstone-divergence --on kafka --guard",
    ),
    (
        "Run at Kafka's default timers, days in a few seconds",
        "sexton lab run aborted-as-committed --on sim",
    ),
    ("See a counter go back although everything is exactly-once", "sexton lab run eos-checkpoint"),
    ("Stop to look around after each step", "sexton lab run stale-disk --step"),
    ("Get the outcome as JSON", "sexton lab run stuck-partition --early --format json"),
)
EXIT_CODES = "0 it ended as the scenario says, 1 it did not, or it failed, 2 wrong usage."
_POLICIES: dict[Policy | None, Literal["coordinated", "independent"] | None] = {
    None: None,
    Policy.coordinated: "coordinated",
    Policy.independent: "independent",
}


def command(
    name: NameArgument,
    on: OnOption = "embedded",
    policy: PolicyOption = None,
    early: EarlyOption = False,
    guard: GuardOption = False,
    fixed: FixedOption = False,
    step: StepOption = False,
    format: FormatOption = Format.table,
) -> None:
    """Run a lab scenario, and show what each broker holds after every step.

    At the end each broker leads in turn, a read_committed consumer reports what it sees, and an
    audit gives its verdict. The scenario says how it should end: replicas disagree where each one
    forgets on its own, and agree where they ask each other or where a guard watches, which then
    leaves every option as it was. Nothing is left behind.
    """
    from sexton.lab.stores_eos import STORIES

    if name in STORIES:
        _refuse_what_is_about_cleaning(name, guard=guard, early=early, policy=policy, step=step)
        run_story(name, on, fixed, format)
        return
    if fixed:
        raise ConfigError("--fixed", f"{name} has no such form", "see --policy and --guard")
    with Output("lab run", format) as out:
        if step and not (format is Format.table and sys.stdin.isatty()):
            raise ConfigError("--step", "needs a person at a terminal", "leave it out")
        scenario = _scenario(name)
        if early:
            from sexton.lab.places import refuse_without_early_form

            refuse_without_early_form(scenario)
        _need_clients(on)
        _perform(scenario, Where(on, policy, guard), early, step, out)


def _need_clients(on: str) -> None:
    """Before Apache Kafka is fetched for nothing."""
    from sexton.lab.places import place_called

    name, _version = place_called(on)
    if name != "sim":
        need("confluent_kafka", otherwise="choose --on sim, which needs nothing")


def _refuse_what_is_about_cleaning(name: str, **given: object) -> None:
    """The stories called eos have one other form, and are told without a pause."""
    for option, value in given.items():
        if value:
            why, hint = f"{name} is not about cleaning", "its one other form is --fixed"
            raise ConfigError(f"--{option}", why, hint)


@dataclass(frozen=True, slots=True)
class Where:
    """On which brokers."""

    on: str
    policy: Policy | None
    guard: bool

    def open(self, scenario: Scenario, stack: ExitStack) -> Place:
        from sexton.lab.guarding import guarded, refuse_senseless
        from sexton.lab.places import open_place
        from sexton.survey.runner import LocalRunner

        policy = _POLICIES[self.policy]
        if self.guard:
            refuse_senseless(self.on, policy)
        opened = open_place(self.on, policy, LocalRunner(), scenario.broker_options)
        place = stack.enter_context(opened)
        return stack.enter_context(guarded(place)) if self.guard else place


def _perform(scenario: Scenario, where: Where, early: bool, step: bool, out: Output) -> None:
    from sexton.lab.performing import NotAsTold, perform

    with ExitStack() as stack:
        with out.progress("starting"):
            place = where.open(scenario, stack)
        place.plays(scenario, early)  # or nothing is told at all
        teller = Teller(out, step, place)
        teller.opens(scenario, early)
        ending = perform(scenario, place, early=early, watch=teller.step)
        teller.ends(ending)
        if ending.surprises:
            raise NotAsTold(scenario.name, "; ".join(ending.surprises))


def _scenario(name: str) -> Scenario:
    from sexton.lab.divergences import LAB

    if name not in LAB:
        raise ConfigError(name, "is not a scenario", f"there are {', '.join(scenario_names())}")
    return LAB[name]
