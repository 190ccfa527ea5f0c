"""What operators do: move and remove replicas, elect leaders, change the options of a topic."""

from __future__ import annotations

from random import Random

from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.node.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from sexton.sim.stage import HOUR_MS, Stage, Undo, fault, restart


@fault
def moved_replica(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A replica moves to another broker, and later back."""
    return _reassign(stage, random, back=True)


@fault
def removed_replica(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A replica is removed and, while the removed one still has its log, added again."""
    partition = random.choice(stage.partitions)
    record = stage.record(partition)
    if record is None or record.reassigning or len(record.replicas) < 2:
        return None
    gone = random.choice(record.replicas)
    kept = tuple(node for node in record.replicas if node != gone)
    stage.order(admin.Reassign(None, *partition, kept))
    original = record.replicas
    undo = lambda: stage.order(admin.Reassign(None, *partition, original))  # noqa: E731
    return f"{partition} loses its replica on broker {gone}", undo


def _reassign(stage: Stage, random: Random, *, back: bool) -> tuple[str, Undo] | None:
    partition = random.choice(stage.partitions)
    record = stage.record(partition)
    if record is None or record.reassigning:
        return None
    spare = [node for node in stage.brokers() if node not in record.replicas]
    if not spare:
        return None
    gone, fresh = random.choice(record.replicas), random.choice(spare)
    target = tuple(fresh if node == gone else node for node in record.replicas)
    stage.order(admin.Reassign(None, *partition, target))
    original = record.replicas if back else target
    undo = lambda: stage.order(admin.Reassign(None, *partition, original))  # noqa: E731
    return f"{partition} moves from broker {gone} to broker {fresh}", undo


@fault
def preferred_election(stage: Stage, random: Random) -> tuple[str, Undo | None]:
    """Leadership goes back to the first replica."""
    partition = random.choice(stage.partitions)
    stage.order(admin.Elect(None, *partition))
    return f"{partition} elects its preferred leader", None


@fault
def coordinator_move(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """The broker that coordinates transactions or groups is killed for a moment."""
    topic = random.choice((TRANSACTION_STATE, CONSUMER_OFFSETS))
    leader = stage.leader(TopicPartition(topic, 0))
    if leader is None:
        return None
    stage.world.kill(leader)
    stage.world.after(random.randint(5_000, 300_000), restart(stage, leader))
    return f"broker {leader}, which coordinates {topic}, is killed", lambda: None


@fault
def unclean_election(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """All that are in sync die, and an operator makes one lead that is not."""
    partition = random.choice(stage.partitions)
    record = stage.record(partition)
    if not stage.unclean_allowed or record is None or len(record.isr) == len(record.replicas):
        return None
    for node in record.isr:
        stage.world.kill(node)
    after = random.randint(400_000, 900_000)
    stage.world.after(after, lambda: stage.order(admin.Elect(None, *partition, unclean=True)))

    def undo() -> None:
        for node in record.isr:
            stage.world.start(node)

    return f"{partition} loses all that are in sync {record.isr}", undo


# ── configuration ──


@fault
def changed_retention(stage: Stage, random: Random) -> tuple[str, Undo]:
    """`delete.retention.ms` is lowered for a while."""
    open_to_change = [p for p in stage.partitions if p.topic not in stage.kept_topics]
    topic = random.choice(open_to_change).topic
    lowered = str(random.choice((60_000, HOUR_MS)))
    stage.order(admin.AlterConfigs(None, "topic", topic, (("delete.retention.ms", lowered),)))
    undo = lambda: stage.order(  # noqa: E731
        admin.AlterConfigs(None, "topic", topic, (), ("delete.retention.ms",))
    )
    return f"delete.retention.ms of {topic} is {lowered}", undo


@fault
def held_compaction(stage: Stage, random: Random) -> tuple[str, Undo]:
    """`min.compaction.lag.ms` keeps the cleaner away for a while."""
    topic = random.choice(stage.partitions).topic
    stage.order(
        admin.AlterConfigs(None, "topic", topic, (("min.compaction.lag.ms", str(48 * HOUR_MS)),))
    )
    undo = lambda: stage.order(  # noqa: E731
        admin.AlterConfigs(None, "topic", topic, (), ("min.compaction.lag.ms",))
    )
    return f"nothing of {topic} younger than two days is compacted", undo
