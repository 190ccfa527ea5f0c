"""Which refusals end a batch at once, and which may have passed at the next attempt?"""

from __future__ import annotations

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.retrying import PATIENT
from sexton.spark import sink_insisting
from sexton.spark.sink_insisting import IsWanted, insist, rest
from sexton.spark.sink_marker import Batch
from sexton.spark.sink_protocol import Plan
from sexton.spark.sink_refusals import lasting_refusal, may_be_renewed
from sexton.spark.sink_settings import sink_settings

NOT_LET_IN = Refused(KafkaError.SASL_AUTHENTICATION_FAILED, "broker:9092: not let in")
IN_A_TASK = RuntimeError(f"Traceback ...\nsexton.base.errors.Refused: {NOT_LET_IN}\n")
PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
TOKEN = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "t"}
TOKEN_FILE = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "file:///run/secrets/kafka-token",
}


def plan_with(login: dict[str, str], *, committed_before: bool = True) -> Plan:
    batch = Batch("orders", 7, query="q", run="r", committed_before=committed_before)
    return Plan(login, batch, TopicPartition("orders", 0), 60_000, PATIENT)


@pytest.mark.parametrize("error", [NOT_LET_IN, IN_A_TASK])
@pytest.mark.parametrize("login", [PASSWORD, TOKEN])
def test_who_is_not_let_in_will_not_be(error: Exception, login: dict[str, str]) -> None:
    found = lasting_refusal(error, plan_with(login))
    assert found is not None
    assert found.error == KafkaError.SASL_AUTHENTICATION_FAILED
    assert "see kafka.security.protocol" in str(found)


@pytest.mark.parametrize("error", [NOT_LET_IN, IN_A_TASK])
@pytest.mark.parametrize(
    ("login", "committed_before", "is_waited_for"),
    [
        (TOKEN_FILE, True, True),  # each connection reads it anew, and one was good before
        (TOKEN_FILE, False, False),
        (TOKEN, True, False),
        (PASSWORD, True, False),
    ],
)
def test_a_token_that_has_expired_is_renewed_by_somebody(
    error: Exception, login: dict[str, str], committed_before: bool, is_waited_for: bool
) -> None:
    """A stream of months does not end over one that came late."""
    plan = plan_with(login, committed_before=committed_before)
    refusal = lasting_refusal(error, plan)
    assert refusal is not None
    assert may_be_renewed(refusal, plan) is is_waited_for


def test_it_is_given_time_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as for a broker that is away, in all."""
    pauses: list[float] = []

    def wait(for_ms: float, _is_wanted: IsWanted) -> bool:
        pauses.append(for_ms)
        return True

    monkeypatch.setattr(sink_insisting, "rest", wait)
    settings = sink_settings(topic="orders", bootstrap_servers="kafka:9092", attempts=4)

    def attempt(_plan: Plan, number: int) -> int:
        if number < 4:
            raise NOT_LET_IN
        return number

    assert insist("batch 7", settings, lambda _ms: plan_with(TOKEN_FILE), attempt) == 4
    assert pauses == [settings.patience.timeout_ms / 3] * 3


def test_a_query_that_is_stopped_waits_no_longer() -> None:
    looks = iter([True, False])
    assert not rest(3_600_000, lambda: next(looks))
    assert rest(0, lambda: True)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError(
                "An exception was thrown:\nTraceback (most ...):\n  f(x)\nValueError: mine\n"
            ),
            "ValueError: mine",
        ),
        (
            RuntimeError(
                "It failed:\nTraceback (most ...):\n  f(x)\nOSError: full\n\tat java.lang\n"
            ),
            "OSError: full",  # and not where Java was
        ),
        (RuntimeError("[DIVIDE_BY_ZERO] by zero\n== SQL ==\n  1/0\n"), "[DIVIDE_BY_ZERO] by zero"),
        (ValueError(), "ValueError()"),
    ],
)
def test_the_log_says_what_failed_and_not_that_there_is_a_traceback(
    error: Exception, said: str
) -> None:
    assert sink_insisting.in_one_line(error) == said
