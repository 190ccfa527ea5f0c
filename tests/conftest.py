"""What all tests share: how hard Hypothesis searches, `--rewrite`, and a command line to call."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import datadriven

# `ci`: the same cases in every run, so that a red build stays red until someone mends it.
# `explore` (`make soak`): new cases each time.
# Neither has a deadline, since the first call of a kernel compiles it.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite", action="store_true", help="record the answers of text cases in their files"
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # or no child would hear Ctrl-C
    datadriven.rewriting = bool(config.getoption("--rewrite"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start Kafka share one worker (`--dist loadgroup`): two clusters at once starve."""
    for item in items:
        if item.get_closest_marker("kafka") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("kafka"))


@dataclass(frozen=True, slots=True)
class Result:
    """How one command ended, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """stdout, which must be exactly one JSON object."""
        answer = json.loads(self.stdout)
        assert isinstance(answer, dict)
        return answer

    @property
    def json_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


RunSexton = Callable[..., Result]


@pytest.fixture
def run_sexton(monkeypatch: pytest.MonkeyPatch) -> RunSexton:
    """Calls `sexton` in this process, as if piped: `run_sexton("log", "verify", path)`."""

    def run(*arguments: object) -> Result:
        from sexton.cli.main import main

        stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            patch.setattr(sys, "stderr", stderr)
            code = main([str(argument) for argument in arguments])
        printed = []
        for stream in (stdout, stderr):
            stream.seek(0)
            printed.append(stream.read())
        return Result(code, *printed)

    return run
