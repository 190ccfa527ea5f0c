"""Requests that change the cluster: a broker asks the controller, and answers when it has heard.

    client ──CreateTopics──▶ broker ──Several──▶ controller
                             broker ◀─Answers──  controller     it is decided, and written down
                             broker ◀─heartbeat─ controller     this broker knows it, too
    client ◀───────────────  broker

All that one request asks for is one question to the controller, hence one write to its log. Kafka
answers as soon as the controller has decided. Here the broker that answers also waits until it has
heard the records itself, for a moment at most: a client that goes on with the same broker then
finds what it has just made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sexton.base.kafka_errors import KafkaError
from sexton.machines import controller_events as controller
from sexton.node.site import Site

Told = Callable[[Sequence[controller.AnswerBody]], None]

NEWS_MS = 2_000  # how long an answer may wait for this broker's own news


class Administration:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._waiting: dict[int, tuple[int, Callable[[], None]]] = {}  # for metadata up to where
        self._count = 0

    def ask(self, requests: Sequence[controller.Request], told: Told, timeout_ms: int) -> None:
        """Has all of these done; `told` gets an answer to each, in their order."""
        if not requests:
            told(())
            return

        def then(answer: object | None) -> None:
            if isinstance(answer, controller.Answers):
                answers = answer.answers
                self._when_heard(answer.end, lambda: told(answers))
            else:
                why = "the controller did not answer in time; it may have been done all the same"
                told([controller.Failed(KafkaError.REQUEST_TIMED_OUT, why)] * len(requests))

        several = controller.Several(None, tuple(requests))
        self._site.ask_controller(several, then, max(timeout_ms, 1))

    def _when_heard(self, end: int, heard: Callable[[], None]) -> None:
        if self._site.metadata_end >= end:
            heard()
            return
        self._count += 1
        number = self._count
        self._waiting[number] = (end, heard)

        def give_up() -> None:
            if self._waiting.pop(number, None) is not None:
                heard()

        self._site.outside.after(NEWS_MS, give_up)

    def changed(self) -> None:
        """There is news of the cluster."""
        known = self._site.metadata_end
        for number in [number for number, (end, _) in self._waiting.items() if end <= known]:
            _, heard = self._waiting.pop(number)
            heard()


def outcome(answer: controller.AnswerBody) -> tuple[KafkaError, str | None]:
    """The error and what to say of it; none and nothing, if it was done."""
    if isinstance(answer, controller.Failed):
        return answer.error, answer.message
    return KafkaError.NONE, None


def new_topic_id(site: Site) -> str:
    """By chance. Kafka sets some low ones apart, and none begins with a dash as text."""
    while True:
        chosen = site.random.getrandbits(128)
        if chosen >> 64 and chosen >> 122 != 0b111110:
            return f"{chosen:032x}"
