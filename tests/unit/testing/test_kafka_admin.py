"""An operator's change is made once, though librdkafka may lose the answer to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sexton.base.errors import PeerError
from sexton.base.partitions import TopicPartition
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_admin import KafkaAdmin

LOST = KafkaError._DESTROY_BROKER  # what 2.10 and later say of a broker that metadata do not name


def lost() -> Future[Any]:
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(KafkaError(LOST)))
    return answer


class Forgetful(KafkaAdmin):
    """Asks a real cluster, and loses the first answer to each change after it was made."""

    def _ask(self, question: Callable[[Any], Mapping[Any, Any]], done: str = "") -> Any:
        answers: list[Mapping[Any, Future[Any]]] = []

        def losing(client: Any) -> Mapping[Any, Future[Any]]:
            answers.append(question(client))
            if not done or len(answers) > 1:
                return answers[-1]
            for answer in answers[0].values():
                answer.result(10)
            return {"lost": lost()}

        result = KafkaAdmin._ask(self, losing, done)
        assert len(answers) == (2 if done else 1)
        return result


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster(1) as cluster:
        yield cluster.bootstrap_servers


def test_a_change_whose_answer_was_lost_counts_as_made(bootstrap: str) -> None:
    admin = Forgetful(lambda: bootstrap)
    admin.create_topic("orders", 1)
    assert admin.topics() == {"orders"}
    admin.delete_topic("orders")
    assert admin.topics() == set()


def test_an_election_whose_answer_was_lost_is_asked_for_again(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, elect, asked = KafkaAdmin(lambda: bootstrap), AdminClient.elect_leaders, list[Any]()

    def losing(client: AdminClient, *which: Any) -> Future[Any]:
        asked.append(which)
        answer: Future[Any] = elect(client, *which)
        if len(asked) > 1:
            return answer
        answer.result(10)
        return lost()

    monkeypatch.setattr(AdminClient, "elect_leaders", losing)
    admin.create_topic("elected", 1)
    admin.elect_preferred(TopicPartition("elected", 0))
    assert len(asked) == 2


def test_a_change_that_was_made_before_is_refused(bootstrap: str) -> None:
    admin = KafkaAdmin(lambda: bootstrap)
    admin.create_topic("there", 1)
    with pytest.raises(PeerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic("there", 1)
    with pytest.raises(PeerError, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topic("not-there")
