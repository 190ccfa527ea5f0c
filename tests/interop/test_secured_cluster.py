"""The Java client, on a cluster of ours that wants TLS, a name and a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.base.errors import PeerError
from sexton.broker.users import Users, save_users
from sexton.testing.apache_kafka import run_tool
from sexton.testing.embedded import EmbeddedCluster
from sexton.testing.kafka_jars import KAFKA_3_9, KAFKA_4, kafka_jars
from tests.certificates import Certificates, make_certificates

pytestmark = pytest.mark.kafka

TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(
    certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedCluster]:
    path = tmp_path_factory.mktemp("users") / "users"
    users = Users()
    users.add("alice", "secret")
    save_users(path, users)
    options = {
        "sasl.credentials.file": str(path),
        "ssl.keystore.location": str(certificates.server),
    }
    with EmbeddedCluster(1, options=options) as running:
        running.create_topic("seen", 1)
        yield running


def client(
    directory: Path, certificates: Certificates, mechanism: str, password: str
) -> tuple[str, str]:
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    login = f"org.apache.kafka.common.security.{kind}LoginModule"
    path = directory / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\n"
        f"sasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={login} required username="alice" password="{password}";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={certificates.authority}\n",
        encoding="ascii",
    )
    return "--command-config", str(path)


@pytest.mark.parametrize(
    ("version", "mechanism"),
    [(KAFKA_4, "PLAIN"), (KAFKA_4, "SCRAM-SHA-256"), (KAFKA_3_9, "SCRAM-SHA-512")],
)
def test_who_knows_the_password_is_served(
    version: str,
    mechanism: str,
    cluster: EmbeddedCluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    config = client(tmp_path, certificates, mechanism, "secret")
    answer = run_tool(kafka_jars(version), TOPICS, *where, *config, "--list", timeout_s=60)
    assert "seen" in answer


def test_who_does_not_is_told_so(
    cluster: EmbeddedCluster, certificates: Certificates, tmp_path: Path
) -> None:
    where = ("--bootstrap-server", cluster.bootstrap_servers)
    config = client(tmp_path, certificates, "SCRAM-SHA-512", "guess")
    with pytest.raises(PeerError, match="SaslAuthenticationException"):
        run_tool(kafka_jars(KAFKA_4), TOPICS, *where, *config, "--list", timeout_s=60)
