"""One instance as a process of its own, to be killed and paused: `python -m tests.retry.worker`.

It fails the first attempt of so many percent of all messages, and writes the others to OUT. With a
`--gate DIR` the message `GATE` stops inside the handler: a file says that it is there, and another
one lets it go on. It says `ready` once the group has given it its partitions.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
import zlib
from pathlib import Path

from sexton.broker import logs
from sexton.retry import Backoff, Message, OrderedRetry
from tests.retry.harness import OUT, parse

GATE = b"0:5"
LOOK_AGAIN_S = 0.01


def main() -> None:
    asked = _parser().parse_args()
    logs.configure("info", as_json=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the test's
    retry = OrderedRetry(
        Handler(asked.failing, None if asked.gate is None else Path(asked.gate)),
        topic="orders",
        group="g",
        bootstrap_servers=asked.servers,
        backoff=Backoff(first_ms=50, most_ms=200),
        transaction_timeout_ms=asked.transaction_timeout_ms,
        mode=asked.mode,
        instance=asked.instance,
        max_batch=200,
        settings={
            "session.timeout.ms": str(asked.session_timeout_ms),
            "heartbeat.interval.ms": str(asked.session_timeout_ms // 10),
            "max.poll.interval.ms": str(asked.max_poll_interval_ms),
        },
    )
    threading.Thread(target=_say_ready, args=(retry,), daemon=True).start()
    retry.run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("servers")
    parser.add_argument("--failing", type=int, default=5, help="percent")
    parser.add_argument("--gate")
    parser.add_argument("--instance")
    parser.add_argument("--mode", default="transactional")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    parser.add_argument("--max-poll-interval-ms", type=int, default=300_000)
    parser.add_argument("--transaction-timeout-ms", type=int, default=5_000)
    return parser


def _say_ready(retry: OrderedRetry) -> None:
    retry.wait_until_ready(600)
    sys.stdout.write("ready\n")
    sys.stdout.flush()


class Handler:
    def __init__(self, percent: int, gate: Path | None) -> None:
        self.percent = percent
        self.gate = gate

    def __call__(self, message: Message) -> None:
        parse(message.value)
        if self.gate is not None and message.value == GATE:
            self._stand(self.gate)
        if message.attempts == 0 and zlib.crc32(message.value) % 100 < self.percent:
            raise ValueError("the first time")
        message.send(OUT, message.value, message.key)

    def _stand(self, gate: Path) -> None:
        (gate / f"at-{os.getpid()}").touch()
        while not (gate / "open").exists():
            time.sleep(LOOK_AGAIN_S)


if __name__ == "__main__":
    main()
