"""A Kafka for every test that asks for one: pytest fixtures over the embedded cluster.

    def test_orders(kafka):                       one broker, fresh and empty, for this test
    def test_failover(kafka_cluster):             three brokers
    def test_more(start_kafka):                   as many clusters as one likes, of any shape

A cluster takes some ten milliseconds to start, so no test has to share one, nor to find unused
topic names. To share one all the same, override a fixture:

    @pytest.fixture(scope="session")
    def kafka(start_kafka):
        return start_kafka(brokers=1)

Broker options come from the marker `kafka_options` or, for a whole project, from the setting of the
same name. pytest loads this file in every run of everyone who has sexton installed: it imports
nothing of ours until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from sexton.testing.embedded import EmbeddedCluster

_MARKER = "kafka_options"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        _MARKER, "Kafka's broker options for sexton's fixtures, one name=value a line", "linelist"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(brokers=..., compaction=..., options=...): how sexton's cluster for this test"
        " is to be; whatever EmbeddedCluster takes",
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A Kafka with one broker, fresh and empty; clients want its `bootstrap_servers`."""
    with _cluster(request, 1) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A Kafka with three brokers, fresh and empty: kill(2), restart(2), elect("orders", 0, 3)."""
    with _cluster(request, 3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def start_kafka(request: pytest.FixtureRequest) -> Iterator[Callable[..., EmbeddedCluster]]:
    """Starts clusters of any shape; they end with the session, or when somebody closes them."""
    with ExitStack() as clusters:

        def start(brokers: int = 1, **named: Any) -> EmbeddedCluster:
            chosen = {**named, "options": {**_ini_options(request), **named.get("options", {})}}
            return clusters.enter_context(_embedded(brokers, chosen))

        yield start


def _cluster(request: pytest.FixtureRequest, brokers: int) -> EmbeddedCluster:
    named: dict[str, Any] = {"brokers": brokers}
    options = _ini_options(request)
    for marker in reversed(list(request.node.iter_markers(_MARKER))):  # the nearest counts most
        if marker.args:
            pytest.fail(f"{_MARKER} takes names only, such as {_MARKER}(brokers=2)", pytrace=False)
        options.update(marker.kwargs.get("options", {}))
        named.update(marker.kwargs)
    named["options"] = options
    return _embedded(named.pop("brokers"), named)


def _embedded(brokers: int, named: dict[str, Any]) -> EmbeddedCluster:
    from sexton.testing.embedded import EmbeddedCluster

    return EmbeddedCluster(brokers, **named)


def _ini_options(request: pytest.FixtureRequest) -> dict[str, str]:
    options: dict[str, str] = {}
    for line in request.config.getini(_MARKER):
        name, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"{_MARKER}: {line!r} is not name=value")
        options[name.strip()] = value.strip()
    return options
