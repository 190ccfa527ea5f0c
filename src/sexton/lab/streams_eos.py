"""110, then 105, by Kafka Streams 3.5.1 itself, with every commit exactly once.

The report saw it by chance, under network trouble and rebalances. Here is the one history of which
these are the parts (KAFKA-16017):

    A   counts key_17 to 110 and commits; B keeps a copy
    A   cannot reach its transaction coordinator: it gives up its store, and reads it back
    A   has read 104 of 110 when the group moves the task to B; it closes what it has, and writes a
        checkpoint with the offsets that it *wrote* before, not with those that it has read
    B   works, and goes away
    A   is promoted, believes that checkpoint, reads nothing, and counts 105

The counter is `java/Counter.java`, whose restores are slow, as those of a large store are. `fixed`
is the same with 3.7.2, where a store that is given up also forgets what it wrote.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.client.appending import append
from sexton.client.retrying import until_it_works
from sexton.client.transacting import init_producer_id, stable_offset
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
from sexton.stores.changelog import bounds
from sexton.testing.cluster import Cluster
from sexton.testing.java import FAST_START, find_java
from sexton.testing.waiting import TimedOut, until

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from sexton.client.client import Client
    from sexton.testing.kafka_jars import KafkaJars

AS_IT_WAS, FIXED = "3.5.1", "3.7.2"
CHANGELOG = "counter-counts-changelog"
OTHER_KEY = "key_3"
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
ATTEMPTS = 5  # a commit may be over before its coordinator is stopped
_SOURCE = Path(__file__).parent / "java" / "Counter.java"
AT = TopicPartition(SINK, 0)
WRITTEN = (TopicPartition(CHANGELOG, 0), AT)
GIVES_UP_S = 60.0  # Streams waits 5 s for its coordinator, then gives its store up


def _streams(cluster: Cluster, fixed: bool, tell: Tell) -> Verdict:
    from sexton.lab.streams_jars import streams_jars

    version = FIXED if fixed else AS_IT_WAS
    jars = streams_jars(version)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sexton-lab-")))
        ask = _Asking(cluster, *stack.enter_context(client_of(cluster)))
        ask.make_topics()
        a = stack.enter_context(_instance(jars, cluster, home / "a"))
        a.wait_until("running")
        ask.write(KEY, 110)
        until(lambda: len(ask.sums(KEY)) == 110, "A has counted", PATIENCE_S, a.log)
        tell(f"A, Kafka Streams {version}, counts key_17 to 110 and commits")
        b = stack.enter_context(_instance(jars, cluster, home / "b"))
        b.wait_until("running")
        tell("B starts, and has a copy of A's store")
        behind, ahead = _move(a, b, ask, tell)
        until(lambda: bool(ask.sums(OTHER_KEY)), "key_3 is counted", PATIENCE_S, ahead.log)
        ahead.close()
        how = "has read what it lacks" if fixed else "believes its checkpoint, and reads nothing"
        tell(f"{ahead} goes away. {behind} is promoted and {how}; key_17 comes once more")
        ask.write(KEY, 1)
        until(lambda: len(ask.sums(KEY)) > 110, f"{behind} has counted", PATIENCE_S, behind.log)
        return Verdict(validated(ask.sums(KEY), AT.partition), ask.sums(KEY))


def _move(owner: _Instance, other: _Instance, ask: _Asking, tell: Tell) -> _Pair:
    """Until the task has moved away from an owner that had read 104 records back.

    The group and the restore race each other: where it came out otherwise, it is done once more.
    """
    for _ in range(ATTEMPTS):
        before, waiting = owner.restores, other.restores
        _upset(owner, ask)
        tell(f"{owner} cannot reach its transaction coordinator: it gives up its store")
        moved = partial(_anybody_is_ready, owner, before, other, waiting)
        until(moved, "somebody has the task", PATIENCE_S, owner.log)
        has_moved = other.restores > waiting
        where = f"when the group moves the task to {other}" if has_moved else "and goes on"
        tell(f"{owner} has read {owner.restored} records back {where}")
        if has_moved and 0 < owner.restored < 110:
            return owner, other
        if has_moved:
            owner, other = other, owner
    raise TimedOut("a task moves during its restore", f"not in {ATTEMPTS} attempts")


def _anybody_is_ready(owner: _Instance, before: int, other: _Instance, waiting: int) -> bool:
    return owner.restores > before or other.restores > waiting


def _upset(owner: _Instance, ask: _Asking) -> None:
    """It has written, and not committed yet, when its coordinator stands still.

    Streams commits every three seconds; now and then it does so before we are there.
    """
    before = owner.corrupted
    for _ in range(ATTEMPTS):
        ask.have_it_write(OTHER_KEY)
        ask.cluster.pause(ask.coordinator)
        try:
            until(lambda: owner.corrupted > before, "it gives its store up", GIVES_UP_S)
            return
        except TimedOut:
            continue
        finally:
            ask.cluster.resume(ask.coordinator)
    raise TimedOut("a store is given up", f"not in {ATTEMPTS} attempts\n{owner.log()}")


class _Asking:
    """A client of the story, one call at a time."""

    def __init__(self, cluster: Cluster, loop: AbstractEventLoop, client: Client) -> None:
        self.cluster, self._loop, self._client = cluster, loop, client
        self.coordinator = -1  # of transactions

    def make_topics(self) -> None:
        """All that is read and written is elsewhere than the transaction coordinator.

        The changelog is one that Streams finds, as it would have made it.
        """
        self._loop.run_until_complete(self._make_coordinators())
        self.coordinator = self.cluster.leader_of(TRANSACTIONS)
        elsewhere = next(node for node in self.cluster.node_ids if node != self.coordinator)
        if self.cluster.leader_of(OFFSETS) == self.coordinator:
            self.cluster.reassign(OFFSETS, 0, [elsewhere])
        for topic in (INPUT, SINK):
            self.cluster.create_topic(topic, [[elsewhere]])
        self.cluster.create_topic(CHANGELOG, [[elsewhere]], {"cleanup.policy": "compact"})

    async def _make_coordinators(self) -> None:
        await init_producer_id(self._client, "anybody", 60_000)
        await stable_offset(self._client, GROUP, TopicPartition(INPUT, 0))

    def write(self, key: str, records: int) -> None:
        asking = partial(
            append, self._client, TopicPartition(INPUT, 0), [(key.encode(), b"1")] * records
        )
        self._loop.run_until_complete(until_it_works(asking))

    def have_it_write(self, key: str) -> None:
        """A record, and what is made of it is in changelog and sink, committed or not."""
        before = [self._end(at) for at in WRITTEN]
        self.write(key, 1)

        def written() -> bool:
            return all(self._end(at) > end for at, end in zip(WRITTEN, before, strict=True))

        until(written, "it is in changelog and sink", PATIENCE_S)

    def _end(self, at: TopicPartition) -> int:
        return self._loop.run_until_complete(bounds(self._client, at)).high_watermark

    def sums(self, wanted: str) -> Sums:
        """Those of one key."""
        number = partial(int.from_bytes, byteorder="big", signed=True)  # Java's long
        found = self._loop.run_until_complete(committed_sums(self._client, AT, number))
        return [(key, value) for key, value in found if key == wanted]


class _Instance:
    """One instance of the counter, in a Java process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path, log: Path) -> None:
        self._process, self._said, self._log = process, said, log

    def __str__(self) -> str:
        return self._log.stem.upper()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, words: str) -> None:
        """Until it has said so."""

        def there() -> bool:
            if self._process.poll() is not None:
                raise PeerError("Kafka Streams", f"has ended\n{self.log()[-4000:]}")
            return any(line.startswith(words) for line in self._lines)

        until(there, f"an instance says {words!r}", PATIENCE_S, self.log)

    @property
    def _lines(self) -> list[str]:
        return self._said.read_text(errors="replace").splitlines()

    @property
    def corrupted(self) -> int:
        """How often it has given up its store."""
        return self.log().count("are corrupted")

    @property
    def restores(self) -> int:
        """How often it has become the owner, with all that there is."""
        return sum(line.startswith("restored all") for line in self._lines)

    @property
    def restored(self) -> int:
        """How many records it has read back from its changelog, the last time it did."""
        found = 0
        for line in self._lines:
            first, _, last = line.rpartition(" ")
            if first == "restored":
                found = int(last)
            elif line.startswith("restoring"):
                found = 0
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)


@contextmanager
def _instance(jars: KafkaJars, cluster: Cluster, home: Path) -> Iterator[_Instance]:
    said, log = home.with_suffix(".out"), home.with_suffix(".log")
    flags = ["-Xmx256m", *FAST_START, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command = find_java().command(
        jars.classpath, str(_SOURCE), [cluster.bootstrap_servers, str(home)], flags
    )
    with (
        said.open("wb") as out,
        log.open("wb") as err,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err) as process,
    ):
        try:
            yield _Instance(process, said, log)
        finally:
            process.kill()


_Pair = tuple[_Instance, _Instance]

STREAMS: Final = Story(
    "eos-streams",
    "an old Kafka Streams believes a checkpoint: a counter goes from 110 to 105 (needs Java)",
    _streams,
    45,
    on_kafka=True,
    options={
        "transaction.state.log.replication.factor": 1,  # nobody takes over who coordinates
        "offsets.topic.replication.factor": 1,
    },
    brokers=3,
    needs_java=True,
)
