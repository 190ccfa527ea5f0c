"""What tasks ask of the cluster beside the group and the producer: futures of the background loop.

prepare     topics made and checked, once
start_up    one task, after another look at the topics
has         what was taken from main: does a new leader have it?
payloads    messages of the retry topic, by id
headers_at  those of a message of the main topic that confluent-kafka cannot show
tails       what was written to retry topics since: operators' commands; and has main grown, or is
            it another topic of the same name?
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from time import monotonic

from sexton.base.errors import ConfigError, PeerError, Refused, SextonError
from sexton.base.partitions import TopicPartition
from sexton.client.agreeing import known
from sexton.client.epochs import epoch_end
from sexton.client.listing import EARLIEST, LATEST, list_offsets
from sexton.client.replica import Isolation
from sexton.client.retrying import Patience
from sexton.client.rights import DENIED
from sexton.client.transacting import stable_offset
from sexton.machines.retry_columns import Rows, last_of_each
from sexton.machines.retry_records import COMMAND, TaskName, Watermark
from sexton.machines.retry_settings import Standing, check_growth
from sexton.machines.retry_task import Row
from sexton.retry.background import Background
from sexton.retry.config import RetryConfig
from sexton.retry.epochs import Doubt
from sexton.retry.headers import Headers
from sexton.retry.messages import Payload
from sexton.retry.owned import Owned
from sexton.retry.reading import headers_at, payload_in, read_to, retry_records
from sexton.retry.starting import STABLE, StartedUp, metadata_in, start_up
from sexton.retry.topics import Shape, check, prepare

SOON = Patience(timeout_ms=5_000, backoff_ms=20)  # everything else waits meanwhile
SLOW_S = 30.0  # a start that takes longer is told of, each time that it has taken as long again

Tail = tuple[TaskName, list[Row], int]
log = logging.getLogger("sexton.retry")


class TasksIo:
    def __init__(
        self,
        background: Background,
        config: RetryConfig,
        denied: Callable[[SextonError], None] = lambda _: None,
    ) -> None:
        self._background = background
        self._config = config
        self._denied = denied  # raises, if an ACL is missing
        self._trouble = ""  # with the last look for commands; empty: it went well
        self._partitions = 0
        self._is_whole = False  # main: see `Shape`
        self._topic_ids: dict[str, bytes] = {}
        self._tailing: Future[list[Tail]] | None = None
        self._tailed_s = monotonic()

    def prepare(self) -> Future[Shape]:
        return self._background.submit(self._prepare())

    async def _prepare(self) -> Shape:
        config = self._config
        shape = await prepare(
            self._background.client, config.names,
            create=config.create_topics, replication=config.replication,
        )  # fmt: skip
        self._partitions = shape.partitions
        await self._look_at_topics()
        if not config.accept_growth:
            async with _told_while_slow(config.names.main):
                await self._check_growth(shape.partitions)
        return shape

    async def _check_growth(self, partitions: int) -> None:
        """Have all topics grown together while something waited? The offsets know."""
        config, client = self._config, self._background.client
        places = [TopicPartition(config.names.main, number) for number in range(partitions)]
        ends = await list_offsets(client, dict.fromkeys(places, LATEST))
        found = {at: await stable_offset(client, config.group, at, STABLE) for at in places}
        check_growth(
            partitions,
            {
                at.partition: Standing(
                    each.offset, ends[at], Watermark.decode(metadata_in(each.metadata))
                )
                for at, each in found.items()
                if each is not None
            },
        )

    # ── starts ──

    def start_up(self, name: TaskName, pause_s: float) -> Future[StartedUp]:
        return self._background.submit(self._start_up(name, pause_s))

    async def _start_up(self, name: TaskName, pause_s: float) -> StartedUp:
        if pause_s:
            await asyncio.sleep(pause_s)
        config, client = self._config, self._background.client
        async with _told_while_slow(str(name)):
            await self._check_partitions()
            return await start_up(
                client, config.names, config.group, name, config.machine, self._partitions,
                LATEST if config.begins_at_end else EARLIEST, self._main_id,
                to_run=True, is_whole=self._is_whole,
            )  # fmt: skip

    @property
    def _main_id(self) -> bytes:
        """Empty: a Kafka that has no ids of topics."""
        return self._topic_ids.get(self._config.names.main, b"")

    async def _check_partitions(self) -> None:
        names = self._config.names
        shape = await check(self._background.client, names)
        if shape.partitions != self._partitions:
            why = f"had {self._partitions} partitions and has {shape.partitions}"
            hint = "keys have moved: let the group settle, then start all instances again"
            raise ConfigError(names.main, why, hint)
        self._is_whole = shape.is_whole

    def has(self, name: TaskName, doubts: list[Doubt], leader_epoch: int) -> Future[bool]:
        """Has who leads main in that epoch, or after it, all of this? False, too, if none says."""
        return self._background.submit(self._has(name, doubts, leader_epoch))

    async def _has(self, name: TaskName, doubts: list[Doubt], leader_epoch: int) -> bool:
        client, at = self._background.client, TopicPartition(name.topic, name.partition)
        if any(each.is_sure for each in doubts):
            return False
        try:
            for position, epoch, _ in doubts:
                told = await epoch_end(client, at, epoch, leader_epoch, SOON)
                if told is None:
                    continue
                if told.offset < position or (told.epoch < epoch and self._is_whole):
                    return False
        except (PeerError, Refused):
            return False
        return True

    # ── messages that wait ──

    def payloads(self, name: TaskName, offsets: dict[int, int]) -> Future[dict[int, Payload]]:
        """`offsets`: by id, where they are in the retry topic."""
        return self._background.submit(self._payloads(name, offsets))

    async def _payloads(self, name: TaskName, offsets: dict[int, int]) -> dict[int, Payload]:
        at = TopicPartition(self._config.names.retry, name.partition)
        found = await retry_records(self._background.client, at, offsets.values())
        return {
            message: payload_in(found[offset][1])
            for message, offset in offsets.items()
            if offset in found and found[offset][0] == name.id_of(message)
        }

    def headers_at(self, name: TaskName, offset: int) -> Headers:
        """Of a message of the main topic; waits for them."""
        at = TopicPartition(name.topic, name.partition)
        return self._background.submit(headers_at(self._background.client, at, offset)).result()

    # ── commands ──

    def tails(self, owned: Iterable[Owned]) -> list[Tail]:
        """What the last look has found; the next one begins when it is time."""
        if self._tailing is not None:
            if not self._tailing.done():
                return []
            tailing, self._tailing = self._tailing, None
            try:
                found, self._trouble = tailing.result(), ""
                return found
            except ConfigError:
                raise
            except SextonError as error:
                self._denied(error)  # operators would wait for ever
                self._tell(error)
                return []  # the next look may go better
        if monotonic() - self._tailed_s >= self._config.commands_every_s:
            self._tailed_s = monotonic()
            wanted = {each.name: each.tail_at for each in owned if each.task is not None}
            if wanted:
                self._tailing = self._background.submit(self._tails(wanted))
        return []

    def _tell(self, error: SextonError) -> None:
        """Once, however often it is met: there is a look every second."""
        if error.subject != self._trouble:
            self._trouble, why = error.subject, str(error)
            log.warning("commands cannot be read: %s", why, extra={"why": why})

    async def _look_at_topics(self) -> None:
        """The group hears of growth after minutes, and then only of new partitions: by that time
        keys may have moved between the old ones. Of another topic with the same name it never
        hears: what is in front of the position that we had in the old one would be left out."""
        names = self._config.names
        topics, client = [names.main, names.retry, names.locks], self._background.client
        if self._topic_ids:
            found = (await client.topology(topics)).topics
        else:  # what is written down for good is not taken from one broker
            found = (await known(client, topics)).topics
        for name, topic in found.items():
            if not any(topic.topic_id):
                continue  # an old Kafka has none; one that is being upgraded, on some brokers only
            if self._topic_ids.setdefault(name, topic.topic_id) != topic.topic_id:
                why = "was deleted and created again while this instance ran"
                hint = "start all instances again; if the main topic is new, delete its lock and "
                raise ConfigError(name, why, f"{hint}retry topics first")
        if names.main in found and len(found[names.main].partitions) > self._partitions:
            await self._check_partitions()

    async def _tails(self, wanted: dict[TaskName, int]) -> list[Tail]:
        await self._look_at_topics()
        client, retry = self._background.client, self._config.names.retry
        places = {TopicPartition(retry, name.partition): name for name in wanted}
        ends = await list_offsets(client, dict.fromkeys(places, LATEST), Isolation.READ_COMMITTED)
        found: list[Tail] = []
        for at, name in places.items():
            start, end, rows = wanted[name], ends[at], list[Row]()
            if end <= start:
                continue
            try:
                async for some, _ in read_to(client, at, start, end):
                    rows += _news(name, some)
            except (PeerError, Refused) as error:
                if isinstance(error, Refused) and error.error in DENIED:
                    raise
                continue
            found.append((name, rows, end))
        return found


@asynccontextmanager
async def _told_while_slow(what: str) -> AsyncIterator[None]:
    """Brokers and open transactions are waited for with patience; people should know of it."""

    async def tell() -> None:
        began_s = monotonic()
        while True:
            await asyncio.sleep(SLOW_S)
            about = {"task": what, "seconds": round(monotonic() - began_s)}
            text = (
                "%s: has been starting for %d s: it waits for brokers, or for a transaction that is"
                " open over the group's offset or its lock and retry topics"
            )
            log.warning(text, *about.values(), extra=about)

    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()


def _news(name: TaskName, rows: Rows) -> list[Row]:
    """Commands, and what was deleted. Where our own records are, the producer has told us."""
    last = last_of_each(name, rows)
    news: list[Row] = [(-1, name.id_of(message), None) for message in last.gone.tolist()]
    for row in last.others:
        key = rows.key[row]
        if key is not None and key.startswith(COMMAND):
            news.append((int(rows.offset[row]), key, rows.value[row]))
    return news
