"""Which refusals end a batch at once, and which may have passed at the next attempt?"""

from __future__ import annotations

import pytest

from sexton.base.errors import Refused
from sexton.base.kafka_errors import KafkaError
from sexton.base.partitions import TopicPartition
from sexton.client.retrying import PATIENT
from sexton.spark.sink_marker import Batch
from sexton.spark.sink_protocol import Plan
from sexton.spark.sink_refusals import lasting_refusal

NOT_LET_IN = Refused(KafkaError.SASL_AUTHENTICATION_FAILED, "broker:9092: not let in")
IN_A_TASK = RuntimeError(f"Traceback ...\nsexton.base.errors.Refused: {NOT_LET_IN}\n")
PASSWORD = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}
TOKEN = {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "t"}
TOKEN_FILE = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "file:///run/secrets/kafka-token",
}


def plan_with(login: dict[str, str]) -> Plan:
    batch = Batch("orders", 7, query="q", run="r")
    return Plan(login, batch, TopicPartition("orders", 0), 60_000, PATIENT)


@pytest.mark.parametrize("error", [NOT_LET_IN, IN_A_TASK])
@pytest.mark.parametrize("login", [PASSWORD, TOKEN])
def test_who_is_not_let_in_will_not_be(error: Exception, login: dict[str, str]) -> None:
    found = lasting_refusal(error, plan_with(login))
    assert found is not None
    assert found.error == KafkaError.SASL_AUTHENTICATION_FAILED
    assert "see kafka.security.protocol" in str(found)


@pytest.mark.parametrize("error", [NOT_LET_IN, IN_A_TASK])
def test_a_token_that_has_expired_is_renewed_by_somebody(error: Exception) -> None:
    """Each connection reads it anew: a stream of months does not end over one that came late."""
    assert lasting_refusal(error, plan_with(TOKEN_FILE)) is None
