"""`sexton up` is killed in the middle of writes, again and again: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sexton.testing.waiting import until
from tests.chaos import workloads
from tests.chaos.checker import check_consumers, check_log
from tests.chaos.history import Fate, History
from tests.chaos.run import at_work
from tests.chaos.workloads import LEDGER, PARTITIONS, STATE, Workshop, everything
from tests.cluster.test_up import up

CLIENTS = {
    "ledger-1": workloads.write_ledger,
    "transactions-1": workloads.transact,
    "reader-committed": workloads.read_committed,
}
TIMES = 3
ACKNOWLEDGED = 300  # between two kills
OPTIONS = ("--set", "min.insync.replicas=2", "--log-level", "error")


def test_a_cluster_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    history = History()
    with ExitStack() as stack:
        running = stack.enter_context(up(tmp_path, "--port", 0, *OPTIONS))
        bootstrap = running.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(topic, PARTITIONS, 3) for topic in (LEDGER, STATE)]
        for made in admin.create_topics(topics).values():
            made.result(30)
        shop = Workshop(bootstrap, history, 1, threading.Event())
        with at_work(shop, CLIENTS):
            for _ in range(TIMES):
                await_writes(history)
                assert running.end(signal.SIGKILL) == -signal.SIGKILL
                running = stack.enter_context(up(tmp_path, *OPTIONS))
            await_writes(history)
        ledger = everything(bootstrap, LEDGER)
        violations = [*check_log(history, LEDGER, ledger), *check_consumers(history)]
        assert not violations, "\n".join(map(str, [history.summary(), *violations[:10]]))


def await_writes(history: History) -> None:
    def acknowledged() -> int:
        return sum(1 for write in history.writes if write.fate is Fate.DONE)

    before = acknowledged()
    until(lambda: acknowledged() >= before + ACKNOWLEDGED, f"{ACKNOWLEDGED} more writes")
