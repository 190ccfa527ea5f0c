"""Every option and setting is on the pages about configuration, and nothing else."""

from __future__ import annotations

import re

from sexton.broker.options import known_options
from sexton.cli.up import FOR_ONE_MACHINE
from sexton.client.setting_names import OF_A_JVM, OF_SECURITY, USED
from sexton.machines.controller import ControllerConfig
from sexton.node.topic_options import TOPIC_OPTIONS
from tests.docs.blocks import ROOT
from tools import make_config_reference

PAGE = (ROOT / "docs/reference/config.md").read_text(encoding="utf-8")
# os.environ.get("NAME"), os.environ.setdefault("NAME", ...), and DATA_VARIABLE = "NAME"
VARIABLE = re.compile(r'(?:environ\.[a-z]+\(|^[A-Z]+_VARIABLE = )"([A-Z][A-Z_]+)"', re.MULTILINE)


def test_the_page_of_options_says_what_the_code_says() -> None:
    written = make_config_reference.PAGE.read_text(encoding="utf-8")
    assert written == make_config_reference.page(), "out of date: run `make docs`"


def test_every_option_of_brokers_and_topics_is_there() -> None:
    named = set(re.findall(r"^\| `([a-z0-9.]+)` \|", make_config_reference.page(), re.MULTILINE))
    assert named == {*known_options(), *TOPIC_OPTIONS}


def test_an_option_that_kafka_does_not_have_says_so() -> None:
    """Of the others the page says that they mean what they mean in Kafka."""
    limits = (ROOT / "docs/reference/limits.md").read_text(encoding="utf-8")
    ours = {
        *re.findall(r"^\| \*`([a-z.]+)`\*", limits, re.MULTILINE), "metadata.tail.records",
        "producer.ids.per.block", "retry.backoff.ms", "sasl.credentials.file",
    }  # fmt: skip
    page = make_config_reference.page()
    told = set(re.findall(r"^\| `([a-z.]+)` .*; ours, not Kafka's", page, re.MULTILINE))
    assert len(ours) == 11 and told == ours


def test_every_setting_of_clients_is_there() -> None:
    section = PAGE.partition("## Kafka client settings")[2].partition("\n## ")[0]
    told = set(re.findall(r"`((?:security|sasl|ssl|enable)\.[a-z.]+)`", section))
    assert OF_SECURITY <= told <= OF_SECURITY | OF_A_JVM | {"ssl.", "sasl."}
    assert all(f"`{name}`" in section for name in USED)


def test_every_variable_of_the_environment_is_there() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    used = {name for text in sources for name in VARIABLE.findall(text)}
    section = PAGE.partition("## Environment variables")[2]
    told = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = {name for cell in told for name in re.findall("`([A-Z_]+)`", cell)}
    assert named == used | {"COLUMNS"}  # which rich and typer read


def test_what_up_does_otherwise_than_kafka_is_told() -> None:
    page = (ROOT / "docs/how-to/run-a-cluster.md").read_text(encoding="utf-8")
    table = page.partition("| option | here | in Kafka |")[2].partition("\n\n")[0]
    told = dict(re.findall(r"^\| `([a-z.]+)` \| ([^ :,]+)", table, re.MULTILINE))
    ours = {"default.replication.factor": "3", "auto.leader.rebalance.enable": "false"}
    assert told == ours | FOR_ONE_MACHINE
    assert ControllerConfig().auto_leader_rebalance_enable is False
