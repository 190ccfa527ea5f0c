"""The table of APIs agrees with the classes it stands for, and importing it imports none."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sexton.protocol
from sexton.protocol import registry


def test_the_table_says_what_the_classes_say() -> None:
    kafkas = [api for api in registry.apis() if api.key < registry.FIRST_PRIVATE_KEY]
    assert len(kafkas) == 57
    for api in kafkas:
        for kind in (api.request, api.response):
            said = (kind.API_KEY, kind.VALID_VERSIONS, kind.FLEXIBLE_VERSIONS)
            assert said == (api.key, api.versions, api.flexible)


def test_a_version_that_may_still_change_is_not_stable() -> None:
    unstable = {api.name: api.stable for api in registry.apis() if api.stable != api.versions}
    assert unstable == {"InitProducerId": range(6)}


def loaded(code: str) -> set[str]:
    """Which of our modules, and of those that the core must not use, `code` loads."""
    show = "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + show], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = ("sexton.protocol", "asyncio", "socket", "threading", "logging", "uuid", "json")
    return {name for name in done.stdout.split() if name.startswith(wanted)}


def test_importing_the_package_loads_nothing_else() -> None:
    assert loaded("import sexton.protocol") == {"sexton.protocol"}


def test_only_the_messages_that_are_used_are_loaded() -> None:
    code = (
        "from sexton.protocol import decode_request; decode_request(b'\\0\\x12\\0\\0' + bytes(6))"
    )
    messages = {name for name in loaded(code) if "messages." in name}
    assert messages == {"sexton.protocol.messages.api_versions"}


def test_every_public_name_can_be_had() -> None:
    for name in sexton.protocol.__all__:
        assert getattr(sexton.protocol, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'decoed'"):
        _ = sexton.protocol.decoed
