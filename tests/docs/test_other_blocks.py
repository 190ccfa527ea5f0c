"""Blocks that are files for other programs: they parse, and what they name exists."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from sexton.base.errors import ConfigError
from sexton.broker.options import known_options
from sexton.cli.main import build
from sexton.cli.properties import parse_properties
from sexton.client.settings import client_config
from sexton.guard.metrics import METRICS
from sexton.survey.baseline import load_baseline
from tests.certificates import make_certificates
from tests.docs.blocks import ALL, Block


def of(language: str) -> list[Block]:
    return [block for block in ALL if block.language == language]


def with_ids(blocks: list[Block]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", blocks, ids=[block.where for block in blocks])


def parse_command(words: list[str]) -> None:
    """As `sexton` would; raises if it would refuse."""
    command, context = build(), None
    while hasattr(command, "resolve_command"):
        context = command.make_context(
            "sexton", list(words), parent=context, resilient_parsing=True
        )
        _, found, _ = command.resolve_command(context, list(words))
        assert found is not None
        command, words = found, words[1:]
    command.make_context("sexton", list(words), parent=context)


def commands_in(value: Any) -> Iterator[list[str]]:
    """Every `args` of a container that runs sexton."""
    if isinstance(value, dict):
        if "args" in value:
            words = [str(word) for word in value["args"]]
            yield words[1:] if words[0] == "sexton" else words
        for each in value.values():
            yield from commands_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from commands_in(each)


@with_ids(of("yaml"))
def test_yaml_names_commands_and_metrics_that_there_are(block: Block) -> None:
    told = yaml.safe_load(block.text)
    assert isinstance(told, dict)
    for words in commands_in(told):
        parse_command(words)
    for name in re.findall(r"sexton_guard_\w+", block.text):
        assert name in METRICS


@with_ids(of("properties"))
def test_properties_are_settings_of_a_client(block: Block, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    token = tmp_path / "token"
    token.write_text("secret")
    settings = {
        name: value.replace("authority.pem", str(made.authority))
        .replace("auditor.pem", str(made.client))
        .replace("/run/secrets/kafka-token", str(token))
        for name, value in parse_properties(block.text).items()
    }
    client_config(settings)
    with pytest.raises(ConfigError):
        client_config({**settings, "ssl.nonsense": "1"})


@with_ids(of("json"))
def test_json_is_what_is_read_or_written(block: Block, tmp_path: Path) -> None:
    if "acknowledged" in block.text:
        path = tmp_path / "known.json"
        path.write_text(block.text)
        assert len(load_baseline(path).acknowledged) == 1
        return
    for line in block.text.splitlines():
        assert isinstance(json.loads(line), dict)


@with_ids(of("ini"))
def test_an_ini_file_says_what_there_is(block: Block) -> None:
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(block.text.replace("\\\n", " "))
    if "pytest" in parser:
        lines = parser["pytest"]["kafka_options"].split()
        assert {line.partition("=")[0] for line in lines} <= set(known_options())
    else:
        words = shlex.split(parser["Service"]["ExecStart"])
        assert words[0].endswith("/sexton")
        parse_command(words[1:])


def test_what_cron_runs_is_a_command() -> None:
    (line,) = [
        line
        for block in of("sh")
        for line in block.text.splitlines()
        if re.match(r"\d+ \d+ \* \* \*", line)
    ]
    words = shlex.split(line)
    assert words[6] == "sexton"
    parse_command(words[7:])


def test_every_language_of_a_block_has_its_test() -> None:
    known = {"", "text", "console", "sh", "python", "py", "yaml", "properties", "json", "ini"}
    assert {block.language for block in ALL} <= known


def test_a_command_that_there_is_not_would_be_noticed() -> None:
    with pytest.raises(Exception, match="nonsense"):
        parse_command(["guard", "run", "-b", "kafka:9092", "--nonsense"])
