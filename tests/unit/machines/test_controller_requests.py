"""What administrators ask of a controller, beyond the stories of `test_controller`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.machines import controller as admin
from sexton.machines.metadata import ClusterRecord, Record
from sexton.machines.options import Rules
from sexton.machines.topics import striped


@dataclass
class Cluster:
    """A controller, and brokers that do what they must to be alive."""

    config: admin.ControllerConfig = field(default_factory=admin.ControllerConfig)
    rules: Rules | None = None
    racks: Mapping[int, str] = field(default_factory=dict)
    nodes: tuple[int, ...] = (1, 2, 3)
    log: list[Record] = field(default_factory=list)
    now_ms: int = 0
    wake_ms: int = 0

    def __post_init__(self) -> None:
        self.controller = admin.Controller.load([], 0, self.config, rules=self.rules)
        self.tell(admin.Tick())
        for node in self.nodes:
            self.start(node)

    def start(self, node: int) -> None:
        incarnation = f"{node} at {self.now_ms}"
        self.tell(admin.RegisterBroker(node, node, incarnation, rack=self.racks.get(node)))
        self.beat(node)

    def beat(self, *nodes: int) -> None:
        for node in nodes or self.nodes:
            epoch = self.controller.image.brokers[node].broker_epoch
            end = self.controller.ledger.end
            self.tell(admin.Heartbeat(f"heart {node}", node, epoch, end))

    def tell(self, event: admin.Event) -> list[object]:
        answers: list[object] = []
        for effect in self.controller.handle(event, self.now_ms):
            match effect:
                case admin.Append(records, start):
                    assert start == len(self.log)
                    self.log += records
                case admin.Answer(caller, answer) if caller == "admin":
                    answers.append(answer)
                case admin.WakeAt(at_ms):
                    self.wake_ms = at_ms
                case _:
                    pass
        self.controller.check()
        return answers

    def create(self, name: str, *replicas: tuple[int, ...]) -> None:
        (answer,) = self.tell(admin.CreateTopic("admin", name, f"id {name}", -1, -1, replicas))
        assert isinstance(answer, admin.TopicCreated), answer

    def wait(self, ms: int, *alive: int) -> None:
        """Brokers heartbeat meanwhile."""
        end = self.now_ms + ms
        while self.now_ms < end:
            self.now_ms = min(self.now_ms + 1_000, end)
            self.tell(admin.Tick())
            self.beat(*(alive or self.nodes))


# ── its own absence ──


@pytest.mark.parametrize("asleep_ms", [3_000, 7_000, 9_500, 13_000, 60_000])
def test_a_controller_that_slept_while_no_heartbeat_waited_fences_nobody(asleep_ms: int) -> None:
    cluster = Cluster()
    cluster.create("t", (1, 2, 3))
    cluster.beat()
    cluster.now_ms += cluster.config.broker_heartbeat_interval_ms
    cluster.tell(admin.Tick())
    assert not cluster.controller.brokers.parked, "all have been answered, and are about to call"
    cluster.now_ms += asleep_ms
    cluster.tell(admin.Tick())
    assert all(map(cluster.controller.image.active, cluster.nodes))
    slept_ms = cluster.now_ms
    while all(map(cluster.controller.image.active, cluster.nodes)):  # nobody calls any more
        assert cluster.wake_ms > cluster.now_ms
        cluster.now_ms = cluster.wake_ms
        cluster.tell(admin.Tick())
    assert cluster.now_ms <= slept_ms + cluster.config.broker_session_timeout_ms


# ── several at once ──


def test_several_requests_are_one_write_and_each_is_answered() -> None:
    cluster = Cluster()
    before = len(cluster.log)
    appends = [
        effect
        for effect in cluster.controller.handle(
            admin.Several(
                "admin",
                (
                    admin.CreateTopic("", "a", "1", 1, 1),
                    admin.CreateTopic("", "b", "2", 0, 1),
                    admin.CreateTopic("", "c", "3", 1, 1),
                    admin.DeleteTopic("", "a"),
                    admin.DeleteTopic("", "d"),
                ),
            ),
            cluster.now_ms,
        )
        if isinstance(effect, admin.Append | admin.Answer)
    ]
    assert isinstance(appends[0], admin.Append) and appends[0].start == before
    answer = next(e.answer for e in appends if isinstance(e, admin.Answer) and e.caller == "admin")
    assert isinstance(answer, admin.Answers) and answer.end == cluster.controller.ledger.end
    kinds = [a.error.name if isinstance(a, admin.Failed) else type(a) for a in answer.answers]
    assert kinds == [
        admin.TopicCreated,
        "INVALID_PARTITIONS",
        admin.TopicCreated,
        admin.Done,
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert sum(isinstance(each, admin.Append) for each in appends) == 1
    assert list(cluster.controller.image.topics) == ["c"]


def test_a_topic_is_deleted_by_its_id_or_not_at_all() -> None:
    cluster = Cluster()
    cluster.create("t", (1,))
    (answer,) = cluster.tell(admin.DeleteTopic("admin", "t", "another id"))
    assert isinstance(answer, admin.Failed) and answer.error is KafkaError.UNKNOWN_TOPIC_ID
    assert cluster.tell(admin.DeleteTopic("admin", "t", "id t")) == [admin.Done()]


# ── options ──


class Strict(Rules):
    def check(self, resource: str, options: Mapping[str, str]) -> None:
        for name, value in options.items():
            if name not in ("list", "number") or value == "bad":
                raise Refused(KafkaError.INVALID_CONFIG, f"{resource} has no {name}={value}")

    def default_list(self, resource: str, option: str) -> str | None:
        del resource
        return "a" if option == "list" else None


def test_options_are_judged_by_what_they_would_be() -> None:
    cluster = Cluster(rules=Strict())
    cluster.create("t", (1,))
    image = cluster.controller.image

    def alter(**change: object) -> object:
        event = admin.AlterConfigs("admin", "topic", "t", **change)  # type: ignore[arg-type]
        (answer,) = cluster.tell(event)
        return answer.error if isinstance(answer, admin.Failed) else answer

    assert alter(append=(("list", "b, c"),)) == admin.Done()
    assert image.options_of("topic", "t") == {"list": "a,b,c"}
    assert alter(subtract=(("list", "a,z"),)) == admin.Done()
    assert image.options_of("topic", "t") == {"list": "b,c"}
    assert alter(set=(("number", "7"),), delete=("list",)) == admin.Done()
    assert image.options_of("topic", "t") == {"number": "7"}
    assert alter(append=(("number", "1"),)) is KafkaError.INVALID_CONFIG
    assert alter(append=(("list", "bad"),), delete=()) == admin.Done()  # "a,bad" is not "bad"
    assert alter(set=(("list", "bad"),)) is KafkaError.INVALID_CONFIG
    assert alter(set=(("list", "x"),), replaces=True) == admin.Done()
    assert image.options_of("topic", "t") == {"list": "x"}
    assert alter(replaces=True) == admin.Done()
    assert image.options_of("topic", "t") == {}
    answer = cluster.tell(admin.CreateTopic("admin", "u", "u", 1, 1, configs=(("odd", "1"),)))
    assert isinstance(answer[0], admin.Failed) and "u" not in image.topics


# ── the cluster's id ──


def test_a_cluster_keeps_the_id_it_was_given_first() -> None:
    cluster = Cluster(admin.ControllerConfig(cluster_id="first"))
    assert cluster.log[0] == ClusterRecord("first")
    config = admin.ControllerConfig(cluster_id="second")
    again = admin.Controller.load(cluster.log, 0, config)
    again.handle(admin.Tick(), 0)
    assert again.image.cluster.cluster_id == "first"
    assert Cluster().controller.image.cluster.cluster_id == ""


# ── preferred leaders ──


def test_preferred_leaders_lead_again_after_a_while_if_that_is_wanted() -> None:
    for wanted, leader in ((True, 1), (False, 2)):
        config = admin.ControllerConfig(auto_leader_rebalance_enable=wanted)
        cluster = Cluster(config)
        cluster.create("t", (1, 2))
        at = TopicPartition("t", 0)
        cluster.wait(10_000, 2, 3)
        assert cluster.controller.image.partitions[at].leader == 2
        cluster.start(1)
        cluster.wait(2_000)
        record = cluster.controller.image.partitions[at]
        epoch = cluster.controller.image.brokers[2].broker_epoch
        cluster.tell(
            admin.AlterIsr(
                "admin", 2, epoch, "t", 0, record.leader_epoch, record.partition_epoch, (1, 2)
            )
        )
        assert cluster.controller.image.partitions[at].leader == 2
        cluster.wait(300_000)
        assert cluster.controller.image.partitions[at].leader == leader


# ── racks ──


def test_no_two_replicas_share_a_rack_while_there_is_another() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for factor in (2, 3):
        for replicas in striped(sorted(racks), 24, factor, 0, racks):
            assert len({racks[node] for node in replicas}) == factor
    for replicas in striped(sorted(racks), 24, 5, 0, racks):
        assert sorted(racks[node] for node in replicas)[::2] == ["a", "b", "c"]
    leaders = [replicas[0] for replicas in striped(sorted(racks), 24, 3, 0, racks)]
    assert [leaders.count(node) for node in sorted(racks)] == [4] * 6


def test_without_racks_it_is_striped_as_ever() -> None:
    plain = striped([1, 2, 3], 7, 2, 5)
    assert plain == striped([1, 2, 3], 7, 2, 5, dict.fromkeys((1, 2, 3)))
    assert plain == striped([1, 2, 3], 7, 2, 5, dict.fromkeys((1, 2, 3), "one"))
    # The control: racks do make a difference.
    assert plain != striped([1, 2, 3], 7, 2, 5, {1: "a", 2: "a", 3: "b"})
