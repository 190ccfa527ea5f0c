"""The guard says who it is, as any client: TLS and a password, from a properties file."""

from __future__ import annotations

from pathlib import Path

from sexton.broker.users import Users, save_users
from sexton.testing.embedded import EmbeddedCluster
from tests.certificates import make_certificates
from tests.conftest import RunSexton


def test_topics_of_a_secured_cluster_are_frozen_and_thawed(
    run_sexton: RunSexton, tmp_path: Path
) -> None:
    certificates = make_certificates(tmp_path)
    users = Users()
    users.add("guard", "secret")
    save_users(tmp_path / "users", users)
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.authority}\n"
        'sasl.jaas.config=a.LoginModule required username="guard" password="secret";\n',
        encoding="latin-1",
    )
    options = {
        "sasl.credentials.file": str(tmp_path / "users"),
        "ssl.keystore.location": str(certificates.server),
    }
    with EmbeddedCluster(2, options=options) as cluster:
        cluster.create_topic("orders", [[1, 2]], {"cleanup.policy": "compact"})
        reach = ("-b", cluster.bootstrap_servers, "--command-config", properties)
        for words in (("freeze", "orders"), ("status",), ("thaw", "orders"), ("run", "--once")):
            answer = run_sexton("guard", *words, *reach, "--format", "json")
            assert answer.code == 0, answer.stderr
        assert run_sexton("guard", "status", "-b", cluster.bootstrap_servers).code == 1, "stranger"
