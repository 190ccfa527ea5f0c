"""An embedded broker for all tests here, and the command to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sexton.cli.main import main
from sexton.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedCluster]:
    """Keeps everything: tests write records of any time, and it lives for minutes."""
    with EmbeddedCluster(brokers=1, options={"log.retention.ms": -1}) as cluster:
        yield cluster


@pytest.fixture
def validate(
    broker: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`validate(topic, "--value", "int")`: exit code, stdout, stderr."""

    def run(topic: str, *arguments: str) -> tuple[int, str, str]:
        where = ("-b", broker.bootstrap_servers, "--engine", "local")
        code = main(["validate", topic, *where, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
