"""Ordinary clients, over TLS and with a name and a password; and those who have neither."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from sexton.broker.users import Users, save_users
from sexton.testing.embedded import EmbeddedCluster
from tests.certificates import Certificates, make_certificates

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how it finds its own files
    from kafka import KafkaConsumer, KafkaProducer

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
USER, PASSWORD = "alice", "ünder=the,sea"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users"
    users = Users()
    users.add(USER, PASSWORD)
    users.add("bob", "another")
    save_users(path, users)
    return path


@pytest.fixture(scope="module", params=["SASL_PLAINTEXT", "SASL_SSL"])
def cluster(
    request: pytest.FixtureRequest, users: Path, certificates: Certificates
) -> Iterator[tuple[EmbeddedCluster, str]]:
    options = {
        "sasl.credentials.file": str(users),
        "connection.failed.authentication.delay.ms": "1",
    }
    if request.param == "SASL_SSL":
        options["ssl.keystore.location"] = str(certificates.server)
    with EmbeddedCluster(1, options=options) as running:
        yield running, request.param


def librdkafka(
    cluster: tuple[EmbeddedCluster, str], mechanism: str, password: str, ca: Path
) -> dict[str, Any]:
    running, protocol = cluster
    return {
        "bootstrap.servers": running.bootstrap_servers,
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        "log_level": 0,
        **({"ssl.ca.location": str(ca)} if protocol == "SASL_SSL" else {}),
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(
    mechanism: str, cluster: tuple[EmbeddedCluster, str], certificates: Certificates
) -> None:
    topic = f"confluent-{mechanism}"
    config = librdkafka(cluster, mechanism, PASSWORD, certificates.authority)
    producer = confluent_kafka.Producer(config)
    values = [bytes([number]) * 50_000 for number in range(100)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        config | {"group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < len(values):
        messages = consumer.consume(100, 30)
        assert messages, "nothing came"
        assert not any(message.error() for message in messages)
        found += [message.value() for message in messages]
    consumer.close()
    assert found == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_as_such(
    mechanism: str, cluster: tuple[EmbeddedCluster, str], certificates: Certificates
) -> None:
    heard: list[Any] = []
    config = librdkafka(cluster, mechanism, "wrong", certificates.authority)
    client = AdminClient(config | {"error_cb": heard.append, "socket.timeout.ms": 10_000})
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=1)
    client.poll(10)
    assert confluent_kafka.KafkaError._AUTHENTICATION in [error.code() for error in heard]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(
    mechanism: str, cluster: tuple[EmbeddedCluster, str], certificates: Certificates
) -> None:
    running, protocol = cluster
    topic = f"kafka-python-{mechanism}"
    running.create_topic(topic, 1)
    config = {
        "bootstrap_servers": running.bootstrap_servers,
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": str(certificates.authority),
    }
    producer = KafkaProducer(**config)
    producer.send(topic, b"value").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **config
    )
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(
    mechanism: str, cluster: tuple[EmbeddedCluster, str], certificates: Certificates
) -> None:
    running, protocol = cluster
    topic = f"aiokafka-{mechanism}"
    running.create_topic(topic, 1)

    async def talk() -> bytes:
        config = {
            "bootstrap_servers": running.bootstrap_servers,
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
            "ssl_context": certificates.context() if protocol == "SASL_SSL" else None,
        }
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **config) as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), 30)).value)

    assert asyncio.run(talk()) == b"value"


def test_a_certificate_may_be_what_lets_a_client_in(certificates: Certificates) -> None:
    options = {
        "ssl.keystore.location": str(certificates.server),
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
    }
    with EmbeddedCluster(1, options=options) as running:
        config: dict[str, Any] = {
            "bootstrap.servers": running.bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates.authority),
            "log_level": 0,
        }
        with pytest.raises(confluent_kafka.KafkaException):
            AdminClient(config).list_topics(timeout=1)
        own = {
            "ssl.certificate.location": str(certificates.client),
            "ssl.key.location": str(certificates.client),
        }
        assert AdminClient(config | own).list_topics(timeout=20).brokers.keys() == {1}


def test_whoever_does_not_authenticate_gets_nothing(
    cluster: tuple[EmbeddedCluster, str],
) -> None:
    running, _protocol = cluster
    config: dict[str, Any] = {"bootstrap.servers": running.bootstrap_servers, "log_level": 0}
    with pytest.raises(confluent_kafka.KafkaException):
        AdminClient(config).list_topics(timeout=1)
