"""An audit says who it is, as any client: TLS and a password, from a properties file."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer

from sexton.broker.users import Users, save_users
from sexton.testing.embedded import EmbeddedCluster
from tests.certificates import make_certificates
from tests.conftest import RunSexton

PASSWORD = "correct horse"


def properties(path: Path, authority: Path, password: str) -> Path:
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority}\n"
        f'sasl.jaas.config=a.LoginModule required username="auditor" password="{password}";\n',
        encoding="latin-1",
    )
    return path


def test_replicas_of_a_secured_cluster_are_read_and_compared(
    run_sexton: RunSexton, tmp_path: Path
) -> None:
    certificates = make_certificates(tmp_path)
    users = Users()
    users.add("auditor", PASSWORD)
    save_users(tmp_path / "users", users)
    options = {
        "sasl.credentials.file": str(tmp_path / "users"),
        "ssl.keystore.location": str(certificates.server),
    }
    known = properties(tmp_path / "known.properties", certificates.authority, PASSWORD)
    wrong = properties(tmp_path / "wrong.properties", certificates.authority, "wrong")
    with EmbeddedCluster(options=options) as cluster:
        cluster.create_topic("orders", [[1, 2, 3]], {"cleanup.policy": "compact"})
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "auditor",
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(certificates.authority),
            }
        )
        for number in range(20):
            producer.produce("orders", f"value {number}", f"key {number}")
        assert producer.flush(60) == 0
        page = tmp_path / "audit.html"
        asked = ("audit", "orders:0", "-b", cluster.bootstrap_servers, "--engine", "local")
        answer = run_sexton(
            *asked, "--command-config", known, "--format", "json", "--html", page
        )  # fmt: skip
        assert answer.code == 0, answer.stderr
        (topic,) = answer.json["topics"]
        assert (topic["verdict"], topic["replicas"], topic["records"]) == ("agree", 3, 60)
        assert PASSWORD not in answer.stdout + page.read_text(encoding="utf-8")

        # The negative controls: nobody is told that replicas agree which he may not read.
        for settings in (("--command-config", wrong), ()):
            stranger = run_sexton(*asked, *settings, "--format", "json")
            assert stranger.code == 1 and stranger.json["error"], stranger.stdout
            assert "topics" not in stranger.json
