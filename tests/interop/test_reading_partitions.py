"""Is a partition of Apache Kafka read whole: when its leader dies, with a token, with a quota?"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sexton.base.errors import SextonError
from sexton.client.client import Client
from sexton.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from sexton.spark.options import SourceOptions, parse
from sexton.spark.planning import plan_ranges, with_client
from sexton.spark.reading import read_range
from sexton.testing.apache_kafka import ApacheKafka, KafkaConfig
from sexton.testing.kafka_jars import KAFKA_4
from sexton.testing.ports import ReservedPort

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


def options_for(servers: str, **more: str) -> SourceOptions:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return parse({"kafka.bootstrap.servers": servers, "subscribe": "orders", **named})


def read(options: SourceOptions, after_first: object = None) -> list[dict[str, object]]:
    """What Spark's tasks would give, one after the other."""
    ranges = asyncio.run(with_client(options, lambda client: plan_ranges(client, options)))
    found: list[dict[str, object]] = []
    for wanted in ranges:
        for batch in read_range(options, wanted):
            found += batch.to_pylist()
            if callable(after_first):
                after_first()
                after_first = None
    return found


def write(kafka: ApacheKafka, count: int) -> None:
    told = {"bootstrap.servers": kafka.bootstrap_servers, "acks": "all", "batch.size": 2_000}
    producer = Producer(told)
    for number in range(count):
        producer.produce("orders", str(number).rjust(100), partition=0)
    assert producer.flush(60) == 0


def test_leaders_replicas_and_transactions() -> None:
    with ApacheKafka(KafkaConfig(KAFKA_4, nodes=3)) as kafka:
        kafka.create_topic("orders", [[1, 2, 3]])
        write(kafka, 500)
        writer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
        writer.init_transactions(60)
        for commit in (True, False, None):
            writer.begin_transaction()
            writer.produce("orders", str(commit), partition=0)
            assert writer.flush(60) == 0
            if commit is not None:
                (writer.commit_transaction if commit else writer.abort_transaction)(60)
        everything = options_for(
            kafka.bootstrap_servers, columns="offset,control,outcome,value",
            includeTransactions="true", startingOffsets='{"orders": {"0": 500}}',
        )  # fmt: skip
        told = [(row["offset"], row["control"], row["outcome"]) for row in read(everything)]
        assert told == [
            (500, None, "committed"), (501, "COMMIT", None), (502, None, "aborted"),
            (503, "ABORT", None), (504, None, "open"),
        ]  # fmt: skip
        settled = options_for(
            kafka.bootstrap_servers, columns="offset", kafka__isolation__level="read_committed",
            kafka__max__partition__fetch__bytes="4000", kafka__request__timeout__ms="5000",
        )  # fmt: skip
        found = read(settled, after_first=lambda: kafka.kill(kafka.leader_of("orders")))
        assert [row["offset"] for row in found] == list(range(501))
        away = options_for(
            kafka.bootstrap_servers, replica="each", columns="offset",
            kafka__default__api__timeout__ms="1000", kafka__request__timeout__ms="2000",
        )  # fmt: skip
        with pytest.raises(SextonError, match="broker 1"):
            read(away)


def test_tokens_and_quotas(tmp_path: Path) -> None:
    """Kafka's own unsecured tokens: what is in them counts, nobody has signed it."""
    kafka = ApacheKafka(KafkaConfig(KAFKA_4, nodes=1))
    port = ReservedPort()
    node = kafka.nodes[1]
    secured = f"BEARER://127.0.0.1:{port.number}"
    plain = f"PLAINTEXT://{node.address}"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    options = {
        "listeners": f"{plain},{secured},CONTROLLER://127.0.0.1:{node.controller_port.number}",
        "advertised.listeners": f"{plain},{secured}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BEARER:SASL_PLAINTEXT"
        ),
        "quota.window.num": 2,  # seconds over which a rate is measured
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.bearer.oauthbearer.sasl.jaas.config": (
            f'{module} required unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    kafka.config = replace(kafka.config, options=options)
    with kafka:
        kafka.create_topic("orders", [[1]])
        write(kafka, 800)
        file = tmp_path / "token"
        said = {
            "kafka__security__protocol": "SASL_PLAINTEXT",
            "kafka__sasl__mechanism": "OAUTHBEARER",
            "kafka__sasl__oauthbearer__token__endpoint__url": file.as_uri(),
        }
        file.write_text(token(lives_s=600), encoding="ascii")
        assert len(read(options_for(f"127.0.0.1:{port.number}", **said))) == 800
        asyncio.run(throttle(kafka.bootstrap_servers, bytes_per_s=20_000))
        began_s = time.monotonic()
        slowly = options_for(kafka.bootstrap_servers, kafka__max__partition__fetch__bytes="20000")
        assert len(read(slowly)) == 800  # an answer without records is not the end
        assert time.monotonic() - began_s > 0.5
        file.write_text(token(lives_s=-600), encoding="ascii")
        with pytest.raises(SextonError, match="SASL_AUTHENTICATION_FAILED"):
            read(options_for(f"127.0.0.1:{port.number}", **said))
    port.release()


async def throttle(servers: str, bytes_per_s: float) -> None:
    """A quota for clients like ours: Kafka answers without records, and with a time to wait."""
    entity = RequestEntityData("client-id", "sexton")
    rate = RequestEntryData([entity], [OpData("consumer_byte_rate", bytes_per_s, False)])
    async with Client(servers) as client:
        answer = await client.ask(AlterClientQuotasRequest([rate], False))
        assert [entry.error_code for entry in answer.entries] == [0]


def token(lives_s: int) -> str:
    now_s = int(time.time())
    claims = {"sub": "ada", "iat": now_s - 1_000, "exp": now_s + lives_s}
    parts = ({"alg": "none"}, claims)
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join(text.rstrip("=") for text in texts) + "."
