"""Do the scripts of the embedded cluster come to the same end on Apache Kafka itself?

They do: it has no other policy than `independent`. Two of them run on every change, the rest in
`make soak`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sexton.lab.divergences import APACHE_KAFKA_OPTIONS, SCENARIOS, life_of_a_marker
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

ALWAYS = ("deleted-key-lives", "slow-reassignment")


@pytest.fixture(scope="module")
def three() -> Iterator[ApacheKafka]:
    with ApacheKafka(KafkaConfig(nodes=3, options=APACHE_KAFKA_OPTIONS)) as kafka:
        yield kafka


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ALWAYS else [pytest.mark.soak]) for n in SCENARIOS],
)
def test_replicas_of_apache_kafka_diverge(name: str, three: ApacheKafka) -> None:
    outcome = SCENARIOS[name](three)
    assert outcome.forgotten
    assert outcome.diverged


@pytest.mark.soak
def test_a_marker_of_apache_kafka_is_emptied_and_then_goes(three: ApacheKafka) -> None:
    assert life_of_a_marker(three, away=False) == ("COMMIT", "empty", "gone")
