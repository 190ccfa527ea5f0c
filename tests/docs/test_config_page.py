"""Every option and setting is on the pages about configuration, and nothing else."""

from __future__ import annotations

import re

from sexton.broker.options import known_options
from sexton.client import settings
from sexton.node.topic_options import TOPIC_OPTIONS
from tests.docs.blocks import ROOT
from tools import make_config_reference

PAGE = (ROOT / "docs/reference/config.md").read_text(encoding="utf-8")
VARIABLE = re.compile(r'"(SEXTON_[A-Z_]+)"')


def test_the_page_of_options_says_what_the_code_says() -> None:
    written = make_config_reference.PAGE.read_text(encoding="utf-8")
    assert written == make_config_reference.page(), "out of date: run `make docs`"


def test_every_option_of_brokers_and_topics_is_there() -> None:
    named = set(re.findall(r"^\| `([a-z0-9.]+)` \|", make_config_reference.page(), re.MULTILINE))
    assert named == {*known_options(), *TOPIC_OPTIONS}


def test_every_setting_of_clients_is_there() -> None:
    section = PAGE.partition("## Kafka client settings")[2].partition("\n## ")[0]
    told = set(re.findall(r"`((?:security|sasl|ssl|enable)\.[a-z.]+)`", section))
    assert told - {"ssl.", "sasl."} == settings._UNDERSTOOD


def test_every_variable_of_the_environment_is_there() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    used = {name for text in sources for name in VARIABLE.findall(text)}
    assert used == set(re.findall(r"`(SEXTON_[A-Z_]+)`", PAGE))
