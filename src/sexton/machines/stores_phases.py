"""What is a task busy with, what does it know only then, and in which words does it give up?

    Idle ─▶ Following                                       a standby
         └▶ Fencing ─▶ Asking ─▶ CatchingUp ─▶ Running      an owner
                 └──────────┴──────────┴─▶ Stopped          it took too long, or cannot be right

`stores` has the ways from one to another. Three of them wait for somebody who may never answer;
these know since when, and what to say of it.
"""

from __future__ import annotations

from sexton.base.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do, or it waits for the group's next word."""


@dataclass(frozen=True, slots=True)
class Following:
    """A standby."""


@dataclass(frozen=True, slots=True)
class Fencing:
    """A promotion's first step."""

    since_ms: int | None = None  # the first time that nobody gave a new epoch

    def unanswered(self, patience_ms: int) -> str:
        tried = _tried(patience_ms)
        return f"no new producer epoch was given, {tried}: the last owner may still write"


@dataclass(frozen=True, slots=True)
class Asking:
    """For the group's offset; then, once that is told, for the bounds of the changelog."""

    told: bool = False
    offset: int | None = None
    since_ms: int | None = None  # the first time that nobody answered
    moved_ms: int | None = None  # of a restore that is interrupted to ask once more

    def unanswered(self, patience_ms: int, least_end: int) -> str:
        """Below `least_end` the task has written to the changelog itself."""
        if not self.told:
            return f"the group's offset was not told, {_tried(patience_ms)}"
        if least_end:
            return f"no leader of the changelog has what this task wrote below {least_end}"
        return f"nobody said where the changelog ends, {_tried(patience_ms)}"


@dataclass(frozen=True, slots=True)
class CatchingUp:
    offset: int | None  # the group's
    end: int
    moved_ms: int  # when it last came nearer

    def stands_still(self, position: int, patience_ms: int) -> str:
        return (
            f"the changelog could not be read to {self.end}: it stands at {position} and has not"
            f" moved for {patience_ms // 1000} s"
        )


@dataclass(frozen=True, slots=True)
class Running:
    next_input: int | None  # in the overlay
    lands_at: int | None = None  # where its first changelog record must land; None: one has
    committing: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    why: str


Phase = Idle | Following | Fencing | Asking | CatchingUp | Running | Stopped


def _tried(patience_ms: int) -> str:
    return f"though asked for {patience_ms / 1000:g} s"
