"""Kafka's own message classes read what we write, and write what we read, in every version.

Nothing is asked of a broker: a JVM holds the classes that Kafka generates from the same schemas,
and answers what they make of some bytes, and which bytes they make of some JSON.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from random import Random

import pytest

from sexton.base.errors import Refused, SextonError
from sexton.protocol import EncodeError, decode, encode
from sexton.protocol.headers import RequestHeader, ResponseHeader
from sexton.protocol.wire import Message
from sexton.testing.kafka_jars import KAFKA_4, kafka_jars
from tests.kafka_messages import (
    MessageOracle,
    kafka_json,
    kafkas_classes,
    mangled,
    random_message,
)
from tools.generate_messages import PACKAGE, generate, read_schemas

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]

MESSAGES_A_VERSION = 6
DAMAGED_A_VERSION = 12
EVERY_VERSION = [pytest.param(kind, java, id=kind.__name__) for kind, java in kafkas_classes()]


@pytest.fixture(scope="module")
def oracle() -> Iterator[MessageOracle]:
    with MessageOracle(kafka_jars(KAFKA_4)) as oracle:
        yield oracle


def outcome(function: Callable[..., object], *arguments: object) -> object:
    """What a call returned, or how it failed."""
    try:
        return function(*arguments)
    except (SextonError, EncodeError) as error:
        return error


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(("kind", "java"), EVERY_VERSION)
def test_kafka_and_we_write_and_read_the_same(
    kind: type[Message], java: str, oracle: MessageOracle
) -> None:
    random = Random(kind.__name__)
    for version in kind.VALID_VERSIONS:
        for _ in range(MESSAGES_A_VERSION):
            message = random_message(kind, version, random)
            data = encode(message, version)
            asked = kafka_json(message, version, with_records=True)
            answer = oracle.ask(java, version, json=asked, bytes=text(data))
            expected = kafka_json(message, version, with_records=False)
            assert answer == {"bytes": text(data), "json": expected, "again": text(data), "left": 0}
            assert decode(kind, data, version) == message


@pytest.mark.parametrize(("kind", "java"), EVERY_VERSION)
def test_defaults_are_kafkas(kind: type[Message], java: str, oracle: MessageOracle) -> None:
    for version in kind.VALID_VERSIONS:
        ours = kafka_json(kind(), version, with_records=False)
        assert oracle.ask(java, version) == {"json": ours}


@pytest.mark.parametrize(("kind", "java"), EVERY_VERSION)
def test_a_version_refuses_what_it_has_no_place_for_as_kafka_does(
    kind: type[Message], java: str, oracle: MessageOracle
) -> None:
    random = Random(kind.__name__)
    for version in kind.VALID_VERSIONS:
        for other in sorted({kind.VALID_VERSIONS[0], kind.VALID_VERSIONS[-1]}):
            message = random_message(kind, other, random)
            asked = kafka_json(message, other, with_records=True)
            answer = oracle.ask(java, version, json=asked, jsonVersion=other)
            why = answer.get("encodeError", "")
            ours = outcome(encode, message, version)
            if isinstance(ours, bytes):
                assert answer == {"bytes": text(ours)}
            else:
                assert isinstance(ours, Refused) or "it is None" in str(ours)
                # Which of the two Kafka says of a message that is wrong in both ways is chance.
                assert re.search("UnsupportedVersionException|NullPointerException", why)
                assert isinstance(ours, Refused) or "NullPointerException" in why


# What Kafka reads and we do not. Its readers take any negative length for null and any negative
# number of tags for none (a varint of 2^31 or more is negative to Java), put U+FFFD in place of
# what is not UTF-8, and never look whether a tagged field is as long as it says.
STRICTER = re.compile(
    "bytes follow the end of the message|not UTF-8|its length is -|than its tag says"
    "|tagged fields: tag|tagged fields: the message ends before it|[234][0-9]{9} (bytes|elements)"
    "|its varint has more than 32 bits|before it is a 1, or"
)


@pytest.mark.parametrize(("kind", "java"), EVERY_VERSION)
def test_what_we_read_in_damaged_bytes_is_what_kafka_reads(
    kind: type[Message], java: str, oracle: MessageOracle
) -> None:
    random = Random(kind.__name__)
    for version in kind.VALID_VERSIONS:
        for _ in range(DAMAGED_A_VERSION):
            data = mangled(random, encode(random_message(kind, version, random), version))
            answer = oracle.ask(java, version, bytes=text(data))
            ours = outcome(decode, kind, data, version)
            if isinstance(ours, Message) and "decodeError" in answer:
                # We pass over a tag that only a later version has, as over any unknown one.
                assert re.search(r"Tag \d+ is not valid for version", answer["decodeError"])
            elif isinstance(ours, Message):
                assert answer["json"] == kafka_json(ours, version, with_records=False)
                assert answer["left"] == 0
            else:
                assert "decodeError" in answer or STRICTER.search(str(ours)), ours


@pytest.mark.parametrize("version", [1, 2])
def test_request_headers_are_kafkas(version: int, oracle: MessageOracle) -> None:
    for client_id in (None, "", "me", "x" * 300):
        header = RequestHeader(1, 12, 7, client_id)
        asked = kafka_json(header, version, with_records=True)
        java = "org.apache.kafka.common.message.RequestHeaderData"
        assert oracle.ask(java, version, json=asked) == {"bytes": text(encode(header, version))}


@pytest.mark.parametrize("version", [0, 1])
def test_response_headers_are_kafkas(version: int, oracle: MessageOracle) -> None:
    java = "org.apache.kafka.common.message.ResponseHeaderData"
    answer = oracle.ask(java, version, json={"correlationId": 7})
    assert answer == {"bytes": text(encode(ResponseHeader(7), version))}


def test_the_generated_classes_are_those_that_would_be_generated_now() -> None:
    files = generate(read_schemas(kafka_jars(KAFKA_4)))
    present = [*(PACKAGE / "messages").glob("*.py"), *(PACKAGE / "coordinator").glob("*.py")]
    assert {path.relative_to(PACKAGE).as_posix() for path in present} == {
        *(name for name in files if "/" in name),
        "messages/__init__.py",
        "coordinator/__init__.py",
    }
    for name, content in files.items():
        assert (PACKAGE / name).read_text(encoding="utf-8") == content, f"{name}: `make messages`"
