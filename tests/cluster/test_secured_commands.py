"""`sexton cluster` against brokers that ask who is there: over TLS, with a name and a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.broker.users import Users, save_users
from sexton.testing.embedded import EmbeddedCluster
from tests.certificates import Certificates, make_certificates
from tests.conftest import Result, RunSexton


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def brokers(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[EmbeddedCluster]:
    path = tmp_path_factory.mktemp("users") / "users"
    users = Users()
    users.add("alice", "ünder=the,sea")
    save_users(path, users)
    options = {
        "sasl.credentials.file": str(path),
        "ssl.keystore.location": str(certificates.server),
    }
    with EmbeddedCluster(1, options=options) as running:
        yield running


def topics(run_sexton: RunSexton, brokers: EmbeddedCluster, properties: Path, *more: str) -> Result:
    words = ("-b", brokers.bootstrap_servers, "--command-config", properties, *more)
    return run_sexton("cluster", "topics", *words, "--format", "json")


def written(path: Path, certificates: Certificates, mechanism: str, password: str) -> Path:
    jaas = f'some.LoginModule required username="alice" password="{password}";'
    text = (
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.authority}\n"
        f"sasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
    path.write_bytes(text.encode("latin-1"))  # as Java reads it
    return path


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_who_knows_the_password_comes_in(
    run_sexton: RunSexton,
    brokers: EmbeddedCluster,
    certificates: Certificates,
    tmp_path: Path,
    mechanism: str,
) -> None:
    properties = written(tmp_path / "client", certificates, mechanism, "ünder=the,sea")
    answer = topics(run_sexton, brokers, properties)
    assert answer.code == 0, answer.stderr
    assert answer.json["topics"] == []


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_who_does_not_is_told_so(
    run_sexton: RunSexton,
    brokers: EmbeddedCluster,
    certificates: Certificates,
    tmp_path: Path,
    mechanism: str,
) -> None:
    properties = written(tmp_path / "client", certificates, mechanism, "guess")
    answer = topics(run_sexton, brokers, properties)
    assert answer.code == 1
    assert answer.json["error"]["subject"] == "SASL_AUTHENTICATION_FAILED"


def test_a_broker_that_nobody_vouches_for_is_not_told_the_password(
    run_sexton: RunSexton,
    brokers: EmbeddedCluster,
    certificates: Certificates,
    tmp_path: Path,
) -> None:
    others = make_certificates(tmp_path / "others")
    properties = written(tmp_path / "client", others, "PLAIN", "ünder=the,sea")
    answer = topics(run_sexton, brokers, properties)
    assert answer.code == 1
    assert "certificate" in answer.json["error"]["why"].lower()


def test_without_a_name_nobody_comes_in(
    run_sexton: RunSexton, brokers: EmbeddedCluster, certificates: Certificates
) -> None:
    words = ("-X", "security.protocol=SSL", "-X", f"ssl.ca.location={certificates.authority}")
    answer = run_sexton("cluster", "topics", "-b", brokers.bootstrap_servers, *words)
    assert answer.code == 1
