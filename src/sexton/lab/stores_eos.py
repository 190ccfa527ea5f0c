"""Exactly once, and yet a counter goes backwards: two ways to it, told step by step.

    eos-checkpoint   a warm copy is promoted, believes its own checkpoint, and counts 110, 105
    eos-offsets      a broker confirms a commit before the group's offsets are applied; the next
                     owner is told an old offset, and processes records again (KAFKA-17507)
    eos-streams      the first one once more, with an old Kafka Streams (`streams_eos`,
                     KAFKA-16017)

Every transaction is committed properly, and a read_committed consumer sees the damage. Each story
is played as it was, and `fixed`: the copy reads its changelog to the end first; the broker confirms
when the offsets are there.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.client import Client
from sexton.client.producing import BatchSender
from sexton.client.retrying import until_it_works
from sexton.client.transacting import (
    Committed,
    commit_offset,
    end_transaction,
    init_producer_id,
    stable_offset,
)
from sexton.lab.eos_story import (
    GROUP,
    INPUT,
    KEY,
    PATIENCE_S,
    SINK,
    Story,
    Sums,
    Tell,
    Verdict,
    client_of,
    committed_sums,
    validated,
)
from sexton.lab.streams_eos import STREAMS
from sexton.records.few import few_batch
from sexton.stores import App, Output, Store, Task
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until

PARTITIONS, PARTITION = 20, 17  # as in the report of the failure
EARLY_MS: Final = 3_000
_SIGN = 1 << 63
AT = TopicPartition(SINK, PARTITION)
INPUT_AT = TopicPartition(INPUT, PARTITION)


# ── eos-checkpoint ──


def count(key: str, value: bytes, store: Store) -> list[Output]:
    del value
    total = store.get(key, 0) + 1
    store.put(key, total)
    return [Output(key, total, SINK, store.partition)]


def _checkpoint(cluster: Cluster, fixed: bool, tell: Tell) -> Verdict:
    servers = cluster.bootstrap_servers
    with tempfile.TemporaryDirectory(prefix="sexton-lab-") as home, _asking(cluster) as ask:
        _make_topics(cluster)
        tell("A works on all 20 partitions and counts key_17 to 104")
        with _app(servers, Path(home) / "a") as first:
            ask.write(104)
            _counted(first, 104)
        tell("B has a copy of A's stores, up to 104, on its own disk; then B is away")
        with _app(servers, Path(home) / "b") as second:
            _counted(second, 104)
        tell("A counts on to 110 and commits; sink, changelog and offsets say 110")
        with _app(servers, Path(home) / "a") as first:
            ask.write(6)
            _counted(first, 110)
        how = "reads the changelog to its end" if fixed else "believes its checkpoint: 104"
        tell(f"A is gone. B is promoted and {how}")
        with _app(servers, Path(home) / "b", trust=not fixed):
            tell("key_17 comes once more, and B counts it")
            ask.write(1)
            until(lambda: len(ask.sums()) > 110, "B has counted", PATIENCE_S)
        return ask.verdict()


def _app(servers: str, directory: Path, *, trust: bool = False) -> App:
    task = Task(
        "counts",
        input=INPUT,
        output=SINK,
        process=count,
        input_serdes=("str", "bytes"),
        store_serdes=("str", "int"),
        output_serdes=("str", "int"),
    )
    return App(
        GROUP,
        [task],
        bootstrap_servers=servers,
        state_dir=directory,
        instance=directory.name.upper(),
        heartbeat_interval_ms=200,
        trust_local_checkpoint=trust,
    )


def _counted(app: App, inputs: int) -> None:
    def done() -> bool:
        return (
            any(each.partition == PARTITION and each.state == "running" for each in app.status())
            and app.query("counts", PARTITION).input_position == inputs
        )

    until(done, f"{inputs} records are counted", PATIENCE_S, lambda: str(app.status()))


# ── eos-offsets ──


def _offsets(cluster: Cluster, fixed: bool, tell: Tell) -> Verdict:
    with _asking(cluster) as ask:
        _make_topics(cluster)
        ask.write(20)
        tell("A reads 10 records and commits sums and offset in one transaction; Kafka confirms")
        ask.sum_up(0, 10)
        tell("A goes on to 20, and Kafka confirms again")
        ask.sum_up(10, 20)
        tell("A is gone. B takes over: a new epoch first, then the group's offset, once stable")
        begin = ask.told()
        if begin == 20:
            tell("B is told 20, and has nothing to do")
        else:
            tell(f"B is told {begin}: it sums up 5 records from there again, and commits")
            ask.sum_up(begin, begin + 5)
        seen = ask.offsets_over_time(0.2 if fixed else 2 * EARLY_MS / 1000)
        tell(f"the group's offset, after 20 was confirmed: {', then '.join(map(str, seen))}")
        return ask.verdict()


class _Asking:
    """A client of the scenario, one call at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self._loop, self._client = loop, client

    def write(self, records: int) -> None:
        self._loop.run_until_complete(self._write(records))

    async def _write(self, records: int) -> None:
        asking = partial(append, self._client, INPUT_AT, [(KEY.encode(), b"1")] * records)
        await until_it_works(asking)  # nothing is there yet that a second attempt could double

    def sums(self) -> Sums:
        return self._loop.run_until_complete(
            committed_sums(self._client, AT, lambda value: int.from_bytes(value) - _SIGN)
        )

    def verdict(self) -> Verdict:
        found = self.sums()
        return Verdict(validated(found, PARTITION), found)

    def told(self) -> int:
        """A new owner: a new epoch, then the group's offset once it is stable."""
        return self._loop.run_until_complete(self._told())

    async def _told(self) -> int:
        await init_producer_id(self._client, "owner", 60_000)
        return await self._offset()

    async def _offset(self) -> int:
        committed = await stable_offset(self._client, GROUP, INPUT_AT)
        return 0 if committed is None else committed.offset

    def sum_up(self, begin: int, end: int) -> None:
        """What an owner does that keeps no state: sums and the offset in one transaction."""
        self._loop.run_until_complete(self._sum_up(begin, end))

    async def _sum_up(self, begin: int, end: int) -> None:
        client = self._client
        transaction = await init_producer_id(client, "owner", 60_000)
        made = [(KEY.encode(), (n + 1 + _SIGN).to_bytes(8)) for n in range(begin, end)]
        sender = BatchSender(client, transaction)
        await sender.send(AT, bytearray(few_batch(made, int(time.time() * 1000))))
        await sender.flush()
        await commit_offset(client, transaction, GROUP, INPUT_AT, Committed(end, ""))
        await end_transaction(client, transaction, committed=True)

    def offsets_over_time(self, until_s: float) -> list[int]:
        """Each value that the group's offset has, from now on."""
        seen: list[int] = []
        deadline = time.monotonic() + until_s
        while time.monotonic() < deadline:
            now = self._loop.run_until_complete(self._offset())
            if not seen or seen[-1] != now:
                seen.append(now)
            time.sleep(0.02)
        return seen


@contextmanager
def _asking(cluster: Cluster) -> Iterator[_Asking]:
    with client_of(cluster) as (loop, client):
        yield _Asking(loop, client)


def _make_topics(cluster: Cluster) -> None:
    for topic in (INPUT, SINK):
        cluster.create_topic(topic, PARTITIONS)


STORIES: Final = {
    story.name: story
    for story in (
        Story(
            "eos-checkpoint",
            "a promoted copy believes its checkpoint: a counter goes from 110 to 105",
            _checkpoint,
            10,
            on_kafka=True,
            packages=("rocksdict",),
        ),
        Story(
            "eos-offsets",
            "a commit is confirmed before the group's offset is applied: records are counted twice",
            _offsets,
            10,
            as_it_was={"lab.markers.acknowledged.before.offsets.ms": EARLY_MS},
        ),
        STREAMS,
    )
}
