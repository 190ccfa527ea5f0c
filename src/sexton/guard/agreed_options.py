"""What is set on a topic, or on all brokers, as brokers agree on it?

Any broker answers with what it has heard so far. One that is cut off from its controller, or merely
behind, shows options as they were before the last change. Whoever takes that for what is set notes
a wrong value as the one to be put back, or takes what is frozen for free and leaves it so for good.
So all brokers that are up are asked, each by its own:

    all that answer say the same, two at least if there are several     it is so
    they differ                                                         ask again, for a while

One that does not answer has no say. That a topic is not there is an answer like any other. What
counts where nothing is set may differ from broker to broker, by the file that each was started
with: that is no disagreement.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from sexton.base.errors import PeerError, Refused
from sexton.base.kafka_errors import KafkaError
from sexton.client.client import Client
from sexton.client.config_changes import OptionValue, Place, described
from sexton.machines.guard_views import SEVERAL

PATIENCE_S, PAUSE_S = 30.0, 0.1

Shown = dict[str, OptionValue] | None  # None: it knows of no such topic


async def agreed(client: Client, place: Place, names: Sequence[str]) -> dict[str, OptionValue]:
    """These options of a topic or of all brokers; PeerError if there is no agreement in time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        brokers = sorted((await client.topology([])).brokers)
        answers = await asyncio.gather(*(_said(client, place, names, node) for node in brokers))
        said = [each for some in answers for each in some]
        enough = len(said) >= max(1, min(SEVERAL, len(brokers)))
        if enough and all(_own(each) == _own(said[0]) for each in said):
            if said[0] is None:
                raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {place[1]}")
            return said[0]
        if time.monotonic() > deadline:
            raise _in_vain(place, len(said), len(brokers), enough)
        client.look_elsewhere()  # a broker that is cut off names others that are down
        await asyncio.sleep(PAUSE_S)


def _in_vain(place: Place, answered: int, brokers: int, enough: bool) -> PeerError:
    subject = place[1] or "the cluster"
    if enough:
        return PeerError(subject, "brokers do not agree about its options", "run it again")
    why = f"only {answered} of {brokers} brokers can be asked about its options"
    return PeerError(subject, why, "one alone may be out of date: make sure that more can be asked")


async def _said(client: Client, place: Place, names: Sequence[str], node: int) -> list[Shown]:
    """What that broker shows, if it answers."""
    try:
        return [await described(client, place, names, node)]
    except PeerError:
        return []
    except Refused as error:
        if error.error is not KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return [None]


def _own(shown: Shown) -> dict[str, str] | None:
    """What is set on it, and nothing else."""
    if shown is None:
        return None
    return {name: value.own for name, value in shown.items() if value.own is not None}
