"""How did a run of the handler end, and what becomes of its message?

    returns           done: its outputs and its release go out together
    raises Retry      tried again after the backoff, or after as long as it says; its key waits
    raises Dead       never again: to the dead letter, with the reason
    raises Drop       never again, and nobody needs to know
    raises other      what `errors` says of its type; Retry if it says nothing

`errors` maps exception types to one of the three: `{ValueError: Dead, KeyError: Drop}`. The nearest
type wins, as with `except`: a mapping of `Exception` does not hide one of `ValueError`.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any, Final

from sexton.base.errors import ConfigError
from sexton.machines.retry_rounds import Failure, Outcome

MOST_REASON = 500  # characters; a header is no place for a page
MOST_STACK = 16_000
LONGEST_S = 365 * 86_400


class Verdict(Exception):
    """What a handler raises to say what is to become of its message."""


class Retry(Verdict):
    """Try this message again later; its key waits, no other does.

    `after_s` is how long, where the handler knows better than the backoff: another service has
    said when to come back. It is an attempt like any other.
    """

    after_ms: int | None = None  # a subclass need not call this class's __init__

    def __init__(self, *said: object, after_s: float | None = None) -> None:
        super().__init__(*said)
        if after_s is not None and not 0 <= after_s <= LONGEST_S:
            raise ValueError(f"after_s is {after_s}: from 0 to {LONGEST_S}, which is a year")
        if after_s is not None:
            self.after_ms = round(after_s * 1000)


class Dead(Verdict):
    """This message can never be handled: to the dead letter with it."""


class Drop(Verdict):
    """This message need not be handled at all; it is gone without a trace."""


# A handler does not raise these: they are what becomes of a message whose outputs are not taken.


class OutputTooLarge(Dead):
    """What the handler has sent for this message can never be written."""


class OutputRefused(Retry):
    """What the handler has sent for this message cannot be written as things are."""


_OUTCOMES: Final[dict[type[Verdict], Outcome]] = {
    Retry: Outcome.RETRY,
    Dead: Outcome.DEAD,
    Drop: Outcome.DROP,
}
Errors = Mapping[type[Exception], type[Verdict]]


def check_errors(errors: Mapping[Any, Any]) -> None:
    """What a caller gave as `Errors`, who may not have a type checker."""
    for kind, verdict in errors.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            why = f"{kind!r} is no type of exceptions; {{ValueError: Dead}} has one"
            raise ConfigError("errors", why)
        if verdict not in _OUTCOMES:
            raise ConfigError("errors", f"{verdict!r} is not one of Retry, Dead and Drop")


def outcome_of(error: BaseException, errors: Errors) -> Outcome:
    for kind in type(error).__mro__:
        if kind in _OUTCOMES:
            return _OUTCOMES[kind]
        if kind in errors:
            return _OUTCOMES[errors[kind]]
    return Outcome.RETRY


def failure_of(error: BaseException, *, with_stack: bool = True) -> Failure:
    """What the lock record and the dead letter say about it."""
    name = type(error).__qualname__
    said = _said(error)
    reason = said if isinstance(error, Verdict) and said else f"{name}: {said}" if said else name
    stack = "".join(traceback.format_exception(error)) if with_stack else ""
    return Failure(_short(reason, MOST_REASON), name, stack[-MOST_STACK:])


def _said(error: BaseException) -> str:
    """An exception of somebody's own may fail to say anything, which is not to end the instance."""
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001 - whatever it is
        return f"(its own text cannot be had: {type(failed).__qualname__})"


def _short(text: str, most: int) -> str:
    line = text if text.isprintable() else " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
