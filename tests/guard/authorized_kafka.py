"""Apache Kafka with users and an authorizer: nobody may do what no ACL allows.

Beside the listener of the harness, whose nameless user may do anything, each node has one where
users say who they are (SASL/PLAIN).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_node import KafkaNode
from sexton.testing.ports import LOOPBACK, ReservedPort

PASSWORD = "secret"
CLUSTER_NAME = "kafka-cluster"
KINDS = {
    "topic": ResourceType.TOPIC,
    "cluster": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Create": "CREATE",
    "Read": "READ",
    "Write": "WRITE",
    "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "AlterConfigs": "ALTER_CONFIGS",
}


@dataclass(frozen=True, slots=True)
class Allowed:
    """One row of a table of ACLs."""

    kind: str  # one of KINDS
    name: str
    operations: tuple[str, ...]  # as Kafka's documentation spells them


class AuthorizedKafka(ApacheKafka):
    def __init__(self, config: KafkaConfig, users: Iterable[str]) -> None:
        self._users = tuple(users)
        self._ports: dict[int, ReservedPort] = {}
        super().__init__(config)

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def _properties(self, node: KafkaNode) -> dict[str, object]:
        found = super()._properties(node)
        port = self._ports.setdefault(node.node_id, ReservedPort())
        there = f",USERS://{LOOPBACK}:{port.number}"
        names = " ".join(f'user_{user}="{PASSWORD}"' for user in self._users)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            **found,
            "listeners": f"{found['listeners']}{there}",
            "advertised.listeners": f"{found['advertised.listeners']}{there}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                f"{found['listener.security.protocol.map']},USERS:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f"{module} required {names};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def close(self) -> None:
        super().close()
        for port in self._ports.values():
            port.release()

    @property
    def for_users(self) -> str:
        return ",".join(f"{LOOPBACK}:{port.number}" for port in self._ports.values())

    def allow(self, table: Mapping[str, Iterable[Allowed]]) -> None:
        """By user."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        acls = [
            AclBinding(
                KINDS[row.kind], row.name, ResourcePatternType.LITERAL, f"User:{user}", "*",
                AclOperation[OPERATIONS[operation]], AclPermissionType.ALLOW,
            )
            for user, rows in table.items()
            for row in rows
            for operation in row.operations
        ]  # fmt: skip
        for done in admin.create_acls(acls).values():
            done.result(60)


def write_properties(path: Path, user: str) -> Path:
    """What Kafka's own tools take with --command-config."""
    settings: Mapping[str, str] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'a.LoginModule required username="{user}" password="{PASSWORD}";',
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "latin-1")
    return path
