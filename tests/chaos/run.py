"""One chaos run: clients work, a nemesis disturbs the cluster, then everything is compared.

    python -m tests.chaos.run SEED SECONDS [independent]

prints what happened and what was broken by it. When all is calm again, hours pass once more and
every broker cleans: what is wrong with a replica must show by then, and what may go must be gone.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.waiting import TimedOut, until
from tests.chaos import copying, workloads
from tests.chaos.apart import apart
from tests.chaos.checker import (
    Violation,
    check_consumers,
    check_copies,
    check_group,
    check_keys,
    check_log,
    forgotten,
)
from tests.chaos.history import History
from tests.chaos.nemesis import HOUR_MS, TOPICS, Fault, all_in_sync, disturb, follow
from tests.chaos.replicas import replica_records
from tests.chaos.workloads import COPY, LEDGER, PARTITIONS, STATE, Work, Workshop, everything

CLIENTS: Mapping[str, Work] = {
    "ledger-1": workloads.write_ledger,
    "ledger-2": workloads.write_ledger,
    "state-1": workloads.write_state,
    "state-2": workloads.write_state,
    "deleted": workloads.write_and_delete,
    "transactions-1": workloads.transact,
    "transactions-2": workloads.transact,
    "copier-1": apart("tests.chaos.copying:copy_ledger"),
    "copier-2": apart("tests.chaos.copying:copy_ledger"),
    "group-watcher": copying.watch_group,
    "reader-committed": workloads.read_committed,
    "reader-uncommitted": workloads.read_uncommitted,
}
BROKERS = 4  # three replicas each: a partition can move
OPTIONS = {
    "min.insync.replicas": 2,
    "log.cleaner.backoff.ms": 100,
    "replica.lag.time.max.ms": 10_000,  # a machine that is busy makes nobody fall behind
    "replica.fetch.response.max.bytes": 8_000,  # who has missed much does not catch up at once
    "producer.id.expiration.ms": 2**40,  # days go by in a second; nobody expires in between
}
SMALL_SEGMENTS = {
    "cleanup.policy": "compact",
    "segment.bytes": 8_000,
    "min.cleanable.dirty.ratio": 0.0,
    "delete.retention.ms": 24_000,  # minima are collected every second
}
CALM_S = 60.0

Policy = Literal["coordinated", "independent"]


@dataclass(frozen=True, slots=True)
class Outcome:
    history: History
    violations: list[Violation]
    forgotten: int  # keys that were deleted and of which the leader holds no tombstone any more

    @property
    def kinds(self) -> set[str]:
        return {violation.kind for violation in self.violations}

    def __str__(self) -> str:
        found = [str(violation) for violation in self.violations[:10]]
        more = len(self.violations) - len(found)
        return "\n".join(
            [
                f"{self.history.summary()}; {self.forgotten} deleted keys forgotten",
                *self.history.faults,
                f"{len(self.violations)} violations: {', '.join(sorted(self.kinds)) or 'none'}",
                *found,
                *([f"and {more} more"] if more else []),
            ]
        )


def chaos(
    seed: int,
    seconds: float = 0.0,
    compaction: Policy = "coordinated",
    plan: tuple[Fault, ...] = (),
    enough: Callable[[History], bool] = lambda _history: True,
    calm_s: float = CALM_S,
) -> Outcome:
    """Faults as planned, then for so many seconds those that the seed chooses.

    It goes on until clients have done enough, however slow the machine is. Where nothing is wrong,
    it becomes calm in much less than `calm_s`.
    """
    history = History()
    with (
        quick_directory() as data,
        EmbeddedCluster(BROKERS, data=data, compaction=compaction, options=OPTIONS) as cluster,
    ):
        replicas = [(1, 2, 3), (2, 3, 4)]
        cluster.create_topic(LEDGER, replicas, {"retention.ms": -1})
        cluster.create_topic(COPY, [(3, 4, 1), (4, 1, 2)], {"retention.ms": -1})
        cluster.create_topic(STATE, replicas, SMALL_SEGMENTS)
        shop = Workshop(cluster.bootstrap_servers, history, seed, threading.Event())
        with complaints() as complained:
            with at_work(shop, CLIENTS):
                follow(cluster, history, plan)
                disturb(cluster, history, seed, seconds)
                until(lambda: enough(history), "clients have done enough", 3 * CALM_S)
            stuck = list(_calm_down(cluster, calm_s))
            if not stuck:  # else nobody can read to the end
                stuck += copying.copy_the_rest(cluster.bootstrap_servers, history)
            outcome = _judge(cluster, history)
        failed = [Violation("broker-failed", text) for text in complained]
        return replace(outcome, violations=[*failed, *stuck, *outcome.violations])


@contextmanager
def at_work(shop: Workshop, clients: Mapping[str, Work]) -> Iterator[None]:
    """Clients, each in a thread of its own, for as long as the block takes."""
    failed: list[BaseException] = []

    def run(work: Work, name: str) -> None:
        try:
            work(shop, name)
        except BaseException as error:  # noqa: BLE001  raised below, in the test's own thread
            failed.append(error)

    threads = [
        threading.Thread(target=run, args=(work, name), name=name, daemon=True)
        for name, work in clients.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        shop.stopped.set()
        for thread in threads:
            thread.join(CALM_S)
    hang = [f"{each.name}, at\n{_where(each)}" for each in threads if each.is_alive()]
    assert not hang, "cannot come to an end:\n" + "\n".join(hang)
    if failed:
        raise failed[0]


def _where(thread: threading.Thread) -> str:
    """The line that a thread is at."""
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-3:]) if frame else "it has just ended"


@contextmanager
def complaints() -> Iterator[list[str]]:
    """What brokers log as errors of their own."""
    found: list[str] = []
    formatter = logging.Formatter()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(formatter.format(record))

    handler, logger = Listening(logging.ERROR), logging.getLogger("sexton")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


@contextmanager
def quick_directory() -> Iterator[Path]:
    """In memory if there is such a place: brokers die in here, but the power never fails."""
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sexton-chaos-", dir=where) as directory:
        yield Path(directory)


def _calm_down(cluster: EmbeddedCluster, calm_s: float) -> Iterator[Violation]:
    cluster.heal()
    all_in_sync(cluster)

    def settled() -> bool:
        """No transaction is open, and followers have heard so."""
        return all(
            len({each.last_stable for each in replicas} | {each.log_end for each in replicas}) == 1
            for topic in TOPICS
            for partition in range(PARTITIONS)
            if (replicas := cluster.offsets(topic, partition).values())
        )

    try:
        until(settled, "every transaction ended and every replica up to date", calm_s)
    except TimedOut:
        yield Violation("never-ends", str(cluster.offsets(LEDGER, 0)))
    for _ in range(3):
        cluster.let_time_pass(HOUR_MS)


def _judge(cluster: EmbeddedCluster, history: History) -> Outcome:
    bootstrap = cluster.bootstrap_servers
    ledger, state = everything(bootstrap, LEDGER), everything(bootstrap, STATE)
    found = [*check_log(history, LEDGER, ledger), *check_consumers(history)]
    committed = copying.committed_by_group(bootstrap, history)
    found += check_copies(ledger, everything(bootstrap, COPY), committed)
    found += check_group(history)
    found += check_keys(history, STATE, "the leader", state)
    for node in cluster.node_ids:
        for partition in range(PARTITIONS):
            if node in cluster.offsets(STATE, partition):
                records = replica_records(bootstrap, node, STATE, partition)
                found += check_keys(history, STATE, f"broker {node}", records, partition)
    return Outcome(history, found, forgotten(history, STATE, state))


def main(words: list[str]) -> int:
    policy: Policy = "independent" if "independent" in words else "coordinated"
    outcome = chaos(int(words[0]), float(words[1]), policy)
    print(outcome)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
