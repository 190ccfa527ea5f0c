"""The panic button says which topics it does not reach, and of which it does not know."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import Any

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.cli.guard_panic import _tell
from sexton.cli.output import Output
from sexton.cli.writers import Format
from sexton.client.config_changes import DescribedOptions, OptionValue
from sexton.guard import panic
from sexton.machines.guard_notes import FOREVER, MAX_LAG, MIN_LAG, Lags

COMPACTED = {
    "cleanup.policy": OptionValue("compact", None),
    "delete.retention.ms": OptionValue("86400000", None),
    MIN_LAG: OptionValue("0", None),
    MAX_LAG: OptionValue(FOREVER, None),
}
DENIED = Refused(KafkaError.TOPIC_AUTHORIZATION_FAILED, "topic secret")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, str], dict[str, str]]:
    """Of three topics, of which one may not be looked at."""

    async def describe(*_: object) -> DescribedOptions:
        own = {**COMPACTED, MIN_LAG: OptionValue("5", "5")}
        return DescribedOptions({"own": own, "plain": COMPACTED}, {"secret": DENIED})

    class Asked:
        async def topology(self) -> Any:
            return SimpleNamespace(topics=["own", "plain", "secret"])

    monkeypatch.setattr(panic, "describe_topics", describe)
    return asyncio.run(panic.not_reached(Asked()))  # type: ignore[arg-type]


def test_a_topic_that_may_not_be_looked_at_is_named(
    found: tuple[dict[str, str], dict[str, str]],
) -> None:
    reached, seen = found
    assert reached == {"own": "5"} and seen == {"secret": DENIED.why}


def test_who_panics_hears_that_it_is_not_the_whole_answer() -> None:
    stderr = io.StringIO()
    out = Output("guard panic", Format.jsonl, io.StringIO(), stderr)
    _tell(out, panic.Panicked(True, Lags(), {}, {"secret": "not allowed"}))
    assert out.exit_code == 3 and "options of secret: not allowed" in stderr.getvalue()
