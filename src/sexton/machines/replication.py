"""Which records are safe, and who vouches for them?

Those below the high watermark: every replica in the ISR has them. A leader learns how far each
follower is from the offset it fetches at; whoever keeps up belongs to the ISR, and only the
controller's record makes a change of the ISR true:

    follower ──fetch at 17──▶ leader      it has everything below 17
                              leader ──AlterIsr──▶ controller ──record──▶ leader

    high watermark = the lowest log end among the ISR *and* those about to join it

Why those about to join count (KIP-497): the controller may have admitted a follower before the
leader hears of it, and could elect it at once. One about to leave still counts too, for the same
reason. So between asking and hearing, the leader assumes the worst of both.

A follower cuts its log where it parts from the leader's. It says with each fetch in which epoch its
last record was written; if the leader's log has that epoch end earlier, the fetch is answered with
where, instead of records, and the follower cuts and asks again (KIP-595).
"""

from __future__ import annotations

from dataclasses import field

from sexton.base.lazy_dataclass import dataclass

NodeId = int


@dataclass(frozen=True, slots=True)
class Membership:
    """What the controller's record says of one partition, as far as replication cares."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]


@dataclass(slots=True)
class _Fetcher:
    """A follower, as its leader knows it."""

    end: int = -1  # of its log; -1: it has not fetched in this term
    caught_up_ms: int = 0  # when it last had all that was there
    fetched_ms: int = -1
    end_then: int = 0  # the leader's log end when it last fetched
    broker_epoch: int = -1  # of the registration under which it fetched (KIP-903)


@dataclass(frozen=True, slots=True)
class AlterIsr:
    """Ask the controller; while no answer is here, both the old and the new ISR count."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[NodeId, ...]
    broker_epochs: tuple[int, ...]  # one that has started again since may have lost what it had


@dataclass(frozen=True, slots=True)
class Advance:
    """The high watermark is here now."""

    high_watermark: int


Effect = AlterIsr | Advance


@dataclass(slots=True)
class Leader:
    """One term of a partition's leader."""

    node: NodeId
    membership: Membership
    log_end: int
    high_watermark: int
    started_ms: int
    lag_time_max_ms: int = 30_000
    start_offset: int = -1  # where its own records begin: a follower without them cannot join
    fetchers: dict[NodeId, _Fetcher] = field(default_factory=dict)
    proposed: tuple[NodeId, ...] | None = None  # an ISR that the controller has been asked for
    knocking: dict[NodeId, None] = field(default_factory=dict)  # could have joined meanwhile

    def __post_init__(self) -> None:
        self.start_offset = self.log_end
        self._know_followers(self.started_ms)

    def start(self) -> list[Effect]:
        return self._advance()

    # ── what happens ──

    def appended(self, log_end: int) -> list[Effect]:
        self.log_end = log_end
        return self._advance()

    def fetched(
        self, node: NodeId, offset: int, now_ms: int, broker_epoch: int = -1
    ) -> list[Effect]:
        """A follower of this term, with nothing to cut, asks for the record at `offset`."""
        fetcher = self.fetchers.get(node)
        if fetcher is None or offset > self.log_end:
            return []
        if 0 <= broker_epoch < fetcher.broker_epoch:
            return []  # of an earlier life, whose log may have been longer
        # It is caught up if it has all that was there now, or when it last asked (KAFKA-4381).
        if offset >= self.log_end:
            fetcher.caught_up_ms = now_ms
        elif offset >= fetcher.end_then and fetcher.fetched_ms >= 0:
            fetcher.caught_up_ms = max(fetcher.caught_up_ms, fetcher.fetched_ms)
        fetcher.end, fetcher.fetched_ms, fetcher.end_then = offset, now_ms, self.log_end
        fetcher.broker_epoch = broker_epoch
        return [*self._advance(), *self._let_in([node])]

    def starts_over(self, node: NodeId) -> None:
        """The follower's log is about to be emptied: what it had does not count any more."""
        fetcher = self.fetchers.get(node)
        if fetcher is not None:
            fetcher.end = -1
            self.knocking.pop(node, None)

    def tick(self, now_ms: int) -> list[Effect]:
        """Followers that have not kept up for too long leave the ISR."""
        slow = [node for node in self.membership.isr if self._is_slow(node, now_ms)]
        return self.without(slow)

    def without(self, leaving: list[NodeId]) -> list[Effect]:
        """Asks for an ISR without these, unless another change is under way."""
        if self.proposed is not None or not leaving:
            return []
        isr = tuple(node for node in self.membership.isr if node not in leaving)
        if isr == self.membership.isr:
            return []
        return [self._ask_for(isr)]

    def changed(self, membership: Membership, now_ms: int) -> list[Effect]:
        """The controller's record, by whatever way it came; an older one says nothing new."""
        if membership.leader_epoch != self.membership.leader_epoch:
            return []  # of another term
        if membership.partition_epoch <= self.membership.partition_epoch:
            return []
        self.membership, self.proposed = membership, None
        self._know_followers(now_ms)
        knocking, self.knocking = list(self.knocking), {}
        return [*self._advance(), *self._let_in(knocking)]

    def refused(self, asked: AlterIsr) -> list[Effect]:
        """The controller did not take this proposal: what its record says is true.

        That may be heard late, when another proposal is under way, of which it says nothing. What
        was waiting for those about to join waits no longer.
        """
        if (asked.partition_epoch, asked.isr) != (self.membership.partition_epoch, self.proposed):
            return []
        self.proposed, self.knocking = None, {}
        return self._advance()

    # ── how it follows ──

    def _know_followers(self, now_ms: int) -> None:
        others = [node for node in self.membership.replicas if node != self.node]
        self.fetchers = {
            node: self.fetchers.get(node, _Fetcher(caught_up_ms=now_ms)) for node in others
        }

    def _is_slow(self, node: NodeId, now_ms: int) -> bool:
        fetcher = self.fetchers.get(node)
        if fetcher is None or fetcher.end == self.log_end:
            return False
        return now_ms - fetcher.caught_up_ms > self.lag_time_max_ms

    def _let_in(self, nodes: list[NodeId]) -> list[Effect]:
        """Asks for an ISR with these. One request at a time: whoever comes meanwhile is next."""
        joining = [node for node in nodes if self._may_join(node)]
        if self.proposed is not None:
            self.knocking |= dict.fromkeys(joining)
            return []
        if not joining:
            return []
        order = self.membership.replicas
        joined = {*self.membership.isr, *joining}
        return [self._ask_for(tuple(member for member in order if member in joined))]

    def _may_join(self, node: NodeId) -> bool:
        if node not in self.fetchers or node in self.membership.isr:
            return False
        return self.fetchers[node].end >= max(self.high_watermark, self.start_offset)

    def _ask_for(self, isr: tuple[NodeId, ...]) -> AlterIsr:
        self.proposed = isr
        m = self.membership
        epochs = tuple(
            self.fetchers[node].broker_epoch if node in self.fetchers else -1 for node in isr
        )
        return AlterIsr(m.leader_epoch, m.partition_epoch, isr, epochs)

    def _advance(self) -> list[Effect]:
        vouching = (*self.membership.isr, *(self.proposed or ()))
        # A member that has yet to fetch in this term holds the high watermark where it is.
        ends = [self.fetchers[node].end for node in vouching if node in self.fetchers]
        reached = min(ends, default=self.log_end)
        if reached <= self.high_watermark:
            return []
        self.high_watermark = min(reached, self.log_end)
        return [Advance(self.high_watermark)]

    def check(self) -> None:
        assert self.high_watermark <= self.log_end
        assert self.node in self.membership.isr
        for fetcher in self.fetchers.values():
            assert fetcher.end <= self.log_end
