"""A client in a process of its own: it may stand still for good, and the brokers do not.

A member of a group that closes runs its rebalance callback while confluent-kafka holds Python's
lock, and may wait in there for a broker. Were that broker in the same process, neither would ever
go on. So the members work apart: what they have to tell comes as lines of JSON, and they go on
until their standard input ends.

    at_work(shop, {"copier-1": apart("tests.chaos.copying:copy_ledger")})
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from importlib import import_module

from tests.chaos.history import History
from tests.chaos.workloads import PATIENCE_S, Work, Workshop, leave_nothing_open

_TOLD_EVERY_S = 0.1


def apart(work: str) -> Work:
    """The same work, named as `module:function`, in another process for each client."""

    def supervise(shop: Workshop, name: str) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.chaos.apart",
            work,
            shop.bootstrap,
            str(shop.seed),
            name,
        ]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            listening = threading.Thread(target=_listen, args=(process, shop.history), daemon=True)
            listening.start()
            while not shop.stopped.wait(_TOLD_EVERY_S):
                assert process.poll() is None, f"{name} has ended by itself"
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                with shop.history.changing() as history:
                    history.left_behind.append(f"{name}: it could not come to an end")
            listening.join()
        leave_nothing_open(shop, name)
        assert process.returncode in (0, -9), f"{name} ended with {process.returncode}"

    return supervise


def _listen(process: subprocess.Popen[str], history: History) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        news = json.loads(line)
        with history.changing():
            history.given_up += news["given_up"]
            history.unanswered += news["unanswered"]
            history.left_behind += news["left_behind"]


# ── in the other process ──


def main(words: list[str]) -> None:
    work, bootstrap, seed, name = words
    module, _, function = work.partition(":")
    shop = Workshop(bootstrap, History(), int(seed), threading.Event())
    over = threading.Event()
    telling = threading.Thread(target=_tell, args=(shop.history, over))
    telling.start()
    threading.Thread(target=_end_with_input, args=(shop,), daemon=True).start()
    try:
        getattr(import_module(module), function)(shop, name)
    finally:
        over.set()
        telling.join()


def _end_with_input(shop: Workshop) -> None:
    sys.stdin.read()
    shop.stopped.set()


def _tell(history: History, over: threading.Event) -> None:
    """What is new, until the work is over; the last of it after that."""
    last = False
    while not last:
        last = over.wait(_TOLD_EVERY_S)
        with history.changing():
            news = {
                "given_up": history.given_up,
                "unanswered": history.unanswered,
                "left_behind": history.left_behind,
            }
            history.given_up, history.unanswered, history.left_behind = 0, [], []
        if any(news.values()):
            print(json.dumps(news), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # a call that was left behind would keep its producer, and so the process
