"""An output that brokers will not take: whose failure is it?

That of the message whose handler sent it, as if the handler had raised it. Otherwise the whole
transaction fails, is done again and fails again, for ever, with all that was handled beside it.

    too large to be written            never gets better: a dead letter at once (`OutputTooLarge`)
    no such topic or partition,        may get better: tried again after the backoff, and a dead
    not authorized                     letter at the ceiling (`OutputRefused`)

The transaction that found it out is lost; its tasks start up again. When the same message has been
handled again, its turn ends as above, before anything is sent. A topic that was refused is left
alone for `FOR_S`: what is sent to it meanwhile is refused here, so that the messages of other keys
do not pay with a transaction for each of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Literal

from sexton.base.lazy_dataclass import dataclass
from sexton.machines.retry_outcomes import OutputRefused, OutputTooLarge, Verdict
from sexton.retry.messages import Output

FOR_S = 10.0  # somebody may create the topic, or be asked for the right to write to it
What = Literal["too large", "this one", "the topic"]


@dataclass(frozen=True, slots=True)
class Refusal:
    partition: int  # of the task
    id: int  # of the message whose output it is
    topic: str  # that it was sent to
    what: What  # is refused
    why: str

    @property
    def verdict(self) -> Verdict:
        kind = OutputTooLarge if self.what == "too large" else OutputRefused
        return kind(f"an output to {self.topic} cannot be written: {self.why}")


class Refusals:
    """Noted by the main loop, asked by whoever runs handlers."""

    def __init__(self) -> None:
        self._messages: dict[tuple[int, int], Refusal] = {}
        self._topics: dict[str, tuple[float, Refusal]] = {}  # until when

    def __bool__(self) -> bool:
        return bool(self._messages or self._topics)

    def note(self, refusals: Iterable[Refusal]) -> None:
        for each in refusals:
            self._messages[each.partition, each.id] = each  # once at least, however long it takes
            if each.what == "the topic":
                self._topics[each.topic] = (monotonic() + FOR_S, each)

    def of(self, partition: int, id: int, outputs: Sequence[Output]) -> Verdict | None:
        """What a message that was handled has failed with all the same."""
        found = self._messages.pop((partition, id), None)
        if found is not None:
            return found.verdict
        for topic, *_ in outputs:
            until_s, refusal = self._topics.get(topic, (0.0, None))
            if refusal is None:
                continue
            if monotonic() < until_s:
                return refusal.verdict
            self._topics.pop(topic, None)
        return None
