"""One run, and the one command that makes it happen again.

A seed decides every option. Whoever asked for other faults, another policy or single options gets a
command that says so, and nothing that the seed says already:

    sexton sim replay 17 --hours 24 --policy independent --faults killed-leader --only 3,8

Faults are left out by number. Of `--without` and `--only` the command has the shorter one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sexton.base.errors import ConfigError
from sexton.sim.faults import FAULTS
from sexton.sim.options import Options
from sexton.sim.plan import planned

OWN_OPTIONS = ("seed", "hours", "policy", "faults")  # those that `--set` does not change


@dataclass(frozen=True, slots=True)
class Replay:
    options: Options
    without: frozenset[int] = frozenset()

    def command(self, verb: str = "replay") -> str:
        options = self.options
        seeds_own = Options.of(options.seed, options.hours, options.policy)
        words = ["sexton", "sim", verb, str(options.seed)]
        words += ["--hours", str(options.hours), "--policy", options.policy]
        if options.faults != seeds_own.faults:
            words += ["--faults", ",".join(options.faults)]
        for each in fields(Options):
            value = getattr(options, each.name)
            if each.name not in OWN_OPTIONS and value != getattr(seeds_own, each.name):
                words += ["--set", f"{each.name}={value}"]
        return shlex.join(words + self._left_out())

    def _left_out(self) -> list[str]:
        if not self.without:
            return []
        numbers = [each.number for each in planned(self.options)]
        kept = [number for number in numbers if number not in self.without]
        gone = [number for number in numbers if number in self.without]
        if not gone:
            return []
        if len(gone) < len(kept) or not kept:
            return ["--without", ",".join(map(str, gone))]
        return ["--only", ",".join(map(str, kept))]


def replay_options(
    seed: int,
    hours: int,
    policy: str,
    faults: str | None = None,
    settings: Sequence[str] = (),
) -> Options:
    """What was asked for; ConfigError if it cannot be."""
    options = Options.of(seed, hours, policy)
    if faults is not None:
        options = options.with_faults(*_fault_names(faults))
    for setting in settings:
        options = _set(options, setting)
    return options


def _fault_names(text: str) -> list[str]:
    names = list(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    for name in names:
        if name not in FAULTS:
            raise ConfigError("--faults", f"there is no fault {name}", "see `sexton sim faults`")
    return names


def _set(options: Options, setting: str) -> Options:
    name, equals, text = setting.partition("=")
    known = [each.name for each in fields(Options) if each.name not in OWN_OPTIONS]
    if not equals or name not in known:
        raise ConfigError(
            f"--set {setting}", "is not an option of a run", f"one of {', '.join(known)}"
        )
    now = getattr(options, name)
    try:
        changed: dict[str, Any] = {name: _parsed(text, type(now))}
    except ValueError:
        raise ConfigError(f"--set {setting}", "has no such value", f"as in {name}={now}") from None
    return replace(options, **changed)


def _parsed(text: str, kind: type) -> object:
    if kind is bool:
        if text not in ("True", "False", "true", "false"):
            raise ValueError(text)
        return text in ("True", "true")
    value: object = kind(text)
    if isinstance(value, int | float) and value < 0:
        raise ValueError(text)
    return value


def fault_numbers(option: str, text: str) -> frozenset[int]:
    """`1,2,5` as numbers."""
    try:
        return frozenset(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigError(option, f"{text} is not a list of numbers", "as in 1,2,5") from None


def left_out(options: Options, without: str | None, only: str | None) -> frozenset[int]:
    """The faults not to have, of the two ways to say so."""
    if without is not None and only is not None:
        raise ConfigError("--only", "and --without say the same thing twice", "give one of them")
    numbers = [each.number for each in planned(options)]
    if only is not None:
        kept = _known("--only", only, numbers)
        return frozenset(numbers).difference(kept)
    return _known("--without", without, numbers) if without is not None else frozenset()


def _known(option: str, text: str, numbers: Iterable[int]) -> frozenset[int]:
    asked = fault_numbers(option, text)
    strange = sorted(asked.difference(numbers))
    if strange:
        last = max(numbers, default=-1)
        why = f"no fault has the number {strange[0]}"
        raise ConfigError(option, why, f"this run plans #0 to #{last}" if last >= 0 else None)
    return asked
