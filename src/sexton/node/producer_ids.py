"""Producer ids that nobody was given before, from blocks that the controller hands out."""

from __future__ import annotations

from collections.abc import Callable

from sexton.machines import controller_events as controller
from sexton.node.site import Site

Granted = Callable[[int | None], None]  # None: the controller does not answer


class ProducerIds:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._next = self._end = 0
        self._waiting: list[Granted] = []

    def grant(self, granted: Granted) -> None:
        if self._next < self._end:
            self._next += 1
            granted(self._next - 1)
            return
        self._waiting.append(granted)
        if len(self._waiting) == 1:
            request = controller.AllocateProducerIds(None, self._site.node, self._site.broker_epoch)
            self._site.ask_controller(request, self._received)

    def _received(self, answer: object | None) -> None:
        waiting, self._waiting = self._waiting, []
        if not isinstance(answer, controller.ProducerIds):
            for granted in waiting:
                granted(None)
            return
        self._next, self._end = answer.first, answer.first + answer.count
        for granted in waiting:
            self.grant(granted)
