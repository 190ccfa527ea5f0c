"""A call that does not come back: is that the client's fault, or a broker's?

librdkafka's send_offsets_to_transaction may wait forever, whatever its timeout. If the group's
coordinator has gone from the metadata, the client gives up that broker but remembers it as the
coordinator: it waits for it to come up, asks nobody, and does not look at the time (librdkafka's
issues 5511 and 5456, seen with 2.16.0). Nothing that brokers do would end it. So such a call is
left behind in its thread, and another client takes the place of that one. It happens here because
a dead broker is given up so soon: the client forgets a coordinator by itself in a second or two.

But only if it asks nobody. A client that waits for an answer, or that asks again and again, is let
down by a broker; its statistics tell, and that is a violation (`unanswered`).
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.chaos.history import History

CALL_S = 5.0  # as a call is told
GRACE_S = 1.0  # after that it should have heard its own timeout
GIVE_UP_S = 30.0  # for a client that still asks: a coordinator may take a while to come back
_EVERY_MS = 250
_ASKED = ("FindCoordinator", "AddOffsetsToTxn", "TxnOffsetCommit")


class LeftBehind(Exception):
    """The call may come back or not; nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class Sample:
    asked: int  # requests that serve the call, sent so far
    under_way: int  # requests of any kind that are queued or wait for their answer


@dataclass(slots=True)
class Pulse:
    """What a producer asks of brokers, as its own statistics have it."""

    # The last second and a half, which is less than any request may take.
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=6))

    @property
    def settings(self) -> dict[str, Any]:
        return {"statistics.interval.ms": _EVERY_MS, "stats_cb": self.told}

    def told(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        asked = sum(broker["req"].get(name, 0) for broker in brokers for name in _ASKED)
        busy = sum(max(broker["outbuf_cnt"], 0) + broker["waitresp_cnt"] for broker in brokers)
        self.samples.append(Sample(asked, busy))

    @property
    def asks_nobody(self) -> bool:
        """Nothing was asked for a while, and nothing is waited for."""
        alike = len({sample.asked for sample in self.samples}) == 1
        return alike and any(sample.under_way == 0 for sample in self.samples)


def patiently(
    call: Callable[[float], None], producer: Producer, pulse: Pulse, history: History, name: str
) -> None:
    """Makes a call of a producer that is told to end within so many seconds."""
    failed: list[KafkaException] = []

    def work() -> None:
        try:
            call(CALL_S)
        except KafkaException as error:
            failed.append(error)

    # Left behind, the thread keeps its producer for good: who freed it would wait for the call.
    thread = threading.Thread(target=work, name=f"call of {name}", daemon=True)
    thread.start()
    thread.join(CALL_S + GRACE_S)
    end = time.monotonic() + GIVE_UP_S
    while thread.is_alive():
        producer.poll(0)  # tells its statistics
        late = time.monotonic() > end
        if pulse.asks_nobody or late:
            with history.changing():
                blamed = history.left_behind if pulse.asks_nobody else history.unanswered
                blamed.append(f"{name}: {list(pulse.samples)}")
            raise LeftBehind(name)
        thread.join(_EVERY_MS / 1000)
    if failed:
        raise failed[0]
