"""Topics on three brokers, for stories that the lab does not tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sexton.lab.divergences import QUICK
from sexton.lab.hands import ClientHands
from sexton.lab.stage import AWAY, Stage, gone
from sexton.testing.cluster import Cluster
from sexton.testing.waiting import until


class Enough(Exception):
    """What comes after the damage in a story of the lab is of no interest here."""


def stage(
    cluster: Cluster, name: str, *, replicas: tuple[int, ...] = (1, 2, 3), bumps: bool = False
) -> Stage:
    """`bumps`: every transaction has an epoch of its own (KIP-890)."""
    return Stage(cluster, ClientHands(cluster), QUICK, name, replicas=replicas, bumps=bumps)


def diverged(
    cluster: Cluster, wanted: Mapping[str, tuple[int, ...]], keys: Mapping[str, str] = {}
) -> dict[str, str]:
    """By name a topic with these replicas, in all of which a deleted key lives on broker 3.

    The key is k, or each letter of what `keys` says. One absence of broker 3 is enough for all of
    them. It leads in the end.
    """
    keys_of = {name: keys.get(name, "k") for name in wanted}
    stages = {name: stage(cluster, name, replicas=nodes) for name, nodes in wanted.items()}
    for name, each in stages.items():
        for key in keys_of[name]:
            each.write(key, "1")
    for name, each in stages.items():
        count = len(keys_of[name])
        each.until(lambda each=each, count=count: each.has_copied(count), "broker 3 has all")  # type: ignore[misc]
    cluster.kill(AWAY)
    for name, each in stages.items():
        cluster.wait_for(each.topic, 0, lambda state: AWAY not in state.isr)
        for key in keys_of[name]:
            each.write(key, None)
    last = {name: 2 * len(of_topic) - 1 for name, of_topic in keys_of.items()}  # tombstone
    for step in range(QUICK.most_steps):
        if all(gone(each.logs()[1], last[name]) for name, each in stages.items()):
            break
        cluster.let_time_pass(QUICK.step_ms)
        for each in stages.values():
            each.write("filler", str(step))
    cluster.restart(AWAY)
    for each in stages.values():
        each.wait_until_in_sync()
        each.elect()
    return {name: each.topic for name, each in stages.items()}


def killed_while_it_copies(cluster: Cluster, topic: str, notes: Path) -> None:
    """`sexton repair`, killed when the wrong copy on broker 3 is gone and the right one comes."""
    command = [sys.executable, "-m", "sexton.cli.main", "repair", topic, "--yes"]
    where = ["-b", cluster.bootstrap_servers, "--state", str(notes)]
    cluster.slow_down(3)
    try:
        with subprocess.Popen([*command, *where], stdout=subprocess.DEVNULL) as process:
            until(
                lambda: notes.exists() and json.loads(notes.read_bytes())["jobs"][0]["emptied"],
                "the wrong copy is deleted",
            )
            os.kill(process.pid, signal.SIGKILL)
    finally:
        cluster.speed_up(3)
