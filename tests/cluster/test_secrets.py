"""A password is for the broker alone: no command prints it, writes it down or logs it.

Each command runs against brokers that ask for one, with the right password, a wrong one, and in a
file with mistakes around it, each time with tracebacks asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.broker.users import Users, save_users
from sexton.testing.embedded import EmbeddedCluster
from tests.conftest import RunSexton

PASSWORD = "correct-horse-battery-staple"
WRONG = "incorrect-horse-battery-staple"
SECRET = "horse-battery-staple"

COMMANDS = (
    ("cluster", "topics"),
    ("cluster", "status"),
    ("audit", "orders", "--html", "report.html", "--engine", "local"),
    ("guard", "plan"),
    ("guard", "status"),
    ("repair", "orders", "--dry-run"),
    ("txn", "list"),
    ("txn", "explain", "orders:0"),
)
SETTINGS = {
    "right": f'x required username="alice" password="{PASSWORD}";',
    "wrong": f'x required username="alice" password="{WRONG}";',
    "without a user": f'x required password="{PASSWORD}";',
    "without an end": f'x required username="alice" password="{PASSWORD}',
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    path = tmp_path_factory.mktemp("users") / "users"
    users = Users()
    users.add("alice", PASSWORD)
    save_users(path, users)
    assert PASSWORD.encode() not in path.read_bytes()
    with EmbeddedCluster(1, options={"sasl.credentials.file": str(path)}) as running:
        running.create_topic("orders", [[1]])
        yield running


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_tells_the_password(
    run_sexton: RunSexton,
    brokers: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    how: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEXTON_DEBUG", "1")
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.jaas.config={SETTINGS[how]}\n",
        encoding="latin-1",
    )
    words = (*command, "-b", brokers.bootstrap_servers, "--command-config", str(properties))
    answer = run_sexton(*words, "--format", "json")
    assert (answer.code in (0, 1)) if how == "right" else (answer.code != 0), answer.stderr
    assert SECRET not in answer.stdout + answer.stderr
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path != properties]
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]
