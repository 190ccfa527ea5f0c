"""Does our client read one replica of Apache Kafka, of either version, as it is on disk?"""

from __future__ import annotations

import pytest

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4
from tests.replica_reading import check_reading

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


@pytest.mark.parametrize("version", [KAFKA_4, KAFKA_3_9])
def test_every_replica_is_read_as_it_is_on_disk(version: str) -> None:
    with ApacheKafka(KafkaConfig(version, nodes=3)) as kafka:
        check_reading(kafka, "mixed")
