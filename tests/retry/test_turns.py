"""One turn of the main loop after another, without a broker: whose turn it is, and who is not kept
waiting."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sexton.machines.retry_pending import Held, Pending
from sexton.machines.retry_records import Command, TaskName, command_record
from sexton.machines.retry_settings import Settings
from sexton.machines.retry_task import Task
from sexton.retry import Message
from sexton.retry.config import RetryConfig
from sexton.retry.handlers import Handling
from sexton.retry.headers import Headers
from sexton.retry.messages import Payload
from sexton.retry.owned import Owned
from sexton.retry.pool import Pool
from sexton.retry.rounds import Entry, Rounds
from sexton.retry.service import Service
from sexton.retry.topics import Names
from tests.retry.test_parts import Polled, Problems


class Flow:
    """An inflow that always has more of partition 0, and nothing of any other."""

    def __init__(self) -> None:
        self.offset = 0

    def take(self, timeout_s: float) -> dict[int, list[Any]]:
        del timeout_s
        self.offset += 3
        return {0: [Polled(n, b"k", b"0:%d" % n) for n in range(self.offset - 3, self.offset)]}

    def put_back(self, running: object) -> None: ...
    def poll_ahead(self) -> None: ...


class AtOnce:
    """Commits that are confirmed before anybody could wait for them."""

    is_under_way = False

    def submit(self, entries: list[Entry]) -> bool:
        for _, task, _ in entries:
            task.confirmed()
        return False

    def settle(self, wait: object) -> None: ...


class Nothing:
    """Of the cluster, nothing new is heard."""

    def tails(self, owned: object) -> list[Any]:
        del owned
        return []

    def headers_at(self, name: object, offset: int) -> Headers:
        del name, offset
        return ()


class Turns:
    """A service that owns partitions 0 and 1; `ran` are the values that its handler was given."""

    def __init__(self) -> None:
        self.ran: list[bytes] = []
        self.error: Exception | None = None  # of every message
        config = RetryConfig(Names.of("orders", "g"), "g", {"bootstrap.servers": "nowhere:1"})
        handling = Handling(self.handle, {})
        service: Any = Service(config, handling)
        self.service = service
        service._io, service._inflow, service._commits = Nothing(), Flow(), AtOnce()
        service._rounds = Rounds(handling, service._io, service.counters)
        service._pool = Pool(handling, 1, 100, "test handler")
        self.first, self.second = self._owned(0), self._owned(1)

    def _owned(self, partition: int) -> Owned:
        name = TaskName("orders", partition)
        owned = Owned(name)
        owned.ready(Task(name, Settings(), Random(1), 0, 2, Pending()))
        self.service._owned[partition] = owned
        return owned

    def handle(self, message: Message) -> None:
        self.ran.append(message.value)
        if self.error is not None:
            raise self.error

    def task(self, owned: Owned) -> Task:
        assert owned.task is not None
        return owned.task

    def waits(self, owned: Owned, *, due: bool) -> None:
        """Message 5 of this partition."""
        not_before_ms = 0 if due else 1 << 60
        held = Held(b"a", 1, not_before_ms, 1, dead=False, retry_offset=5)
        name = owned.name
        task = Task(name, Settings(), Random(1), 6, 2, Pending.of({5: held}))
        owned.ready(task)
        owned.cache.put(5, Payload(b"a", b"1:5", (), 0))


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns()
    yield made
    made.service._pool.close(10.0)


def test_what_is_due_does_not_wait_for_a_gap_in_another_partition(turns: Turns) -> None:
    turns.waits(turns.second, due=True)
    turns.service._step()
    assert turns.ran == [b"0:0", b"0:1", b"0:2", b"1:5"]
    assert not turns.task(turns.second).pending.held
    assert turns.task(turns.first).position == 3


def test_a_command_does_not_wait_for_it_either(turns: Turns) -> None:
    turns.waits(turns.second, due=False)
    turns.service._step()
    assert turns.task(turns.second).pending.held, "it is not due"
    task = turns.task(turns.second)
    task.tail([(9, *command_record(task.name, Command("discard", 5), "x"))])
    turns.service._step()
    assert not task.pending.held
    assert turns.ran == [b"0:%d" % number for number in range(6)]


@pytest.mark.parametrize("error", [ValueError("no"), Problems()], ids=["told", "empty"])
def test_what_was_polled_behind_a_failure_is_in_the_same_round(
    turns: Turns, error: Exception
) -> None:
    turns.error = error
    turns.service._step()
    assert turns.ran == [b"0:0"]
    assert list(turns.task(turns.first).pending.held) == [0, 1, 2]
    assert turns.task(turns.first).position == 3


def test_while_nothing_is_due_a_calm_round_waits_for_no_commit(turns: Turns) -> None:
    """The negative control: what is handled now needs nothing of what is written now."""

    class NotYet(AtOnce):
        is_under_way = True

        def settle(self, wait: object) -> None:
            del wait
            raise AssertionError("nobody has to wait")

    turns.waits(turns.second, due=False)
    turns.service._commits = NotYet()
    turns.service._complete = lambda: None
    turns.service._step()
    assert turns.ran == [b"0:0", b"0:1", b"0:2"]
