"""A broker that lies, is silent or hangs up: does the client say who and what, and never hang?"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sexton.base.errors import ConfigError, PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client, addresses_in
from sexton.client.connection import ClientConfig, Connection, NoAnswer, connect
from sexton.protocol import decode_request, encode_response
from sexton.protocol.frames import decode_response
from sexton.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from sexton.protocol.messages.fetch import FetchRequest
from sexton.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)

QUICK = ClientConfig(request_timeout_ms=200, socket_connection_setup_timeout_ms=200)
PATIENT = ClientConfig(request_timeout_ms=5_000, socket_connection_setup_timeout_ms=5_000)
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[tuple[str, int]]:
    """Somebody who reads frames and does with them as `answer` likes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await answer(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        yield host, port


def versions(*keys: ApiVersion) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), *keys])


async def well_behaved(payload: bytes, writer: asyncio.StreamWriter) -> None:
    header, request = decode_request(payload)
    version, number = header.request_api_version, header.correlation_id
    if isinstance(request, ApiVersionsRequest):
        writer.write(
            encode_response(versions(ApiVersion(3, 1, 12), ApiVersion(1, 4, 10)), version, number)
        )
    elif isinstance(request, MetadataRequest):
        mine = MetadataResponseBroker(1, *writer.get_extra_info("sockname")[:2])
        writer.write(encode_response(MetadataResponse(brokers=[mine]), version, number))


def talk_to(
    answer: Answer, talk: Callable[[Connection], Awaitable[None]], config: ClientConfig = PATIENT
) -> None:
    async def conversation() -> None:
        async with broker(answer) as (host, port):
            connection = await connect(host, port, config)
            try:
                await talk(connection)
            finally:
                connection.close()

    asyncio.run(conversation())


def test_both_sides_speak_the_highest_version_they_share() -> None:
    async def talk(connection: Connection) -> None:
        assert connection.version_of(MetadataRequest) == 12
        assert connection.version_of(MetadataRequest, range(4, 9)) == 8
        with pytest.raises(Refused, match=r"Fetch v4 to v10; v11 to v12 is needed"):
            connection.version_of(FetchRequest, range(11, 13))

    talk_to(well_behaved, talk)


def test_an_old_broker_is_asked_again_in_its_own_version() -> None:
    asked: list[int] = []

    async def old(payload: bytes, writer: asyncio.StreamWriter) -> None:
        header, _request = decode_request(payload)
        asked.append(header.request_api_version)
        if header.request_api_version > 2:
            refusal = ApiVersionsResponse(
                error_code=KafkaError.UNSUPPORTED_VERSION, api_keys=[ApiVersion(18, 0, 2)]
            )
            writer.write(encode_response(refusal, 0, header.correlation_id))
        else:
            answer = versions(ApiVersion(3, 0, 5))
            writer.write(encode_response(answer, header.request_api_version, header.correlation_id))

    async def talk(connection: Connection) -> None:
        assert asked == [4, 2]
        assert connection.version_of(MetadataRequest) == 5

    talk_to(old, talk)


def test_an_api_without_any_version_is_one_that_the_broker_does_not_have() -> None:
    async def strange(payload: bytes, writer: asyncio.StreamWriter) -> None:
        header, _request = decode_request(payload)
        answer = versions(ApiVersion(3, 5, 4))
        writer.write(encode_response(answer, header.request_api_version, header.correlation_id))

    async def talk(connection: Connection) -> None:
        with pytest.raises(Refused, match="does not have the API Metadata"):
            connection.version_of(MetadataRequest)

    talk_to(strange, talk)


@pytest.mark.parametrize("highest", [-1, -(2**15)])
def test_a_broker_that_has_no_version_of_apiversions_is_named(highest: int) -> None:
    async def strange(payload: bytes, writer: asyncio.StreamWriter) -> None:
        number = int.from_bytes(payload[4:8])
        refusal = ApiVersionsResponse(
            error_code=KafkaError.UNSUPPORTED_VERSION, api_keys=[ApiVersion(18, 0, highest)]
        )
        writer.write(encode_response(refusal, 0, number))

    async def talk(_connection: Connection) -> None:
        raise AssertionError("there is none")

    with pytest.raises(PeerError, match="UNSUPPORTED_VERSION"):
        talk_to(strange, talk)


def test_answers_find_their_requests() -> None:
    async def talk(connection: Connection) -> None:
        answers = await asyncio.gather(*(connection.ask(MetadataRequest()) for _ in range(20)))
        assert [answer.brokers[0].node_id for answer in answers] == [1] * 20

    talk_to(well_behaved, talk)


def test_an_answer_that_nobody_waits_for_any_more_is_passed_over() -> None:
    async def talk(connection: Connection) -> None:
        given_up = asyncio.create_task(connection.ask(MetadataRequest()))
        await asyncio.sleep(0)
        given_up.cancel()
        assert (await connection.ask(MetadataRequest())).brokers[0].node_id == 1

    talk_to(well_behaved, talk)


def test_ctrl_c_in_the_middle_of_an_answer_is_no_fault_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """asyncio's handler cancels whoever waits, between any two steps of ours."""
    place = "sexton.client.connection.decode_response"

    async def talk(connection: Connection) -> None:
        asking = asyncio.create_task(connection.ask(MetadataRequest()))

        def interrupted(*given: Any) -> Any:
            asking.cancel()
            return decode_response(*given)

        monkeypatch.setattr(place, interrupted)
        with pytest.raises(asyncio.CancelledError):
            await asking
        monkeypatch.setattr(place, decode_response)
        assert (await connection.ask(MetadataRequest())).brokers[0].node_id == 1

    talk_to(well_behaved, talk)


def test_silence_ends_and_costs_the_connection() -> None:
    async def silent_after_versions(payload: bytes, writer: asyncio.StreamWriter) -> None:
        if isinstance(decode_request(payload)[1], ApiVersionsRequest):
            await well_behaved(payload, writer)

    async def talk(connection: Connection) -> None:
        with pytest.raises(
            PeerError, match=r"127.0.0.1:\d+: did not answer Metadata within 200 ms"
        ):
            await connection.ask(MetadataRequest())
        assert not connection.is_open
        with pytest.raises(PeerError, match="did not answer Metadata"):
            await connection.ask(MetadataRequest())

    talk_to(silent_after_versions, talk, QUICK)


def test_silence_is_noticed_by_those_who_give_up_early_as_well() -> None:
    """Else they would be given the same connection again, and again."""

    async def silent_after_versions(payload: bytes, writer: asyncio.StreamWriter) -> None:
        if isinstance(decode_request(payload)[1], ApiVersionsRequest):
            await well_behaved(payload, writer)

    async def talk(connection: Connection) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.ask(MetadataRequest()), 0.01)
        with pytest.raises(PeerError, match="did not answer Metadata within 200 ms"):
            await connection.ask(MetadataRequest(), timeout_ms=2_000)

    talk_to(silent_after_versions, talk, QUICK)


def says(data: bytes) -> Answer:
    async def answer(payload: bytes, writer: asyncio.StreamWriter) -> None:
        if isinstance(decode_request(payload)[1], ApiVersionsRequest):
            await well_behaved(payload, writer)
        else:
            writer.write(data)

    return answer


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "announces an answer of 1213486160 bytes"),
        (struct.pack(">i", -1), "announces an answer of -1 bytes"),
        (struct.pack(">ii", 4, 77), "with the number 77, which nobody made"),
        (struct.pack(">iib", 5, 2, 0), "MetadataResponse v12"),
    ],
    ids=["another protocol", "negative size", "another number", "too short"],
)
def test_nonsense_is_named_and_ends_the_connection(data: bytes, complaint: str) -> None:
    async def talk(connection: Connection) -> None:
        with pytest.raises(PeerError, match=r"127\.0\.0\.1:\d+: .*" + complaint):
            await connection.ask(MetadataRequest())
        assert not connection.is_open

    talk_to(says(data), talk)


def test_a_broker_that_hangs_up_is_named_with_what_it_was_asked() -> None:
    async def hang_up(payload: bytes, writer: asyncio.StreamWriter) -> None:
        if isinstance(decode_request(payload)[1], ApiVersionsRequest):
            await well_behaved(payload, writer)
        else:
            writer.transport.abort()

    async def talk(connection: Connection) -> None:
        with pytest.raises(PeerError, match=r"closed the connection.*asked: Metadata"):
            await connection.ask(MetadataRequest())

    talk_to(hang_up, talk)


def test_who_must_log_in_does_so_before_anything_else() -> None:
    logged_in: list[str] = []

    async def authenticate(connection: Connection) -> None:
        logged_in.append(connection.peer)

    async def talk(connection: Connection) -> None:
        assert logged_in == [connection.peer]

    talk_to(well_behaved, talk, ClientConfig(authenticate=authenticate))


def test_a_closed_port_is_named() -> None:
    async def nobody() -> None:
        async with Client("127.0.0.1:1", QUICK) as client:
            with pytest.raises(PeerError, match=r"127\.0\.0\.1:1: cannot be reached"):
                await client.topology()

    asyncio.run(nobody())


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("kafka..example", 9092),
        (".kafka", 9092),
        (f"{'k' * 64}.example", 9092),
        ("127.0.0.1", 99_999),
        ("127.0.0.1", -1),
        ("kafka\0", 9092),
    ],
)
def test_a_broker_whose_address_cannot_be_is_one_that_cannot_be_reached(
    host: str, port: int
) -> None:
    """A broker advertises what its configuration says; the others can still be asked."""

    async def astray(payload: bytes, writer: asyncio.StreamWriter) -> None:
        header, request = decode_request(payload)
        if isinstance(request, ApiVersionsRequest):
            await well_behaved(payload, writer)
        else:
            told = MetadataResponse(brokers=[MetadataResponseBroker(1, host, port)])
            version, number = header.request_api_version, header.correlation_id
            writer.write(encode_response(told, version, number))

    async def use() -> None:
        async with (
            broker(astray) as (first_host, first_port),
            Client(f"{first_host}:{first_port}", QUICK) as client,
        ):
            with pytest.raises(NoAnswer, match="broker 1 "):
                await client.broker(1)
            assert sorted((await client.topology()).brokers) == [1]

    asyncio.run(use())


def test_a_client_goes_on_to_the_next_of_the_first_brokers() -> None:
    async def use() -> None:
        async with (
            broker(well_behaved) as (host, port),
            Client(f"127.0.0.1:1,{host}:{port}", QUICK) as client,
        ):
            assert sorted((await client.topology()).brokers) == [1]
            with pytest.raises(PeerError, match="broker 9: is not up"):
                await client.broker(9)

    asyncio.run(use())


def test_addresses_are_read_as_kafka_writes_them() -> None:
    assert addresses_in("a:1, b:65535,") == [("a", 1), ("b", 65535)]
    assert addresses_in("[::1]:9092") == [("::1", 9092)]


@pytest.mark.parametrize("wrong", ["", "host", "host:", ":9092", "host:0", "host:70000", "a:b"])
def test_an_address_without_a_port_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        addresses_in(wrong)
