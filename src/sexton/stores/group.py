"""One instance as a member of the application's consumer group.

    join ─▶ (the leader decides: machines/stores_assignment) ─▶ sync ─▶ heartbeats ─▶ join ...

It is Kafka's classic protocol, as every consumer speaks it, with a rule of our own for who gets
what. That is also why no other client is used here: librdkafka lets nobody choose another rule, and
shows neither the generation nor what members say of themselves, and all three are needed: copies
are told in the subscription, shares come back in the assignment, the generation goes into every
transaction. `kafka-consumer-groups --describe` shows the group as usual.

A member goes on working while the group thinks (cooperative rebalancing, KIP-429). What it is to
give up it commits first, then joins again so that somebody else may have it. A member that the
group no longer knows has lost everything it owned, at once: `lost`. One that is hindered (`process`
hangs) leaves by itself, so that others go on. Whoever has lost everything joins again when nothing
works for that any more: what it were given before would wait behind a call, and others with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass

from sexton.base.errors import PeerError, Refused, SextonError
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.connection import refused
from sexton.client.retrying import PASSING
from sexton.client.transacting import GROUP
from sexton.machines.stores_assignment import Member, Share, TaskId, assign
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from sexton.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sexton.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from sexton.stores.coordinators import Coordinator
from sexton.stores.producing import FOR_GOOD, Membership, for_good
from sexton.stores.repeats import Repeats
from sexton.stores.sayings import (
    Claims,
    agreed,
    decode_claims,
    decode_share,
    encode_claims,
    encode_share,
)

PROTOCOL = "sexton-stores"
_TYPE = "consumer"
_JOIN = range(4, 10)
_LEAVE = range(3, 6)  # several members at once
_PAUSE_S = 0.2
_NEVER_A_MEMBER = frozenset(
    {
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,  # the group is somebody else's
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INVALID_SESSION_TIMEOUT,
    }
)

log = logging.getLogger("sexton.stores")


@dataclass(frozen=True, slots=True)
class GroupConfig:
    group: str
    instance: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    standbys: int


class Group:
    """The callbacks are the instance's; they are called one at a time.

    `partitions` counts those of topics, as far as we may look at them. `shared` is told of our
    share, and answers whether something was given up. `lost` returns when all work on what we owned
    has ended.
    """

    def __init__(
        self,
        client: Client,
        config: GroupConfig,
        claims: Callable[[], Awaitable[Claims]],
        partitions: Callable[[Iterable[str]], Awaitable[dict[str, int]]],
        shared: Callable[[Share], Coroutine[None, None, bool]],
        renewed: Callable[[int], None],
        lost: Callable[[], Awaitable[None]],
        hindered: Callable[[], str | None],
    ) -> None:
        self._client, self._config = client, config
        self._claims, self._partitions, self._shared = claims, partitions, shared
        self._renewed, self._lost, self._hindered = renewed, lost, hindered
        self._coordinator = Coordinator(client, GROUP, config.group)
        self._member_id = ""
        self._generation = -1
        self._rejoin = asyncio.Event()
        self._troubles = Repeats()
        self.members = 0  # if we lead: how many there are
        self.rebalances = 0

    @property
    def membership(self) -> Membership:
        return Membership(self._config.group, self._member_id, self._generation)

    @property
    def generation(self) -> int:
        return self._generation

    def ask_again(self) -> None:
        """Something about our copies has changed that the leader should hear."""
        self._rejoin.set()

    # ── the life of a member ──

    async def run(self) -> None:
        while True:
            await self._stay_away()
            try:
                share = await self._join()
            except Refused as error:
                await self._left_behind(error)
                continue
            except PeerError as error:
                self._cannot_join(logging.WARNING, error)
                self._coordinator.forget()
                await asyncio.sleep(_PAUSE_S)
                continue
            self.rebalances += 1
            if await self._while_beating(self._shared(share)):
                continue  # something was given up: others may have it now
            await self._beat()

    async def _stay_away(self) -> None:
        """Out of the group while a call keeps us from our work."""
        why = self._hindered()
        if why is None:
            return
        log.error("leaving the group: others go on: %s", why, extra={"why": why})
        await self.leave()
        await self._forget_all()
        log.info("joining the group again")

    async def _while_beating(self, work: Coroutine[None, None, bool]) -> bool:
        """Commits and stores that are opened take their time; the group should not miss us."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=self._config.heartbeat_interval_ms / 1000)
                if self._hindered() is not None:
                    return True
                if not task.done():
                    try:
                        await self._heartbeat()  # what it says, it will say again
                    except PeerError:
                        self._coordinator.forget()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _left_behind(self, error: Refused) -> None:
        if error.error in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            why = error.error.name
            log.warning("the group has gone on without us: %s", why, extra={"why": why})
            await self._forget_all()
        elif error.error is KafkaError.REBALANCE_IN_PROGRESS:
            pass
        elif error.error in FOR_GOOD | _NEVER_A_MEMBER:
            raise for_good(error)
        else:
            level = logging.INFO if error.error in PASSING else logging.WARNING
            self._cannot_join(level, error)
            self._coordinator.forget()
        await asyncio.sleep(_PAUSE_S / 4)

    def _cannot_join(self, level: int, error: SextonError) -> None:
        why = str(error)
        if self._troubles.is_news(why):
            log.log(level, "cannot join the group: %s", why, extra={"why": why})

    async def _forget_all(self) -> None:
        self._member_id, self._generation = "", -1
        await self._lost()

    async def leave(self) -> None:
        if not self._member_id:
            return
        identity = MemberIdentity(self._member_id, reason="the instance is closed")
        request = LeaveGroupRequest(self._config.group, members=[identity])
        try:
            connection = await self._coordinator.connected()
            answer = await connection.ask(request, _LEAVE, 2_000)
            if answer.error_code:
                raise refused(answer.error_code, "cannot leave the group")
        except (PeerError, Refused) as error:
            why = str(error)
            log.info("the session ends by itself: %s", why, extra={"why": why})
        self._member_id = ""

    async def _beat(self) -> None:
        """Until there is a reason to join again."""
        silent_since: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self._config.heartbeat_interval_ms / 1000):
                    await self._rejoin.wait()
                return
            except TimeoutError:
                pass
            if self._hindered() is not None:
                return
            try:
                code = await self._heartbeat()
                silent_since = None
            except PeerError as error:
                self._coordinator.forget()
                now = loop.time()
                silent_since = silent_since or now
                if (now - silent_since) * 1000 > self._config.session_timeout_ms:
                    why = str(error)
                    log.warning("the group no longer hears us: %s", why, extra={"why": why})
                    await self._forget_all()
                    return
                continue
            if code == KafkaError.NONE:
                continue
            if code == KafkaError.REBALANCE_IN_PROGRESS:
                return
            if code in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
                why = KafkaError(code).name
                about = {"why": why, "code": code}
                log.warning("the group has gone on without us: %s", why, extra=about)
                await self._forget_all()
                return
            if code in FOR_GOOD:
                raise for_good(Refused(KafkaError(code), f"heartbeats of {self._config.group}"))
            self._coordinator.forget()

    async def _heartbeat(self) -> int:
        request = HeartbeatRequest(self._config.group, self._generation, self._member_id)
        try:
            connection = await self._coordinator.connected()
            answer = await connection.ask(
                request, timeout_ms=max(2_000, self._config.session_timeout_ms // 3)
            )
        except Refused as error:
            raise PeerError(error.subject, error.why) from None
        return answer.error_code

    # ── joining ──

    async def _join(self) -> Share:
        self._rejoin.clear()  # what changes from here on the leader has not heard yet
        claims = await self._claims()
        answer = await self._ask_to_join(claims)
        self._member_id, self._generation = answer.member_id, answer.generation_id
        # What we said we own nobody else is given before we give it up: it is ours in this
        # generation as well, and work on it goes on.
        self._renewed(self._generation)
        shares: list[SyncGroupRequestAssignment] = []
        if answer.leader == answer.member_id and not answer.skip_assignment:
            shares = await self._decide(answer)
        request = SyncGroupRequest(
            self._config.group, self._generation, self._member_id, None, _TYPE, PROTOCOL, shares
        )
        connection = await self._coordinator.connected()
        timeout_ms = self._config.rebalance_timeout_ms + 5_000
        synced = await connection.ask(request, timeout_ms=timeout_ms)
        if synced.error_code:
            raise refused(synced.error_code, f"the group {self._config.group}")
        return decode_share(synced.assignment)

    async def _ask_to_join(self, claims: Claims) -> JoinGroupResponse:
        metadata = encode_claims(claims, self._config.instance, self._generation)
        for _ in range(3):
            request = JoinGroupRequest(
                self._config.group,
                self._config.session_timeout_ms,
                self._config.rebalance_timeout_ms,
                self._member_id,
                None,
                _TYPE,
                [JoinGroupRequestProtocol(PROTOCOL, metadata)],
            )

            connection = await self._coordinator.connected()
            timeout_ms = self._config.rebalance_timeout_ms + 5_000
            answer = await connection.ask(request, _JOIN, timeout_ms)
            if answer.error_code == KafkaError.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            if answer.error_code:
                raise refused(answer.error_code, f"the group {self._config.group}")
            return answer
        raise PeerError(self._config.group, "does not let us in")

    async def _decide(self, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        said = [decode_claims(each.member_id, each.metadata) for each in answer.members]
        self.members = len(said)
        inputs, members, wrong = agreed(said)
        for each in wrong:
            log.error("instances do not agree about their tasks: %s", each, extra={"why": each})
        shares = assign(await self._tasks(inputs, members), members, self._config.standbys)
        return [
            SyncGroupRequestAssignment(name, encode_share(share, inputs))
            for name, share in shares.items()
        ]

    async def _tasks(self, inputs: Mapping[str, str], members: Iterable[Member]) -> list[TaskId]:
        """Also those that only others have code for."""
        counts = await self._partitions(inputs.values())
        found = {
            TaskId(name, number)
            for name, topic in inputs.items()
            for number in range(counts.get(topic, 0))
        }
        # Of a topic that we may not look at, whoever has something keeps it.
        found |= {id_ for each in members for id_ in each.owned if id_.task in inputs}
        return sorted(found)
