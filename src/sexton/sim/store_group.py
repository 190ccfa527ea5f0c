"""One instance of the application as a member of its consumer group.

    join ──▶ the leader decides (machines/stores_assignment) ──▶ sync ──▶ heartbeats ──▶ join ...

Kafka's classic protocol, as `sexton.stores` speaks it. A member that the group no longer knows, or
that has not been heard for a session, has lost everything it owned, at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from sexton.base.kafka_errors import KafkaError
from sexton.machines.stores_assignment import Member, Share, TaskId, assign
from sexton.node.coordinators import CONSUMER_OFFSETS
from sexton.protocol.messages.heartbeat import HeartbeatRequest
from sexton.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from sexton.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sexton.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from sexton.sim.conversations import Ask, Talk, Talking, Wait
from sexton.sim.store_calls import GROUP

SESSION_MS = 900_000
HEARTBEAT_MS = 240_000
REBALANCE_MS = 600_000
PAUSE_MS = 30_000
PROTOCOL = "sexton-stores"
TYPE = "stores"
TASK = "counts"
STANDBYS = 1
GONE = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)


@dataclass(slots=True)
class Claims:
    """What a member says of itself."""

    owned: list[int] = field(default_factory=list)  # partitions
    copies: dict[int, int] = field(default_factory=dict)  # partition -> position
    generation: int = -1

    def encode(self) -> bytes:
        return json.dumps([self.owned, list(self.copies.items()), self.generation]).encode()

    @classmethod
    def decode(cls, data: bytes) -> Claims:
        owned, copies, generation = json.loads(data)
        return cls(owned, dict(copies), generation)

    def of(self, name: str) -> Member:
        owned = frozenset(TaskId(TASK, each) for each in self.owned)
        copies = {TaskId(TASK, each): position for each, position in self.copies.items()}
        return Member(name, frozenset({TASK}), owned, self.generation, copies)


@dataclass(slots=True)
class Membership:
    """`claims`, `renewed`, `shared` and `lost` are the instance's.

    `renewed` hears of a generation before anybody is given anything: what a member has said it
    owns is still its own. `shared` answers whether something was given up.
    """

    client: Talking
    partitions: int
    claims: Callable[[], Claims]
    renewed: Callable[[int], None]
    shared: Callable[[Share], bool]
    lost: Callable[[], None]
    member_id: str = ""
    generation: int = -1

    def live(self) -> Talk[None]:
        while True:
            share = yield from self._join()
            if share is None:
                yield Wait(PAUSE_MS)
            elif not self.shared(share):
                yield from self._beat()

    def _ask(self, request: object, version: int, timeout_ms: int = 60_000) -> Ask:
        at = self.client.coordinator(CONSUMER_OFFSETS, GROUP)
        return Ask(at, request, version, timeout_ms)

    def _forget(self) -> None:
        self.client.forget(self.client.coordinator(CONSUMER_OFFSETS, GROUP))

    # ── joining ──

    def _join(self) -> Talk[Share | None]:
        claims = self.claims()
        claims.generation = self.generation
        joined = yield from self._ask_to_join(claims.encode())
        if joined is None:
            return None
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self.renewed(self.generation)
        shares = self._decide(joined) if joined.leader == joined.member_id else []
        request = SyncGroupRequest(
            GROUP, self.generation, self.member_id, None, TYPE, PROTOCOL, shares
        )
        synced = yield self._ask(request, 5, REBALANCE_MS + 60_000)
        if synced is None or synced.error_code:
            self._refused(None if synced is None else KafkaError(synced.error_code))
            return None
        return _share(synced.assignment)

    def _ask_to_join(self, metadata: bytes) -> Talk[JoinGroupResponse | None]:
        for _ in range(2):
            request = JoinGroupRequest(
                GROUP, SESSION_MS, REBALANCE_MS, self.member_id, None, TYPE,
                [JoinGroupRequestProtocol(PROTOCOL, metadata)],
            )  # fmt: skip
            answer = yield self._ask(request, 8, REBALANCE_MS + 60_000)
            if answer is None:
                return None
            error = KafkaError(answer.error_code)
            if error is KafkaError.NONE:
                joined: JoinGroupResponse = answer
                return joined
            if error is not KafkaError.MEMBER_ID_REQUIRED:
                self._refused(error)
                return None
            self.member_id = answer.member_id
        return None

    def _refused(self, error: KafkaError | None) -> None:
        if error in GONE:
            self._forget_all()
        elif error is not KafkaError.REBALANCE_IN_PROGRESS:
            self._forget()

    def _forget_all(self) -> None:
        self.member_id, self.generation = "", -1
        self.lost()

    def _decide(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = [Claims.decode(each.metadata).of(each.member_id) for each in joined.members]
        tasks = [TaskId(TASK, number) for number in range(self.partitions)]
        shares = assign(tasks, members, STANDBYS)
        return [SyncGroupRequestAssignment(name, _said(share)) for name, share in shares.items()]

    # ── staying ──

    def _beat(self) -> Talk[None]:
        """Until there is a reason to join again."""
        heard_ms = self.client.world.now_ms
        while True:
            yield Wait(HEARTBEAT_MS)
            request = HeartbeatRequest(GROUP, self.generation, self.member_id)
            answer = yield self._ask(request, 4)
            error = None if answer is None else KafkaError(answer.error_code)
            if error is KafkaError.NONE:
                heard_ms = self.client.world.now_ms
            elif error is KafkaError.REBALANCE_IN_PROGRESS:
                return
            elif error in GONE or self.client.world.now_ms - heard_ms > SESSION_MS:
                self._forget_all()
                return
            else:
                self._forget()

    def leave(self) -> Talk[None]:
        request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id)])
        yield self._ask(request, 4)


def _said(share: Share) -> bytes:
    return json.dumps(
        [[t.partition for t in part] for part in (share.active, share.standby)]
    ).encode()


def _share(data: bytes) -> Share:
    active, standby = json.loads(data) if data else ([], [])
    return Share([TaskId(TASK, n) for n in active], [TaskId(TASK, n) for n in standby])
