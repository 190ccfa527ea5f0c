"""Who coordinates a group or a transactional id, remembered until somebody says otherwise.

A commit asks the coordinators three times; to look them up each time would double that. An error
that says "not me" or no answer at all forgets what was known, and the question is asked again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.connection import Connection, refused
from sexton.client.retrying import Patience
from sexton.client.transacting import GROUP, TRANSACTION, until_ready
from sexton.protocol.messages.find_coordinator import FindCoordinatorRequest

T = TypeVar("T")

_FIND = range(4, 7)
_MOVED: Final = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class Coordinator:
    """That of one group, or of one transactional id."""

    def __init__(self, client: Client, kind: int, key: str) -> None:
        assert kind in (GROUP, TRANSACTION)
        self._client, self._kind, self._key = client, kind, key
        self._node: int | None = None

    async def connected(self) -> Connection:
        if self._node is None:
            self._node = await self._find()
        try:
            return await self._client.broker(self._node)
        except PeerError:
            self.forget()
            raise

    async def until_ready(self, ask: Callable[[Connection], Awaitable[T]], patience: Patience) -> T:
        """Asked again while the answer is that somebody is not ready."""

        async def once() -> T:
            try:
                return await ask(await self.connected())
            except PeerError:
                self.forget()
                raise
            except Refused as error:
                if error.error in _MOVED:
                    self.forget()
                raise

        return await until_ready(once, patience)

    def forget(self) -> None:
        """Whoever named it may have old news: somebody else is asked next."""
        self._node = None
        self._client.look_elsewhere()

    async def _find(self) -> int:
        request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self._key])
        answer = await self._client.ask(request, _FIND)
        try:
            found = answer.coordinators[0]
        except IndexError:
            raise PeerError("FindCoordinator", f"is answered without {self._key}") from None
        if found.error_code:
            self._client.look_elsewhere()
            raise refused(found.error_code, f"the coordinator of {self._key}")
        return found.node_id
