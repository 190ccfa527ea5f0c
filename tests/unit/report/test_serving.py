"""An address that cannot be listened on: whoever chose it is told which part to choose again."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from sexton.base.errors import ConfigError
from sexton.report.serving import Page, Server, cannot_listen

NOT_OURS = "192.0.2.1"  # kept for documentation (RFC 5737): no machine has it


def test_an_address_of_another_machine_is_not_a_matter_of_the_port() -> None:
    server = Server(NOT_OURS, 0, lambda _: Page(""), option="--metrics-port")
    with pytest.raises(ConfigError) as caught:
        asyncio.run(server.start())
    assert caught.value.why == "this machine does not have that address"
    assert caught.value.hint == "choose another --metrics-host"


def test_a_port_that_is_taken_is() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = Server("127.0.0.1", port, lambda _: Page(""), option="--metrics-port")
        with pytest.raises(ConfigError) as caught:
            asyncio.run(server.start())
    assert caught.value.subject == f"127.0.0.1:{port}"
    assert caught.value.why == "cannot listen there: address already in use"
    assert caught.value.hint == "choose another --metrics-port, or 0 for any that is free"


def test_a_name_that_nobody_knows_is_told_apart() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    told = cannot_listen("no.such.name", 9092, unknown, "--port")
    assert told.why == "that name leads to no address: name or service not known"
    assert told.hint == "choose another --host"


def test_whatever_else_is_wrong_is_said_in_the_words_of_the_system() -> None:
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert (
        cannot_listen("::1", 22, denied, "--port").why == "cannot listen there: permission denied"
    )
