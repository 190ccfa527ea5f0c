"""From what an audit found in a partition: which replicas are to be rebuilt, and from which?

A finding names replicas that are wrong, and mostly those that are right. A replica can be a source
if no finding calls it wrong. If there is one, every wrong replica is rebuilt from it:

    finding 1    3 is wrong, 1 and 2 are right
    finding 2    2 is wrong, 1 is right             sources: 1      to be rebuilt: 2, 3

Where a finding cannot say who is right, or each replica is wrong in something, nothing is chosen
here: those findings are `open`, and a person settles them, by writing the key anew or by saying
whom to trust. As long as one is open no replica of the partition is rebuilt, for with a replica
that is rebuilt goes the other side of the story.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sexton.base.lazy_dataclass import dataclass
from sexton.base.partitions import TopicPartition

# Not a matter of one replica against another: nothing is gained by copying one of them.
NOT_OF_REPLICAS: Final = {
    "hanging-transaction": "every replica agrees that it is open: see `sexton txn explain`",
    "offset-gap": "no replica holds what is missing",
}
# The replica that is named is wrong by itself, whatever the others hold.
BY_ITSELF: Final = ("corrupt-batch", "marker-mismatch")


@dataclass(frozen=True, slots=True)
class Judged:
    """A finding, as far as it matters here."""

    identity: str
    code: str
    partition: TopicPartition
    replicas: tuple[int, ...]  # the wrong ones as far as known, else all that disagree
    right: tuple[int, ...] | None  # None: cannot be known
    certainty: str
    message: str
    because: str
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about one partition."""

    partition: TopicPartition
    wrong: tuple[int, ...]  # to be rebuilt
    sources: tuple[int, ...]  # each may be copied from
    open: tuple[Judged, ...]  # a person has to settle these first
    aside: tuple[Judged, ...]  # rebuilding would not help
    settled: tuple[Judged, ...]

    @property
    def is_clear(self) -> bool:
        return bool(self.wrong) and bool(self.sources) and not self.open


def decide(
    partition: TopicPartition,
    replicas: Sequence[int],
    findings: Sequence[Judged],
    trusted: int | None = None,
) -> Decision:
    """`trusted`: a replica that a person says is right, in everything."""
    aside = tuple(each for each in findings if each.code in NOT_OF_REPLICAS)
    rest = [each for each in findings if each.code not in NOT_OF_REPLICAS]
    if trusted is not None:
        wrong = {node for each in rest for node in _all_wrong_but(trusted, each)}
        return _decision(partition, replicas, wrong - {trusted}, (trusted,), (), aside, rest)
    judged = [(each, _wrong(each)) for each in rest]
    open_ones = [each for each, wrong in judged if not wrong]
    settled = [each for each, wrong in judged if wrong]
    wrong = {node for _each, some in judged for node in some}
    sources = _sources(replicas, wrong, settled)
    if wrong and not sources:
        return _decision(partition, replicas, set(), (), (*open_ones, *settled), aside, ())
    return _decision(partition, replicas, wrong, sources, open_ones, aside, settled)


def _sources(
    replicas: Sequence[int], wrong: set[int], settled: Sequence[Judged]
) -> tuple[int, ...]:
    """Whom no finding calls wrong; first of all those that findings call right."""
    able = [node for node in replicas if node not in wrong]
    praised = {node: sum(node in (each.right or ()) for each in settled) for node in able}
    return tuple(sorted(able, key=lambda node: -praised[node]))


def _wrong(finding: Judged) -> tuple[int, ...]:
    """Replicas that are wrong, if that is known."""
    if finding.right:
        return tuple(node for node in finding.replicas if node not in finding.right)
    if finding.code == "corrupt-batch" and finding.certainty != "certain":
        return ()  # they differ, and each is sound
    return finding.replicas if finding.code in BY_ITSELF else ()


def _all_wrong_but(trusted: int, finding: Judged) -> set[int]:
    """If that one is right: who is not?"""
    if finding.right is not None and trusted in finding.right:
        return set(_wrong(finding))
    return {*finding.replicas, *(finding.right or ())}


def _decision(
    partition: TopicPartition,
    replicas: Sequence[int],
    wrong: set[int],
    sources: Sequence[int],
    open_ones: Sequence[Judged],
    aside: Sequence[Judged],
    settled: Sequence[Judged],
) -> Decision:
    in_order = tuple(node for node in replicas if node in wrong)
    return Decision(
        partition, in_order, tuple(sources), tuple(open_ones), tuple(aside), tuple(settled)
    )
